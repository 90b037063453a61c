"""Random operators whose numbers follow from a tensor: who has it gets the same numbers again.

    %seed = aten.randint.low(-9223372036854775808, 9223372036854775807, [], i64, device = "cpu") : () -> !sym.t<[], i64>
    %y, %mask = seeded.native_dropout(%seed, %x, 0.5, true) : …

`seeded.X` has the arguments of `aten.X` after the seed. That is a number, from which a generator starts anew, or the
state of one, as `seeded.state` reads it. The generator that torch has is left as it was.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, Final, cast

import torch

_LIBRARY: Final = torch.library.Library("seeded", "FRAGMENT")
_LIBRARY.define("state(*, Device device) -> Tensor", tags=(torch.Tag.nondeterministic_seeded,))


def _generator(device: torch.device) -> torch.Generator:
    if device.type == "cpu":
        return torch.default_generator
    known, index = getattr(torch, device.type).default_generators, cast("int | None", device.index)
    return known[torch.accelerator.current_device_index() if index is None else index]


def _state_bytes(device: torch.device) -> int:
    return torch.default_generator.get_state().numel() if device.type == "cpu" else 16


_LIBRARY.impl("state", lambda *, device: _generator(device).get_state(), "CompositeExplicitAutograd")
torch.library.register_fake(
    "seeded::state", lambda *, device: torch.empty(_state_bytes(device), dtype=torch.uint8), lib=_LIBRARY
)


@cache
def seeded(operator: Any) -> Any:
    """The operator that does what a random one of ATen does, from a seed. Raises ValueError for one that writes."""
    schema = operator._schema
    if any(a.alias_info is not None or a.name == "seed" for a in schema.arguments):
        raise ValueError(f"{operator} writes")
    head, _, rest = str(schema).partition("(")
    name = head.partition("::")[2]
    _LIBRARY.define(f"{name}({'Tensor seed' if rest.startswith(')') else 'Tensor seed, '}{rest}")
    _LIBRARY.impl(name, _from_seed(operator), "CompositeExplicitAutograd")
    torch.library.register_fake(
        f"seeded::{name}", lambda _, *args, **keywords: operator(*args, **keywords), lib=_LIBRARY
    )
    packet, _, overload = name.partition(".")
    return getattr(getattr(torch.ops.seeded, packet), overload or "default")


def original(operator: Any) -> Any:
    """The operator of ATen that a seeded one is made of."""
    return getattr(getattr(torch.ops.aten, operator._schema.name.partition("::")[2]), operator._overloadname)


def _from_seed(operator: Any) -> Callable[..., Any]:
    def run(seed: torch.Tensor, *args: Any, **keywords: Any) -> Any:
        tensors = (v.device for v in args if isinstance(v, torch.Tensor))
        device: Any = keywords.get("device") or next(tensors, torch.device("cpu"))
        generator = _generator(torch.device(device))
        before = generator.get_state()
        try:
            if seed.dtype == torch.uint8:
                generator.set_state(seed)
            else:
                generator.manual_seed(int(seed))
            return operator(*args, **keywords)
        finally:
            generator.set_state(before)

    return run


def find(name: str, overload: str = "default") -> Any:
    """`seeded.state`, or the seeded form of an overload of ATen. Raises AttributeError where there is none."""
    if name == "state":
        return torch.ops.seeded.state.default
    try:
        return seeded(getattr(getattr(torch.ops.aten, name), overload))
    except ValueError as error:
        raise AttributeError(str(error)) from None
