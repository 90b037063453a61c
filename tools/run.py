"""`lamella-run`: execute a module of any level on given or seeded random inputs, and compare the levels.

Inputs come from a `.pt` file (a list of tensors and numbers, or a dict by argument name) or an `.npz` file (by argument
name, or arr_0, arr_1, …); without one they are random: floats from a normal distribution, integers below
`--high`, symbolic sizes from `--size s0=4`, the module's hints, or 2, 3, 4, ….
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from functools import partial
from typing import IO, TYPE_CHECKING, Any

from ..dialects.errors import LamellaError
from .arguments import bound
from .inputs import DIGITS, check_inputs, first_line, load_inputs, main_of, random_inputs
from .source import USER_ERROR as USER_ERROR
from .source import Arguments, boundary, checked, read

if TYPE_CHECKING:
    from torch import Tensor
    from xdsl.dialects.builtin import ModuleOp

    from ..lowering.options import Options


def _parser() -> argparse.ArgumentParser:
    raw = argparse.RawDescriptionHelpFormatter
    p = Arguments("lamella-run", description=__doc__, formatter_class=raw, allow_abbrev=False)
    p.add_argument("input", help="the module: a file, or - for standard input")
    p.add_argument("-i", "--inputs", metavar="FILE", help=".pt or .npz with the inputs")
    p.add_argument("--seed", type=int, default=0, help="of the random inputs")
    p.add_argument("--high", type=int, default=2, help="random integers are below this")
    p.add_argument("--size", action="append", default=[], metavar="s0=4", help="value of a symbolic size")
    p.add_argument("-o", "--output", metavar="FILE", help="save the outputs (.pt)")
    p.add_argument("--print", action="store_true", dest="show", help="print the outputs in full")
    p.add_argument("--native", action="store_true", help="take the module down to machine code first, at any level")
    p.add_argument("--compare-levels", action="store_true", help="lower pass by pass, run every level, compare")
    p.add_argument("--tolerance", type=bound, default=1e-4, help="relative, for --compare-levels")
    p.add_argument("--debug", action="store_true", help="show the traceback of an internal error")
    return p


def main(
    argv: Sequence[str] | None = None,
    stdin: IO[str] | None = None,
    stdout: IO[str] | None = None,
    stderr: IO[str] | None = None,
) -> int:
    """Run the tool; exit code 0, 1 for a user's error or levels that differ, 2 for a bug of ours."""
    out, err = stdout or sys.stdout, stderr or sys.stderr
    argv = sys.argv[1:] if argv is None else argv

    def run() -> int:
        if "-h" in argv or "--help" in argv:
            out.write(_parser().format_help())
            return 0
        return _run(_parser().parse_args(argv), stdin or sys.stdin, out)

    return boundary("lamella-run", run, out, err, debug="--debug" in argv)


def _run(arguments: argparse.Namespace, stdin: IO[str], out: IO[str]) -> int:
    import torch

    name, text = read(arguments.input, stdin)
    module = checked(text, name).module
    sizes = _sizes(arguments.size)
    if arguments.inputs:
        inputs = load_inputs(module, arguments.inputs)
        check_inputs(module, inputs)
    else:
        inputs = random_inputs(module, seed=arguments.seed, high=arguments.high, sizes=sizes)
    if arguments.compare_levels:
        return compare_levels(module, inputs, arguments.tolerance, out)
    outputs = execute(_lowered(module, _passes()[_first_pass(module) :]) if arguments.native else module, inputs)
    for i, o in enumerate(outputs):
        out.write(f"output {i}: {describe(o, full=arguments.show)}\n")
    if arguments.output:
        try:
            torch.save(list(outputs), arguments.output)
        except (OSError, RuntimeError) as error:
            raise LamellaError(f"cannot write '{arguments.output}': {first_line(error)}") from None
    return 0


def _sizes(given: Sequence[str]) -> dict[str, int]:
    sizes: dict[str, int] = {}
    for text in given:
        name, _, value = text.partition("=")
        if not value.isdecimal() or len(value) > DIGITS:
            raise LamellaError(f"--size {text}: expected a name and a number, such as s0=4")
        sizes[name] = int(value)
    return sizes


def execute(module: ModuleOp, inputs: Sequence[Any]) -> list[Any]:
    """The outputs of @main: interpreted at the aten, prims and loop levels, native at the host and llvm levels.

    Inputs are not modified: they are copied first. The module is not modified. Raises LamellaError.
    """
    import torch

    copies = [_copy(i) if isinstance(i, torch.Tensor) else i for i in inputs]
    main = main_of(module)
    if main.name == "func.func":
        from ..codegen.interpreter import run_module

        run: Any = partial(run_module, module)
    else:
        from .. import driver

        if main.name == "host.func":
            module = _lowered(module, _passes()[-2:])
        run = driver.native(module, driver.target_of(_options()))
    try:
        return list(run(copies))
    except (IndexError, RuntimeError) as error:  # what the data asks for
        raise LamellaError(str(error)) from None


def _copy(t: Tensor) -> Tensor:
    """A tensor with the same values, sizes and strides, and the same places for elements that share one."""
    storage = t.detach().untyped_storage().clone()
    return t.new_empty(0).set_(storage, t.storage_offset(), t.size(), t.stride())


def describe(value: Any, *, full: bool = False) -> str:
    """An output in one line, or in full."""
    import torch

    if not isinstance(value, torch.Tensor):
        return repr(value)
    head = f"{str(value.dtype).removeprefix('torch.')}{list(value.shape)} strides {list(value.stride())}"
    if full:
        return f"{head}\n{value}"
    if value.numel() == 0:
        return head
    x = value.double() if not value.is_complex() else value.abs().double()
    return f"{head} mean {x.mean():.6g} min {x.min():.6g} max {x.max():.6g}"


def compare_levels(module: ModuleOp, inputs: Sequence[Any], tolerance: float, out: IO[str]) -> int:
    """Run @main before and after every pass below it; 0 if all agree within the tolerance, else 1.

    Errors are relative to the largest magnitude of the first level's output.
    """
    from .. import driver

    start = _first_pass(module)
    module, first = module.clone(), execute(module, inputs)
    out.write(f"{'level':<20} {'largest error':>14}  same bits as the input level\n")
    worst: str | None = None
    for text in _passes()[start:]:
        name = text.partition("{")[0]
        driver.run_passes(module, text)
        if name == "kernel-to-llvm":
            continue  # half of the module is llvm then: nothing to run
        error, same = difference(first, execute(module, inputs))
        out.write(f"{name:<20} {error:>14.3e}  {'yes' if same else 'no'}\n")
        if worst is None and not error <= tolerance:
            worst = name
    out.write(f"first difference after {worst}\n" if worst else "all levels agree\n")
    return 1 if worst else 0


def _options() -> Options:
    """What the environment asks for. Raises OptionError."""
    from ..frontend.options import with_environment
    from ..lowering.options import Options

    return with_environment(Options())


def _passes() -> list[str]:
    """The passes from aten to llvm, each with its options."""
    from .. import driver

    options = _options()
    return driver.pipeline(options, driver.target_of(options)).split(",")


def _lowered(module: ModuleOp, passes: Sequence[str]) -> ModuleOp:
    from .. import driver

    module = module.clone()
    driver.run_passes(module, ",".join(passes))
    return module


def _first_pass(module: ModuleOp) -> int:
    """The index of the first pass that this module still has before it, told by the ops in it."""
    present = {op.name.partition(".")[0] for op in module.walk()} | {op.name for op in module.walk()}
    names = [text.partition("{")[0] for text in _passes()]
    if "host.func" in present:
        return names.index("kernel-to-llvm")
    if "loop.kernel" in present:
        return names.index("loop-schedule")
    if "loop" in present:
        return names.index("loop-fuse")
    if "llvm" in present:
        return len(names)
    return names.index("prims-canonicalize") if "prims" in present else 0


def difference(a: Sequence[Any], b: Sequence[Any]) -> tuple[float, bool]:
    """(largest error relative to the magnitude of `a`, all bits agree); infinite where shapes or NaNs differ."""
    import torch

    if len(a) != len(b):
        return float("inf"), False
    worst, same = 0.0, True
    for x, y in zip(a, b, strict=True):
        if not isinstance(x, torch.Tensor):
            worst, same = (worst, same) if x == y else (float("inf"), False)
            continue
        if x.shape != y.shape or x.dtype != y.dtype:
            return float("inf"), False
        wide = torch.complex128 if x.is_complex() else torch.float64
        p, q = x.to(wide), y.to(wide)
        same = same and bool(torch.equal(p.nan_to_num(), q.nan_to_num()) and torch.equal(p.isnan(), q.isnan()))
        if not torch.equal(p.isnan(), q.isnan()) or not torch.equal(p.isinf(), q.isinf()):
            return float("inf"), False
        finite = torch.where(p.isfinite(), (p - q).abs(), 0.0)
        scale = torch.where(p.isfinite(), p.abs(), 0.0).max().item() if p.numel() else 1.0
        worst = max(worst, finite.max().item() / max(scale, 1e-30)) if p.numel() else worst
    return worst, same


if __name__ == "__main__":
    sys.exit(main())
