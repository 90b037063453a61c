"""What Python's `dataclass` does more often than is needed: writing methods that no process calls.

It compiles the text of up to six methods for each class, a quarter of what the first call of a small function takes
beyond torch's own: of 400 classes of xDSL and of this package few are ever compared or printed. Importing this module
changes that for classes of both that are made later, and for those of the parts of torch that compile, which have
3,000 such methods (a twelfth of a first call by `lamella.compile`, which loads torch's compiler after this): a method
becomes what Python makes of it when it is first called. Nobody else's are touched, nor those of torch that a program
may make while TorchDynamo follows it. Python 3.13 has no such function to replace, and is left as it is.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

_COMPILERS = (
    *("torch._dynamo.", "torch._export.", "torch._functorch._aot_autograd.", "torch._inductor.", "torch._library."),
    "torch.fx.experimental.",
)
_PACKAGES = (f"{__name__.partition('.')[0]}.", "xdsl.", *_COMPILERS)

_eager: Callable[..., Callable[..., Any]] | None = getattr(dataclasses, "_create_fn", None)


def _create_fn(name: str, args: list[str], body: list[str], **given: Any) -> Callable[..., Any]:
    """A method of a data class, as `dataclasses` has it written."""
    eager = _eager
    assert eager is not None
    if not (given.get("globals") or {}).get("__name__", "").startswith(_PACKAGES):
        return eager(name, args, body, **given)
    made: list[Callable[..., Any]] = []

    def method(self: Any, /, *others: Any, **named: Any) -> Any:
        if not made:
            made.append(eager(name, args, body, **given))
            made[0].__qualname__ = method.__qualname__
            for cls in type(self).__mro__:
                if cls.__dict__.get(name) is method:
                    setattr(cls, name, made[0])
        return made[0](self, *others, **named)

    method.__name__, method.__annotations__ = name, {}
    return method


if _eager is not None:
    dataclasses._create_fn = _create_fn  # pyright: ignore[reportAttributeAccessIssue]
