"""Seeds of random ops: numbers drawn from torch's generator by a call in the host program.

So generators advance with every call of a graph, `torch.manual_seed` and `torch.random.fork_rng` mean what they do in
eager, and whoever restores a generator's state gets the same numbers again. A function draws all its seeds at once.
"""

from __future__ import annotations

from typing import Final, cast

from xdsl.ir import Block, Operation

from ..dialects import prims
from ..dialects.aten import AtenOp, lookup
from ..dialects.tensor import TensorType
from .prims_builder import Builder, Value

RANGE: Final = (-(1 << 63), (1 << 63) - 1)
NAME: Final = "aten.randint.low"
INTO: Final = "aten.randint.low_out"
"""The same, into memory that it is given."""


def draw(b: Builder, device: str) -> Value:
    """A new seed: i64, of rank 0."""
    op = _draw((), device)
    if b.location is not None:
        op.location = b.location
    b.ops.append(op)
    return Value(b, op.results[0])


def _draw(size: tuple[int, ...], device: str) -> AtenOp:
    cls = lookup(NAME)
    assert cls is not None
    return cls.call([*RANGE, size, "i64", None, device], [TensorType.get(size, "i64", None, device)])


def is_draw(op: Operation) -> bool:
    """Whether a call draws seeds."""
    return op.name in (NAME, INTO) and cast(AtenOp, op).args()[:2] == [*RANGE]


def join_draws(block: Block) -> None:
    """One call in place of those that draw a seed each, by device."""
    by_device: dict[str, list[Operation]] = {}
    for op in block.ops:
        if is_draw(op) and not cast(TensorType, op.results[0].type).rank:
            by_device.setdefault(cast(TensorType, op.results[0].type).device, []).append(op)
    for device, draws in by_device.items():
        if len(draws) == 1:
            continue
        joint = _draw((len(draws),), device)
        joint.location = draws[0].location
        block.insert_op_before(joint, draws[0])
        for i, op in enumerate(draws):
            result = op.results[0]
            part = prims.SliceOp.make(joint.results[0], [i], [i + 1], [1], TensorType.get((1,), "i64", None, device))
            seed = prims.ReshapeOp.make(part.results[0], cast(TensorType, result.type))
            for new in (part, seed):
                new.location = op.location
                block.insert_op_before(new, op)
            result.replace_all_uses_with(seed.results[0])
            op.detach()
            op.erase()
