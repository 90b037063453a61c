"""aten to aten: layers that nobody has marked become calls of a function, as marked ones are.

    %1 = aten.mm(%0, %v) …                  %1 = flow.call(%0, %v) callee @repeated_0 …
    %2 = aten.tanh(%1) …              ->    %3 = flow.call(%1, %w) callee @repeated_0 …
    %3 = aten.mm(%2, %w) …
    %4 = aten.tanh(%3) …                    func.func private @repeated_0 …

It goes down to kernels once, and `inline-calls` puts its launches where the layers were. Kernels are the same: windows
begin and end where fusion does (`repeats`). The location of a call has the locations of its layer in the order in which
that of the function has the first layer's.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import chain, takewhile

from xdsl.context import Context
from xdsl.dialects.builtin import ArrayAttr, FusedLoc, LocationAttr, ModuleOp, NoneAttr
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, BlockArgument, Operation, Region, SSAValue
from xdsl.passes import ModulePass

from ..dialects.aliasing import OF_STORAGE
from ..dialects.flow import CallOp
from ..dialects.verify_program import given_sizes, size_names
from .aten_to_prims import remake
from .fuse_cost import Machine
from .in_memory import computed_factors, is_view, readers, root, stays, takes_memory
from .repeats import Group, Repeats
from .widened import convert_factors


@dataclass(frozen=True)
class AtenOutline(ModulePass):
    """Make functions of windows of at least `least` ops that repeat themselves. `reuse` as that of `loop-fuse`."""

    name = "aten-outline"

    least: int = 12
    reuse: int = Machine.reuse
    statistics: dict[str, int] = field(default_factory=dict[str, int], init=False, compare=False)

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        functions: list[FuncOp] = []
        moved: dict[SSAValue, SSAValue] = {}
        calls = 0
        for around in [o for o in op.ops if isinstance(o, FuncOp) and not o.is_declaration]:
            staying = dict.fromkeys(o for o in around.body.block.ops if stays(o))
            factors = {o: found for o in around.body.block.ops if (found := computed_factors(o, self.reuse))}
            if len(staying) + len(factors) < 2:
                continue
            convert_factors(staying)
            repeats = Repeats(around.body.block, self.least, staying, factors)
            for group in list(repeats.groups()):
                made = _outline(repeats.ops, group, around.body.block, f"repeated_{len(functions)}", moved)
                if made is not None:
                    functions.append(made)
                    calls += len(group.starts)
        op.body.block.add_ops(functions)
        self.statistics.update(functions=len(functions), calls=calls)


class _Replaced(dict[SSAValue, SSAValue]):
    """What replaces a value: itself, if nothing does."""

    def __missing__(self, value: SSAValue) -> SSAValue:
        return value


def _outline(
    ops: list[Operation], group: Group, around: Block, name: str, moved: dict[SSAValue, SSAValue]
) -> FuncOp | None:
    """Replace the windows of a group by calls of the function; None where it would not know its sizes, or what is in
    the storage of an argument. `moved` has what replaces values.
    """
    first = ops[group.starts[0] : group.starts[0] + group.length]
    outer = list(group.given[0])
    if not all(_has_storage(op, first) for op in (*group.views, *first)):
        return None
    sizes = _carriers([*group.views, *first], outer, around)
    if sizes is None:
        return None
    results, views = _leaving(first, group.made)
    body = Block(arg_types=[v.type for v in (*outer, *sizes)])
    # a group that was found with this one may have replaced what its windows take
    taken = (*(moved.get(v, v) for v in outer), *sizes)
    values = _Replaced(zip(taken, body.args, strict=True))
    for value, argument in zip((*outer, *sizes), body.args, strict=True):
        argument.name_hint = value.name_hint
        argument.location = value.location if isinstance(value, BlockArgument) else first[0].location
    body.add_ops([remake(op, values) for op in (*group.views, *first)])
    returned = [first[i].results[k] for i, k in results]
    body.add_op(ReturnOp(*(values[r] for r in returned)))
    function = FuncOp(name, (body.arg_types, [r.type for r in returned]), Region(body), visibility="private")
    places: dict[LocationAttr, int] = {}
    for i, op in enumerate(first):
        places.setdefault(op.location, i)
    function.location = _places(first, places)
    for start, given in zip(group.starts, group.given, strict=True):
        window = ops[start : start + group.length]
        operands = [*(moved.get(given[v], given[v]) for v in outer), *sizes]
        made = [window[i].results[k] for i, k in results]
        call = CallOp.to(name, operands, [r.type for r in made], _places(window, places))
        for old, new in zip(made, call.results, strict=True):
            new.name_hint = old.name_hint
        inside = _Replaced(zip(made, call.results, strict=True))
        seen = [remake(window[i], inside) for i in views]
        around.insert_ops_before([call, *seen], window[0])
        for old, new in inside.items():
            old.replace_all_uses_with(new)
        moved |= inside
        for op in reversed(window):
            op.detach()
            op.erase(safe_erase=False)
    return function


def _has_storage(op: Operation, window: list[Operation]) -> bool:
    """Whether an op of a window counts from the beginning of no storage, or of one that is made there."""
    return op.name not in OF_STORAGE or root(op.operands[0]).owner in window


def _leaving(window: list[Operation], made: list[tuple[int, int]]) -> tuple[list[tuple[int, int]], list[int]]:
    """Of the results that are used outside, those that the function returns, and the views that are made outside, of
    these or of what the function takes.
    """
    results: dict[SSAValue, tuple[int, int]] = {
        r: (i, k) for i, op in enumerate(window) for k, r in enumerate(op.results)
    }
    inside = set(window)
    returned: set[tuple[int, int]] = set()
    views: set[int] = set()
    stack = list(made)
    while stack:
        i, k = stack.pop()
        result = window[i].results[k]
        of_result = root(result) in results
        if not is_view(window[i]) or (of_result and all(takes_memory(u) for u in readers(result) if u not in inside)):
            returned.add((i, k))
        elif i not in views:
            views.add(i)
            stack += [results[v] for v in window[i].operands if v in results]
    return sorted(returned), sorted(views)


def _carriers(window: list[Operation], outer: list[SSAValue], around: Block) -> list[SSAValue] | None:
    """What has the sizes and numbers above a window that what it takes has not by itself; None where nothing has."""
    said = (a for op in window for a in (*op.properties.values(), *op.result_types))
    needed = {s for a in (*said, *(v.type for v in outer)) for s in size_names(a)}
    missing = needed - set(given_sizes(v.type for v in outer))
    above = takewhile(lambda op: op is not window[0], around.ops)
    found: list[SSAValue] = []
    for value in chain(around.args, (r for op in above for r in op.results)) if missing else ():
        if not missing.isdisjoint(given_sizes([value.type])):
            found.append(value)
            missing.difference_update(given_sizes([value.type]))
    return None if missing else found


def _places(window: list[Operation], places: dict[LocationAttr, int]) -> LocationAttr:
    """The locations of a window: at each of these, that of the op."""
    return FusedLoc(ArrayAttr([window[i].location for i in places.values()]), NoneAttr())
