"""A random program compiled and compared with eager: numbers, sizes, strides, dtypes, what becomes of arguments, and
which tensors share memory; at each of its calls.
"""

from __future__ import annotations

import traceback
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch._functorch._aot_autograd.utils import make_boxed_func
from torch.testing._comparison import default_tolerances

from ..codegen.runtime import unobserved
from ..driver import compile_module
from ..frontend.backend import Backend, Event
from ..frontend.fast_entry import fast_entry
from ..frontend.overlap import overlaps_itself
from ..frontend.sizes_of_data import sizes_of_data_as_eager
from ..lowering.options import Options
from .fuzz_calls import THREADS, at_once
from .fuzz_program import Program
from .op_compare import Mismatch, copies, has_memory, same_strides, shown
from .op_traced import Traced, aot

DISTURBED = 4
"""How often a program is run with errors, to see how large they become."""
ASSUMED = ("Runtime assertion failed", "whose sizes are not those the compiler was told")
"""What is said where torch's tracing took a size of data for another one, that of what it broadcasts with for one."""
REFUSED = "AOTAutograd does not take this program"
"""Why a graph runs eagerly that AOTAutograd has not given to us; that is torch's own only if it does so without us."""
MARGIN = 16.0
"""How much larger than these errors a difference from eager may be."""


@dataclass
class Notes:
    """What became of the graphs of a program."""

    graphs: int = 0
    calls: Counter[str] = field(default_factory=Counter[str])
    """Operators that stay calls into ATen."""
    eager: list[str] = field(default_factory=list[str])
    """Why graphs run eagerly."""
    torch: str = ""
    """What is wrong without this compiler too."""

    def take(self, event: Event) -> None:
        self.graphs += 1
        if event.compilation is None:
            self.eager.append(event.reason)
        else:
            self.calls.update(call.name for call in event.compilation.calls)


Compiler = Options | str
"""Ours with options, or one of torch's own backends, `aot_eager` or `eager`."""


def compiled(program: Program, compiler: Compiler, notes: Notes) -> Callable[..., Any]:
    """The program with AOTAutograd alone, compiled at the first call; without options, its graphs are run by torch. A
    graph that is given back to torch is an error.
    """

    def refuse(event: Event) -> None:
        notes.take(event)
        if event.compilation is None:
            raise AssertionError(f"a graph runs eagerly: {event.reason}")

    make_code: Callable[..., Any] = _run_by_torch
    if isinstance(compiler, Options):
        make_code = Backend(compiler, compile_module, watch=refuse).compile_graph
    return aot(program.function(), make_code, program.mode == "dynamic")


def _run_by_torch(graph: torch.fx.GraphModule, _: object) -> Callable[..., Any]:
    return make_boxed_func(Traced(graph))


def whole(
    program: Program, compiler: Compiler, notes: Notes, tensors: Sequence[torch.Tensor], device: str
) -> tuple[Callable[..., Any], list[torch.Tensor]]:
    """The program through torch.compile, and its arguments."""
    torch._dynamo.reset()
    given = list(tensors)
    f: Any = program.function(device)
    if program.owned:
        f, given = program.module(tensors, device)
    backend: Any = compiler
    if isinstance(compiler, Options):
        freezes = bool(program.owned) and program.mode in ("compile", "fullgraph")
        options = replace(compiler, random="eager" if program.draws else "philox", freezing=freezes)
        backend = Backend(options, compile_module, watch=notes.take)
    dynamic = {"sizes": True, "train sizes": True, "automatic": None}.get(program.mode, False)
    entered = program.mode == "fullgraph"
    made: Any = torch.compile(f, backend=backend, dynamic=dynamic, fullgraph=entered)
    if entered and isinstance(compiler, Options):
        made = fast_entry(made, lambda _: True, unobserved)
    return made, given


def check(program: Program, compiler: Compiler, notes: Notes | None = None, device: str = "cpu") -> None:
    """Raises Mismatch where the compiled program differs from eager, or what the compiler raises."""
    notes = notes or Notes()
    run: Callable[..., Any] | None = None
    owned: list[tuple[torch.Tensor, torch.Tensor]] = []
    for call in range(len(program.sizes)):
        if call and not _fits(program, call, device):
            continue
        given = program.arguments(call, device=device)
        theirs, ours = copies(given), copies(given)
        if call == 0 and not program.through_dynamo:
            run = compiled(program, compiler, notes)
        elif call == 0:
            run, ours = whole(program, compiler, notes, ours, device)
            owned = [
                (o, t) for (name, _), o, t in zip(program.inputs, ours, theirs, strict=True) if name in program.owned
            ]
        else:
            ours, theirs = _kept(program, owned, ours, theirs)
        assert run is not None
        _check_call(program, run, call, ours, theirs, device)
        if program.way(call) == "threads" and not (program.draws or program.owned):
            _check_threads(program, run, call, device)


def _fits(program: Program, call: int, device: str) -> bool:
    """Whether eager takes the arguments of this call."""
    try:
        program.called(call).run(program.function(device), program.arguments(call, device=device))
    except Exception:  # whatever eager raises
        return False
    return True


def _kept(
    program: Program,
    owned: Sequence[tuple[torch.Tensor, torch.Tensor]],
    ours: list[torch.Tensor],
    theirs: list[torch.Tensor],
) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    """The arguments of a later call: what a module owns is what it was, with the new numbers."""
    pairs = iter(owned)
    for i, (name, _) in enumerate(program.inputs):
        if name in program.owned:
            kept = next(pairs)
            with torch.no_grad():
                for old, new in zip(kept, (ours[i], theirs[i]), strict=True):
                    old.copy_(new)
            ours[i], theirs[i] = kept
    return ours, theirs


def _check_threads(program: Program, run: Callable[..., Any], call: int, device: str) -> None:
    """Calls from several threads at once, each with arguments of its own, are as one after the other."""
    given = [program.arguments(call, device=device) for _ in range(2 * THREADS)]
    ours, theirs = given[:THREADS], given[THREADS:]
    as_called = program.called(call)
    f = program.function(device)
    expected = [as_called.run(f, tensors) for tensors in theirs]
    found = at_once(lambda i: as_called.run(run, ours[i]))
    for i in range(THREADS):
        try:
            _compare_numbers(program, call, [*found[i], *ours[i]], [*expected[i], *theirs[i]], len(program.results))
        except Mismatch as error:
            raise Mismatch(f"{error}{_at(call)}, of several threads") from None


def _check_call(
    program: Program,
    run: Callable[..., Any],
    call: int,
    ours: list[torch.Tensor],
    theirs: list[torch.Tensor],
    device: str,
) -> None:
    as_called = program.called(call)
    expected = as_called.run(program.function(device), theirs)
    state = _generator(device)
    found = as_called.run(lambda *tensors: run(*program.passed(tensors)), ours)
    if program.draws and not torch.equal(state, _generator(device)):
        raise Mismatch("the generator has another state than eager's")
    count = len(program.results)  # AOTAutograd gives derivatives strides of its own
    if len(found) != len(expected):
        raise Mismatch(f"{len(found) - count} derivatives, eager has {len(expected) - count}")
    for i, (a, e) in enumerate(zip(found, expected, strict=True)):
        if a.shape != e.shape or a.dtype != e.dtype:
            raise Mismatch(f"result {i} is {shown(a)}, eager's {shown(e)}{_at(call)}")
        if i < count and not same_strides(a, e):
            raise Mismatch(f"result {i} has strides {a.stride()}, eager's {e.stride()} of {shown(e)}{_at(call)}")
    for i, (a, e) in enumerate(zip(ours, theirs, strict=True)):
        if a.shape != e.shape or not same_strides(a, e):
            raise Mismatch(f"argument {i} is {shown(a)} after the call, eager's {shown(e)}{_at(call)}")
    marked = {
        i for i, pair in enumerate(zip(found, expected, strict=True)) if any(t.is_conj() or t.is_neg() for t in pair)
    }
    if (a := _places(found[:count], ours, marked)) != (e := _places(expected[:count], theirs, marked)):
        raise Mismatch(f"results lie in inputs or results at {a}, eager's at {e}{_at(call)}")
    try:
        _compare_numbers(program, call, [*found, *ours], [*expected, *theirs], count)
    except Mismatch as error:
        raise Mismatch(f"{error}{_at(call)}") from None
    _overwrite(found[:count], ours)


def _generator(device: str) -> torch.Tensor:
    return torch.cuda.get_rng_state() if device == "cuda" else torch.get_rng_state()


def _at(call: int) -> str:
    return f" (call {call})" if call else ""


def _places(
    results: Sequence[torch.Tensor], inputs: Sequence[torch.Tensor], marked: Collection[int]
) -> list[tuple[int, int]]:
    """For each result, the first input, or else result, in whose memory it lies, and where it begins in that memory.
    Those that are marked, conjugates, graphs make as they are, in memory of their own.
    """
    tensors = [*inputs, *results]
    memory: dict[int, int] = {}
    for i, t in enumerate(tensors):
        if has_memory(t):
            memory.setdefault(t.untyped_storage().data_ptr(), i)
    found: list[tuple[int, int]] = []
    for i, t in enumerate(results, len(inputs)):
        base = memory[t.untyped_storage().data_ptr()] if has_memory(t) else i
        shares = base != i and i - len(inputs) not in marked and base - len(inputs) not in marked
        found.append((base, t.data_ptr() - tensors[base].data_ptr()) if shares else (-1, 0))
    return found


def _overwrite(results: Sequence[torch.Tensor], inputs: Sequence[torch.Tensor]) -> None:
    """As a caller may: the next call must not notice."""
    kept = {t.untyped_storage().data_ptr() for t in inputs}
    for r in results:
        if (
            has_memory(r)
            and r.untyped_storage().data_ptr() not in kept
            and 0 not in r.stride()
            and not overlaps_itself(r)
        ):
            with torch.no_grad(), torch.inference_mode(r.is_inference()):
                r.fill_(1)


def _compare_numbers(
    program: Program, call: int, found: list[torch.Tensor], expected: list[torch.Tensor], count: int
) -> None:
    """Numbers are eager's, within the tolerances of torch.testing or what errors in each step make of them."""
    references: list[list[torch.Tensor]] | None = None
    nearby: list[list[torch.Tensor]] = []
    for i, (a, e) in enumerate(zip(found, expected, strict=True)):
        a, e = _plain(a), _plain(e)
        try:
            torch.testing.assert_close(a, e, equal_nan=True)
            continue
        except AssertionError as different:
            text = " ".join(str(different).split())
        if not (e.is_floating_point() or e.is_complex()):
            raise Mismatch(f"result {i}: {text}; ours {_some(a)}, eager's {_some(e)}")
        if references is None:
            references = [_reference(program, seed, call) for seed in (None, *range(DISTURBED))]
        clean, *others = (_parts(r[i]) for r in references)
        slack: torch.Tensor | float = 0.0
        if i >= count:
            # nothing disturbs the steps of a derivative, whose parts are about 1 where they cancel
            slack = 32 * max((s.rough for s in program.steps), default=0.0)
            nearby = nearby or [_nearby(program, seed, call) for seed in range(DISTURBED)]
            slack += MARGIN * torch.stack([(_parts(r[i]) - _parts(e)).abs().nan_to_num() for r in nearby]).amax(0)
        if not _explained(_parts(a), _parts(e), clean, others, e.dtype, slack):
            raise Mismatch(f"result {i}: {text}; ours {_some(a)}, eager's {_some(e)}")


def _plain(t: torch.Tensor) -> torch.Tensor:
    """With numbers that are compared: those of f8 in f32."""
    t = t.detach().cpu().resolve_conj().resolve_neg()
    return t.float() if t.is_floating_point() and t.itemsize == 1 else t


def _parts(t: torch.Tensor) -> torch.Tensor:
    """In double precision, complex numbers as two."""
    t = t.detach().cpu().resolve_conj().resolve_neg()
    return torch.view_as_real(t.to(torch.complex128)) if t.is_complex() else t.double()


def _reference(program: Program, seed: int | None, call: int) -> list[torch.Tensor]:
    inputs = program.arguments(call, wide=True)
    usual = torch.get_default_dtype()
    if not program.draws:  # numbers of other dtypes are drawn otherwise
        torch.set_default_dtype(torch.float64)
    try:
        return [*program.called(call).run(program.disturbed(seed), inputs), *inputs]
    finally:
        torch.set_default_dtype(usual)


def _nearby(program: Program, seed: int, call: int) -> list[torch.Tensor]:
    """What eager makes of arguments of which derivatives are asked, off by a rounding."""
    inputs, generator = program.arguments(call), torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for whole in inputs:
            if whole.requires_grad and not overlaps_itself(t := _stored(whole)):
                noise = torch.rand(t.shape, generator=generator, dtype=torch.float64) * 2.0 - 1.0
                t.copy_(t * (1.0 + torch.finfo(t.dtype).eps * noise))
    return [*program.called(call).run(program.function(), inputs), *inputs]


def _stored(t: torch.Tensor) -> torch.Tensor:
    """A tensor without what it repeats."""
    return t[tuple(slice(0, 1 if step == 0 else None) for step in t.stride())]


def _explained(
    a: torch.Tensor,
    e: torch.Tensor,
    clean: torch.Tensor,
    others: Sequence[torch.Tensor],
    dtype: torch.dtype,
    slack: torch.Tensor | float,
) -> bool:
    """Whether errors in each step may be what sets `a` and `e` apart, wherever torch.testing finds them apart."""
    info = torch.finfo(dtype)
    spread = torch.stack([(o - clean).abs() for o in others]).amax(0)
    allowed = MARGIN * spread + 2.0 * (clean - e).abs() + 32 * info.eps * e.abs() + info.tiny + slack
    # inf or NaN for one is a number for the other: at the end, or on the way where eager rounds to half floats
    beyond = ~(clean.abs() < info.max / 16) | (~e.isfinite() & clean.isfinite())
    near = torch.isclose(a, e, *default_tolerances(dtype), equal_nan=True)
    return bool((near | ((a - e).abs() <= allowed) | beyond | ~spread.isfinite()).all())


def _some(t: torch.Tensor) -> str:
    return str(t.detach().flatten()[:6].tolist())


def fault(program: Program, options: Options, notes: Notes | None = None, device: str = "cpu") -> str | None:
    """What is wrong with the compiled program; None if nothing is, or if torch alone has a fault of that kind."""
    notes = notes if notes is not None else Notes()
    said = _said(program, options, notes, device)
    if said is None:
        return None
    assumed = program.through_dynamo and any(text in said for text in ASSUMED)
    # what AOTAutograd does not take has run as TorchDynamo's graph
    alone = ("aot_eager", "eager") if any(reason.startswith(REFUSED) for reason in notes.eager) else ("aot_eager",)
    if assumed or any(same_kind(said, _said(program, backend, Notes(), device)) for backend in alone):
        notes.torch = said
        return None
    return said


def same_kind(said: str, other: str | None) -> bool:
    """Whether two faults are both of numbers, both of how results lie, or errors of one class."""
    if other is None:
        return False
    return _kind(said) == _kind(other) or (said.startswith(f"error: {REFUSED}") and other.startswith("error"))


def _kind(said: str) -> str:
    first, _, rest = said.partition(": ")
    return rest.partition(":")[0] if first == "error" else "numbers" if "Tensor-likes" in rest else first


def _said(program: Program, compiler: Compiler, notes: Notes, device: str) -> str | None:
    """What is wrong with the program as it is compiled by us or by torch alone."""
    torch.manual_seed(0)
    sizes_of_data = torch._dynamo.config.patch(
        capture_scalar_outputs=True, capture_dynamic_output_shape_ops=True, error_on_recompile=False
    )
    with ExitStack() as settings:
        if program.through_dynamo:
            settings.enter_context(sizes_of_data)
            settings.enter_context(sizes_of_data_as_eager(program.mode == "fullgraph"))
        try:
            check(program, compiler, notes, device)
        except Mismatch as error:
            return f"wrong: {error}"
        except Exception as error:  # whatever any pass may raise
            where = traceback.extract_tb(error.__traceback__)[-1]
            return f"error: {type(error).__name__}: {error} ({where.filename.rpartition('/')[2]}:{where.lineno})"
    refused = [reason for reason in notes.eager if reason.startswith(REFUSED)]
    return f"error: {refused[0]}" if refused else None
