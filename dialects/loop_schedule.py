"""What scheduling and tiling have said of kernels, loops and accesses: their attributes, and what each may hold."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, IntegerAttr, StringAttr, UnitAttr
from xdsl.ir import Attribute
from xdsl.utils.exceptions import VerifyException

from .expr import product
from .loop_attrs import IndexAttr

MOST_ELEMENTS = 1 << 20
"""The elements of a tile: what Triton takes."""
MOST_LANES = 256
MOST_COPIES = 1024

Holds = Callable[[Attribute, Collection[str]], bool]
"""Whether an attribute holds what it may, on an op with these dims."""


def _integer(least: int, most: int = (1 << 63) - 1) -> Holds:
    return lambda a, dims: isinstance(a, IntegerAttr) and least <= a.value.data <= most


def _power(most: int) -> Holds:
    return lambda a, dims: isinstance(a, IntegerAttr) and _is_power(a.value.data, most)


def _is_power(n: int, most: int) -> bool:
    return 0 < n <= most and n & (n - 1) == 0


def _is_tile(a: Attribute, dims: Collection[str]) -> bool:
    if not isinstance(a, DictionaryAttr) or not a.data.keys() <= {*dims}:
        return False
    sizes = [n.value.data if isinstance(n, IntegerAttr) else 0 for n in a.data.values()]
    return all(_is_power(n, MOST_ELEMENTS) for n in sizes) and product(sizes) <= MOST_ELEMENTS  # pyright: ignore[reportOperatorIssue]


def _is_dim(a: Attribute, dims: Collection[str]) -> bool:
    return isinstance(a, StringAttr) and a.data in dims


def _are_sizes(a: Attribute, dims: Collection[str]) -> bool:
    return isinstance(a, DictionaryAttr) and all(
        isinstance(n, IntegerAttr) and n.value.data > 0 for n in a.data.values()
    )


def _number_or_expression(a: Attribute, dims: Collection[str]) -> bool:
    return isinstance(a, IntegerAttr) or (isinstance(a, IndexAttr) and len(a) == 1)


def _copies_or_all(a: Attribute, dims: Collection[str]) -> bool:
    return isinstance(a, UnitAttr) or _integer(1, MOST_COPIES)(a, dims)


def _are_two_names(a: Attribute, dims: Collection[str]) -> bool:
    return isinstance(a, ArrayAttr) and len(a.data) == 2 and all(isinstance(n, StringAttr) for n in a.data)


SCHEDULE: Mapping[str, tuple[Holds, str]] = {
    "grain": (_number_or_expression, "an integer, or one expression"),
    "sides": (_integer(1, 8), "an integer from 1 to 8"),
    "vector": (_is_dim, "the name of one of its dims"),
    "lanes": (_power(MOST_LANES), f"a power of two up to {MOST_LANES}"),
    "unroll": (_copies_or_all, f"an integer from 1 to {MOST_COPIES}, or no value"),
    "transpose": (_power(MOST_LANES), f"a power of two up to {MOST_LANES}"),
    "split": (_are_two_names, "the names of the dims along which vectors of two factors lie"),
    "prefetch": (_number_or_expression, "an integer, or one expression"),
    "level": (_integer(1, 3), "an integer from 1 to 3"),
    "tile": (_is_tile, f"powers of two for its dims, together up to {MOST_ELEMENTS}"),
    "warps": (_power(32), "a power of two up to 32"),
    "stages": (_integer(1, 16), "an integer from 1 to 16"),
    "group": (_integer(1, 1 << 20), f"an integer from 1 to {1 << 20}"),
    "registers": (_integer(1, 255), "an integer from 1 to 255"),
    "held": (_are_sizes, "a positive integer for each size"),
    "multiple": (_are_sizes, "a positive integer for each size"),
}


def check_schedule(attributes: Mapping[str, Attribute], dims: Collection[str] = ()) -> None:
    """Raises VerifyException for an attribute that no schedule of an op with these dims has."""
    for name, attribute in attributes.items():
        if name in SCHEDULE:
            holds, what = SCHEDULE[name]
            if not holds(attribute, dims):
                raise VerifyException(f"attribute '{name}' must be {what}, not {attribute}")
