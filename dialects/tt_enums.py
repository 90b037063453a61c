"""The enumerations of the tt dialect: an i32 in properties, a word in Triton's pretty text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from xdsl.dialects.builtin import IntegerAttr, IntegerType
from xdsl.ir import Attribute, ParametrizedAttribute
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from .tt_types import i32_attr


@dataclass(frozen=True)
class Words:
    """One enumeration: `words["cg"]` is its attribute, `words.of(attribute)` the word."""

    what: str
    values: dict[str, int]
    _words: dict[int, str] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_words", {value: word for word, value in self.values.items()})

    def __getitem__(self, word: str) -> IntegerAttr[IntegerType]:
        return i32_attr(self.values[word])

    def of(self, attribute: IntegerAttr[IntegerType]) -> str:
        """The word for `attribute`. Raises `VerifyException` if there is none."""
        word = self._words.get(attribute.value.data)
        if word is None:
            known = ", ".join(f"{value} ({word})" for word, value in self.values.items())
            raise VerifyException(f"{attribute.value.data} is no {self.what}; known: {known}")
        return word

    def parse(self, parser: AttrParser) -> IntegerAttr[IntegerType]:
        """Read a word."""
        start = parser.pos
        word = parser.parse_identifier()
        if word not in self.values:
            parser.raise_error(f"'{word}' is no {self.what}; known: {', '.join(self.values)}", start, parser.pos)
        return self[word]


def _count(what: str, first: int, words: str) -> Words:
    return Words(what, {word: i for i, word in enumerate(words.split(), first)})


AXIS = _count("axis", 0, "x y z")
CACHE = _count("cache modifier", 1, "none ca cg wb cs wt cv")
EVICT = _count("eviction policy", 1, "evict_normal evict_first evict_last")
PADDING = _count("padding", 1, "zero nan")
RMW = _count("atomic operation", 1, "and or xor add fadd max min umax umin exch")
SEMANTIC = _count("memory semantic", 1, "relaxed acquire release acq_rel")
SCOPE = _count("memory scope", 1, "gpu cta sys")
ROUNDING = _count("rounding mode", 0, "rtz rtne")
PROPAGATE_NAN = Words("propagateNan", {"none": 0, "all": 0xFFFF})
PRECISION = _count("input precision", 0, "tf32 tf32x3 ieee bf16x3 bf16x6")
SCALED_TYPE = _count("element type of a scaled dot", 0, "e4m3 e5m2 e2m3 e3m2 e2m1 bf16 fp16")
DESCRIPTOR_REDUCE = _count("descriptor reduction", 1, "add min max inc dec and or xor")


@irdl_attr_definition
class CachePolicyAttr(ParametrizedAttribute):
    """`#tt.cache_policy<cache_modifier = cg, eviction_policy = evict_last>`: both hints, as Triton 3.9 writes them.

    In modules they are two properties, as in the versions before.
    """

    name = "tt.cache_policy"
    cache: IntegerAttr[IntegerType]
    evict: IntegerAttr[IntegerType]

    def print_parameters(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_string(f"cache_modifier = {CACHE.of(self.cache)}, eviction_policy = {EVICT.of(self.evict)}")

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        with parser.in_angle_brackets():
            values: list[Attribute] = []
            for keyword, words in (("cache_modifier", CACHE), ("eviction_policy", EVICT)):
                if values:
                    parser.parse_punctuation(",")
                parser.parse_keyword(keyword)
                parser.parse_punctuation("=")
                values.append(words.parse(parser))
        return values
