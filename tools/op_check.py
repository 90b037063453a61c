"""One operator of torch's database through the whole compiler, natively, against eager."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from itertools import islice
from typing import Any

import torch
from torch._functorch._aot_autograd.utils import make_boxed_func
from torch.fx import GraphModule
from torch.utils import _pytree as pytree

from ..dialects.aten import lookup
from ..frontend.backend import Backend, Event
from ..lowering.options import Options
from ..lowering.report import READ, SEEDS, VIEW
from .op_compare import Mismatch, Tolerances, aliases, compare, copies, shown
from .op_devices import ELEMENTS, compiler, is_lost, torch_device
from .op_negated import between_negations, is_negatable, negated
from .op_places import DIM_AT, settled
from .op_traced import Traced, aot

VERSION = torch.__version__.partition("+")[0]

POOL = 64
"""How many of an operator's samples are looked at for a spread of them."""

NEARBY = 4
"""How often eager is run on inputs that are off by a rounding, where an operator seems inexact."""

MODES = ("forward", "fused", "inplace", "gradient", "dynamic", "gradcheck", "gradgradcheck")
"""As it is; between other operators; its method that writes the input; with derivatives; with symbolic sizes; first
and second derivatives against differences.
"""

UNSPECIFIED = frozenset({"empty", "empty_like", "empty_permuted", "empty_strided", "new_empty", "new_empty_strided"})
"""Operators whose result is whatever is in memory."""

STATUSES = ("native", "calls", "eager", "wrong", "error", "torch", "refused")
"""All kernels; some calls into ATen; our frontend gave the graph back; another result than eager's; our exception, a
crash or a hang; the same fault without our compiler; no sample that eager takes.
"""


@dataclass
class Outcome:
    """What became of an operator with a dtype."""

    operator: str
    dtype: str
    mode: str = "forward"
    device: str = "cpu"
    status: str = "native"
    reason: str = ""
    calls: list[str] = field(default_factory=list)
    """Operators left as calls into ATen."""
    samples: int = 0
    """How many samples were compared."""
    torch: str = VERSION
    """The release of torch that it ran with."""

    @property
    def json(self) -> dict[str, Any]:
        return asdict(self)

    @property
    def column(self) -> str:
        device, mode = self.device.replace("cpu", ""), self.mode.replace("forward", "")
        return " ".join(word for word in (self.dtype, mode, device) if word)

    def fail(self, status: str, reason: str) -> Outcome:
        self.status, self.reason = status, reason
        return self


class Refused(Exception):
    """Eager does not take the call."""


class TorchFault(Exception):
    """The graph that torch makes of the call, if it makes one, is wrong by itself."""


def operators() -> list[Any]:
    """torch's database, in its order."""
    from torch.testing._internal.common_methods_invocations import op_db

    return list(op_db)


def name_of(op: Any) -> str:
    return f"{op.name}-{op.variant_test_name}" if op.variant_test_name else str(op.name)


def check(op: Any, dtype: torch.dtype, samples: int, mode: str = "forward", device: str = "cpu") -> Outcome:
    """Run `op` on a spread of its samples, the last of them not contiguous. Raises nothing an operator can cause."""
    from .op_derivatives import ORDERS, check_derivatives

    outcome = Outcome(name_of(op), str(dtype)[6:], mode, device)
    torch.manual_seed(0)
    f = op.inplace_variant if mode == "inplace" else between_negations(op) if mode == "fused" else op
    for sample in spread(op, dtype, samples, mode.startswith("grad"), device):
        arguments, keywords = (sample.input, *sample.args), sample.kwargs
        if mode == "fused":
            arguments, keywords = pytree.tree_map(negated, (arguments, keywords))
        first = not outcome.samples
        call = repr([shown(x) for x in arguments]) + f" {keywords}"
        try:
            if mode in ORDERS:
                calls = check_derivatives(op, sample, ORDERS[mode], verify=first)
            else:
                random, allowed = op.name in UNSPECIFIED, tolerances(op, dtype, device)
                calls = check_call(f, arguments, keywords, mode, random, first, device, op.name, allowed)
        except Refused:
            continue
        except Mismatch as error:
            return outcome.fail("wrong", f"{error} for {call}"[:1200])
        except TorchFault as error:
            return outcome.fail("torch", f"{error} for {call}"[:600])
        except Exception as error:  # what any pass may raise is what is looked for
            where = traceback.extract_tb(error.__traceback__)[-1]
            text = f"{type(error).__name__}: {error} ({where.filename.rpartition('/')[2]}:{where.lineno})"
            return outcome.fail("error", f"{text[:900]} for {call}"[:1200])
        outcome.samples += 1
        outcome.calls += [c for c in calls if c not in outcome.calls and not c.startswith("eager: ")]
        if eager := [c for c in calls if c.startswith("eager: ")]:
            outcome.fail("eager", eager[0][7:])
    if not outcome.samples:
        return outcome.fail("refused", "eager takes none of the samples")
    if outcome.calls and outcome.status == "native":
        outcome.status = "calls"
    return outcome


def supports(op: Any, dtype: torch.dtype, mode: str, device: str = "cpu") -> bool:
    """Whether the operator can be run so there."""
    kind = torch_device(device)
    if mode == "inplace" and op.inplace_variant is None:
        return False
    if mode == "fused" and not is_negatable(dtype):
        return False
    if mode.startswith("grad") and not (op.supports_autograd and dtype in op.supported_backward_dtypes(kind)):
        return False
    if mode.endswith("gradcheck") and dtype is not torch.float64:
        return False
    if mode == "gradgradcheck" and not op.supports_gradgrad:
        return False
    return bool(op.supports_dtype(dtype, kind))


def tolerances(op: Any, dtype: torch.dtype, device: str = "cpu") -> Tolerances:
    """What the database has all tests of an operator with this dtype allow, where it says so of both a relative and an
    absolute tolerance. Its `precisionOverride`s, absolute ones of up to 0.7, are not read.
    """
    from torch.testing._internal.common_device_type import toleranceOverride
    from torch.testing._internal.opinfo.core import DecorateInfo

    found: dict[torch.dtype, tuple[float, float]] = {}
    for entry in op.decorators:
        is_part = isinstance(entry, DecorateInfo)
        if is_part and not entry.is_active(None, None, torch_device(device), dtype, {}):
            continue
        for d in entry.decorators if is_part else [entry]:
            if isinstance(d, toleranceOverride):
                found |= {dtype: (t.rtol, t.atol) for dtype, t in d.d.items()}
    return found


def spread(op: Any, dtype: torch.dtype, count: int, gradient: bool, device: str = "cpu") -> Iterator[Any]:
    """`count` of the operator's samples, apart from each other; and one of them with other strides."""
    pool = list(islice(op.sample_inputs(torch_device(device), dtype, requires_grad=gradient), POOL))
    if device == "interpreted":
        pool = [sample for sample in pool if _elements(sample) <= ELEMENTS]
    last = len(pool) - 1
    places = (i * last // (count - 1) for i in range(count)) if count > 1 else (len(pool) // 2,)
    chosen = [pool[i] for i in dict.fromkeys(places)] if pool else []
    yield from chosen
    if chosen:
        try:
            yield chosen[len(chosen) // 2].noncontiguous()
        except (RuntimeError, NotImplementedError):
            return  # layouts other than strided


def _elements(sample: Any) -> int:
    leaves = pytree.tree_leaves((sample.input, sample.args, sample.kwargs))
    return sum(value.numel() for value in leaves if isinstance(value, torch.Tensor))


def check_call(
    f: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any] | None = None,
    mode: str = "forward",
    random: bool = False,
    verify: bool = True,
    device: str = "cpu",
    name: str = "",
    tolerances: Tolerances | None = None,
) -> list[str]:
    """Compare `f(*args, **kwargs)` with eager; the calls into ATen that are left, and "eager: reason" for each graph
    that was not compiled.

    `name` is the operator's in torch's database. `random`: values are not compared. `verify`: each pass's module is,
    which takes as long as the passes do. Raises Mismatch, Refused, TorchFault, or what the compiler raises.
    """
    call = Call(f, args, kwargs or {}, mode, random, verify, device, name, tolerances)
    try:
        return call.check(native=True)
    except Refused:
        raise
    except Exception as ours:
        if is_lost():  # and torch's own would fail too
            raise
        try:
            call.check(native=False)
        except Exception as theirs:  # whatever torch's own tracing and code generation raise
            text = (str(theirs).strip() or "?").splitlines()[0]
            raise TorchFault(f"{type(theirs).__name__}: {text}") from ours
        raise


class Call:
    """A call as a function of its tensors."""

    def __init__(
        self,
        f: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        mode: str,
        random: bool,
        verify: bool = False,
        device: str = "cpu",
        name: str = "",
        tolerances: Tolerances | None = None,
    ) -> None:
        self.f = f
        self.tolerances = tolerances
        self.device = device
        self.name = name
        self.verify = verify
        self.mode = mode
        self.random = random
        self.flat, self.spec = pytree.tree_flatten((args, kwargs))
        self.places = [i for i, value in enumerate(self.flat) if isinstance(value, torch.Tensor)]

    def __call__(self, *tensors: torch.Tensor) -> Any:
        values = list(self.flat)
        for i, t in zip(self.places, tensors, strict=True):
            values[i] = t
        args, kwargs = pytree.tree_unflatten(values, self.spec)
        return self.f(*args, **kwargs)

    def check(self, *, native: bool) -> list[str]:
        """As `check_call`; without `native`, torch runs the graphs that it makes."""
        given: list[torch.Tensor] = [self.flat[i] for i in self.places]
        eager_inputs, our_inputs = copies(given), copies(given)
        with torch.set_grad_enabled(self.mode == "gradient"):
            torch.manual_seed(1)
            try:
                expected = self.results(self, eager_inputs)
            except Exception as error:  # a sample made not contiguous may not be allowed
                raise Refused from error
            torch.manual_seed(1)
            capture = Capture(self, self.mode == "dynamic", native, self.verify, self.device)
            actual = self.results(capture, our_inputs)
        values = not (self.random or capture.is_random())
        actual, expected = self.settled(actual, expected, given)
        # AOTAutograd gives derivatives the strides of what they belong to, which eager does not
        strides = self.mode != "gradient"
        exact, nearby, allowed = self.exact, self.nearby, self.tolerances
        compare(actual, expected, values=values, exact=exact, nearby=nearby, strides=strides, tolerances=allowed)
        for i, (a, e) in enumerate(zip(our_inputs, eager_inputs, strict=True)):
            after = partial(self.exact_input, i)
            compare([a], [e], values=values, exact=after, what=f"input {i} after the call")
        if (found := aliases(actual, our_inputs)) != (wanted := aliases(expected, eager_inputs)):
            raise Mismatch(f"results share memory with inputs {found}, eager's with {wanted}")
        return capture.calls()

    def settled(self, actual: Any, expected: Any, inputs: Sequence[torch.Tensor]) -> Any:
        """Both results as `op_places.settled` says, between negations what they were; of derivatives with respect to
        elements that may be chosen in another way, their sum.
        """
        if self.name not in DIM_AT:
            return actual, expected
        values = list(self.flat)
        for i, t in zip(self.places, inputs, strict=True):
            values[i] = t
        args, kwargs = pytree.tree_unflatten(values, self.spec)
        outs = (actual, expected)
        if self.mode == "fused":
            outs, args, kwargs = pytree.tree_map(negated, (outs, args, kwargs))
        if not (self.mode == "gradient" and isinstance(expected, tuple) and isinstance(expected[1], tuple)):
            return tuple(settled(self.name, out, args, kwargs) for out in outs)
        same = isinstance(expected[0], torch.Tensor) or torch.equal(actual[0][1], expected[0][1])
        return tuple(
            (settled(self.name, out, args, kwargs), grads if same else [g.double().sum() for g in grads])
            for out, grads in outs
        )

    def results(self, f: Callable[..., Any], inputs: Sequence[torch.Tensor]) -> Any:
        """What `f` returns, and in mode "gradient" its derivatives."""
        out = f(*inputs)
        if self.mode != "gradient":
            return out
        wanted = [t for t in pytree.tree_leaves(out) if isinstance(t, torch.Tensor) and t.requires_grad]
        sources = [t for t in inputs if t.requires_grad]
        if not wanted or not sources:
            return out
        generator = torch.Generator().manual_seed(2)
        weights = [torch.rand(t.shape, generator=generator, dtype=torch.float64).to(t) for t in wanted]
        return out, torch.autograd.grad(wanted, sources, weights, allow_unused=True)

    def nearby(self) -> Iterator[list[Any]]:
        """Eager's results where inputs are off by up to half a unit in the last place: what rounding them makes of an
        operator that is ill-conditioned there.
        """
        for seed in range(NEARBY):
            generator = torch.Generator().manual_seed(seed)

            def off(value: Any, generator: torch.Generator = generator) -> Any:
                if not isinstance(value, torch.Tensor) or not value.is_floating_point():
                    return value
                noise = torch.rand(value.shape, generator=generator).to(value) - 0.5
                moved = value.detach() * (1 + noise * torch.finfo(value.dtype).eps)
                return moved.requires_grad_(value.requires_grad)

            yield pytree.tree_leaves(self._run_with(off)[1])

    def exact(self) -> list[Any]:
        """The results in float64."""
        return pytree.tree_leaves(self._run_with(self._wide)[1])

    def exact_input(self, i: int) -> list[Any]:
        """An input after the call in float64."""
        return [self._run_with(self._wide)[0][i]]

    @staticmethod
    def _wide(value: Any) -> Any:
        if not isinstance(value, torch.Tensor) or not (value.is_floating_point() or value.is_complex()):
            return torch.float64 if isinstance(value, torch.dtype) and value.is_floating_point else value
        dtype = torch.complex128 if value.is_complex() else torch.float64
        return value.detach().to(dtype).requires_grad_(value.requires_grad)

    def _run_with(self, change: Callable[[Any], Any]) -> tuple[list[torch.Tensor], Any]:
        """Arguments that are changed, after the call, and what eager makes of them."""
        args, kwargs = pytree.tree_unflatten([change(v) for v in self.flat], self.spec)
        call = Call(self.f, args, kwargs, self.mode, self.random)
        inputs: list[torch.Tensor] = copies([call.flat[i] for i in call.places])
        with torch.set_grad_enabled(self.mode == "gradient"):
            return inputs, self.results(call, inputs)


class Capture:
    """A function that compiles `f` and calls what it became.

    AOTAutograd takes the call directly, which saves TorchDynamo's time; TorchDynamo takes what it does not.
    """

    def __init__(self, f: Callable[..., Any], dynamic: bool, native: bool, verify: bool, device: str = "cpu") -> None:
        self.f = f
        self.dynamic = dynamic
        self.native = native
        self.events: list[Event] = []
        self.graphs: list[GraphModule] = []
        options = Options(cache=False, verify=verify, strict=True)
        self.backend = Backend(options, compiler(device), watch=self.events.append)

    def __call__(self, *inputs: torch.Tensor) -> Any:
        try:
            return aot(self.f, self.compiler, self.dynamic, partition_fn=self.backend.partition)(*inputs)
        except Exception:  # whatever the operator's Python code raises
            if self.graphs:
                raise
        torch._dynamo.reset()
        backend: Any = self.backend if self.native else "aot_eager"
        with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True, capture_scalar_outputs=True):
            result = torch.compile(self.f, backend=backend, dynamic=self.dynamic)(*inputs)
        torch._dynamo.reset()
        return result

    def compiler(self, graph: GraphModule, kind: str) -> Any:
        self.graphs.append(graph)
        return self.backend.compile_graph(graph, kind) if self.native else make_boxed_func(Traced(graph))

    def is_random(self) -> bool:
        names = [str(node.target) for graph in self.graphs for node in graph.graph.nodes]
        return any(map(is_random, [*names, *(name for event in self.events for name in event.operators)]))

    def calls(self) -> list[str]:
        """The operators left as calls, and "eager: reason" for each graph that was not compiled."""
        found: list[str] = []
        for event in self.events:
            made = event.compilation
            found += (
                [f"eager: {event.reason}"]
                if made is None
                else [c.name for c in made.calls if c.reason not in (READ, SEEDS, VIEW)]
            )
        return list(dict.fromkeys(found))


def is_random(name: str) -> bool:
    """Whether an operator's results depend on a generator."""
    cls = lookup(name)
    return cls is not None and "nondeterministic_seeded" in cls.schema.tags
