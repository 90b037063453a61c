"""torch's `flex_attention` and its gradient at the aten level: attention with regions that change and mask scores.

    %out, %lse, %max = flex.attention(%q, %k, %v, 0.25, %table) blocks 0 score 1 mask 0 : (…) -> (…)
    score_mod (%s: !sym.t<[2, 4, 8, 8], f32>, %b: !sym.t<[2], i64>, %h: …, %i: …, %j: …, %t: !sym.t<[4], f32>) {
      …
      flow.yield(%0) : !sym.t<[2, 4, 8, 8], f32>
    } mask_mod (%b: !sym.t<[2], i64>, %h: …, %i: …, %j: …) {
      …
      flow.yield(%0) : !sym.t<[2, 4, 8, 8], i1>
    }

The arguments are query `[B, H, M, D]`, key `[B or 1, G, N, D]` and value `[B or 1, G, N, E]`, whose G heads H / G ones
of the queries share, and the scale; then the tensors of the block mask, which say what blocks a mask leaves and change
no number, and those that each region takes. A region says for all scores at once what torch's function says for one: it
takes the scores `[B, H, M, N]`, the numbers of batches, heads, queries and keys, one dim each, and its tensors.

`lowering/aten_inline_flex.py` makes products, a softmax and the ops of the regions of it, which is how both are defined
(`torch/_higher_order_ops/flex_attention.py`); there is no other form below.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, cast

from xdsl.ir import Dialect, Region, SSAValue
from xdsl.irdl import irdl_op_definition, prop_def, region_def, traits_def, var_operand_def, var_result_def
from xdsl.utils.exceptions import VerifyException

from .expr import Dim
from .flow_op import FlowOp, YieldOp, type_of
from .literal import Literal, Value, text
from .tensor import TensorType, is_float


@dataclass(frozen=True)
class Sizes:
    """Sizes of an attention, by the letters above."""

    batch: Dim
    heads: Dim
    queries: Dim
    keys: Dim
    groups: Dim
    size: Dim
    columns: Dim

    @property
    def scores(self) -> tuple[Dim, ...]:
        return (self.batch, self.heads, self.queries, self.keys)


class Flex(FlowOp):
    """What both ops have: their first arguments, `TENSORS` and the scale, and what the regions take. These
    stand in each, in order: what a class inherits comes after its own.
    """

    arguments = prop_def(Literal)
    inputs = var_operand_def()
    blocks = prop_def(Literal)
    score = prop_def(Literal)
    mask = prop_def(Literal)
    res = var_result_def()

    COUNTS: ClassVar[tuple[str, ...]] = ("blocks", "score", "mask")
    TENSORS: ClassVar[tuple[str, ...]] = ("query", "key", "value")

    @property
    def tensors(self) -> list[SSAValue]:
        """The first arguments, those called `TENSORS`."""
        return cast("list[SSAValue]", self.args()[: len(self.TENSORS)])

    @property
    def scale(self) -> Value:
        return self.args()[len(self.TENSORS)]

    def taken(self, region: str) -> list[SSAValue]:
        """The tensors of "score" or "mask" among the arguments, the last ones of its region."""
        blocks, score, mask = (cast(Literal, self.properties[name]).value for name in self.COUNTS)
        first = len(self.TENSORS) + 1 + blocks + (0 if region == "score" else score)
        return cast("list[SSAValue]", self.args()[first : first + (score if region == "score" else mask)])

    @property
    def sizes(self) -> Sizes:
        query, key, value = (cast(TensorType, v.type) for v in self.tensors[:3])
        batch, heads, queries, size = query.shape
        return Sizes(batch, heads, queries, key.shape[2], key.shape[1], size, value.shape[3])

    @property
    def precision(self) -> str:
        """The dtype of scores."""
        return "f64" if cast(TensorType, self.tensors[0].type).dtype == "f64" else "f32"

    @property
    def modified(self) -> str:
        """The dtype of scores after `score_mod`; where it yields integers, they meet the -inf of a mask."""
        dtype = cast(TensorType, _yielded(self.regions[0])[0]).dtype
        return dtype if is_float(dtype) else self.precision

    def _verify_types(self) -> None:
        args, names = self.args(), self.TENSORS
        counts = sum(cast(Literal, self.properties[name]).value for name in self.COUNTS)
        if len(args) != len(names) + 1 + counts:
            raise VerifyException(f"takes {', '.join(names)}, a scale and {counts} tensors, not {len(args)} arguments")
        for name, value in zip(names[:3], args, strict=False):
            if not isinstance(t := type_of(value), TensorType) or t.rank != 4 or not is_float(t.dtype):
                raise VerifyException(f"{name} has four dims of floats, but is {t}")
        scale = args[len(names)]
        if isinstance(scale, (bool, SSAValue)):
            raise VerifyException(f"the scale is a number, not {scale if isinstance(scale, bool) else type_of(scale)}")
        for i, value in enumerate(args[len(names) + 1 :]):
            if not isinstance(type_of(value), TensorType):
                raise VerifyException(f"what is counted is a tensor, but #{i} is {text(value)}")
        self._verify_sizes()
        mask = self.tensor((*self.sizes.scores,), "i1")
        self.expect("mask_mod", self.regions[1], [*self.numbers(), *self.taken("mask")], [mask])
        given = [self.tensor(self.sizes.scores, self.precision), *self.numbers(), *self.taken("score")]
        modified = _yielded(self.regions[0])
        dtype = modified[0].dtype if len(modified) == 1 and isinstance(modified[0], TensorType) else self.precision
        self.expect("score_mod", self.regions[0], given, [self.tensor(self.sizes.scores, dtype)])
        self._verify_results()

    def _verify_sizes(self) -> None:
        query, key, value = (cast(TensorType, v.type) for v in self.tensors[:3])
        if key.shape[:3] != value.shape[:3]:
            raise VerifyException(f"keys are {list(key.shape[:3])}, but values {list(value.shape[:3])}")
        if query.shape[3] != key.shape[3]:
            raise VerifyException(f"a query has {query.shape[3]} numbers, a key {key.shape[3]}")
        (batch, heads), (others, groups) = query.shape[:2], key.shape[:2]
        if isinstance(batch, int) and isinstance(others, int) and others not in (1, batch):
            raise VerifyException(f"{batch} batches of queries cannot share {others} of keys")
        if isinstance(heads, int) and isinstance(groups, int) and (heads % groups if groups else heads):
            raise VerifyException(f"{heads} heads of queries cannot share {groups} of keys")

    def _verify_results(self) -> None:
        raise NotImplementedError

    def expect_results(self, wanted: Sequence[tuple[str, TensorType]]) -> None:
        """Check dtypes and sizes of the results."""
        if len(self.results) != len(wanted):
            raise VerifyException(f"has {len(self.results)} results, {len(wanted)} are expected")
        for result, (name, t) in zip(self.results, wanted, strict=True):
            given = result.type
            if not isinstance(given, TensorType) or (given.shape, given.dtype) != (t.shape, t.dtype):
                raise VerifyException(f"{name} is {given}, {t} is expected")

    def tensor(self, shape: Sequence[Dim], dtype: str) -> TensorType:
        """A contiguous type where the queries are."""
        return TensorType.get(tuple(shape), dtype, None, cast(TensorType, self.tensors[0].type).device)

    def numbers(self) -> list[TensorType]:
        """Types of the numbers of batches, heads, queries and keys."""
        return [self.tensor((n,), "i64") for n in self.sizes.scores]


def _yielded(region: Region) -> list[Any]:
    return [type_of(v) for v in cast(YieldOp, region.block.last_op).args()]


@irdl_op_definition
class AttentionOp(Flex):
    """`out, lse, max = flex.attention(query, key, value, scale, …)`, out in the dtype of the queries.

    out = softmax(where(mask_mod, score_mod(scale * query @ key^T), -inf)) @ value, 0 where a query sees nothing; the
    logarithm of the sum of exponentials and the largest score are those of base 2, in f32, -inf there.
    """

    name = "flex.attention"
    score_mod = region_def("single_block")
    mask_mod = region_def("single_block")
    traits = traits_def()
    REGIONS: ClassVar[tuple[str, ...]] = ("score_mod", "mask_mod")

    def _verify_results(self) -> None:
        sizes, dtype = self.sizes, cast(TensorType, self.tensors[0].type).dtype
        rows = self.tensor(sizes.scores[:3], "f32")
        out = self.tensor((*sizes.scores[:3], sizes.columns), dtype)
        self.expect_results([("out", out), ("logsumexp", rows), ("max", rows)])


@irdl_op_definition
class AttentionBackwardOp(Flex):
    """Gradients of query, key and value, and of those tensors of `score_mod` that have one.

    `joint` takes what `score_mod` does, the gradient of its result after the numbers of keys. It yields the gradients
    of the scores and of its tensors.
    """

    name = "flex.attention_backward"
    score_mod = region_def("single_block")
    mask_mod = region_def("single_block")
    joint = region_def("single_block")
    traits = traits_def()
    REGIONS: ClassVar[tuple[str, ...]] = ("score_mod", "mask_mod", "joint")
    TENSORS: ClassVar[tuple[str, ...]] = ("query", "key", "value", "out", "logsumexp", "grad_out", "grad_logsumexp")

    def _verify_results(self) -> None:
        sizes, query = self.sizes, cast(TensorType, self.tensors[0].type)
        for name, value in zip(self.TENSORS[3:], self.tensors[3:], strict=True):
            wanted = (*sizes.scores[:3], *([] if "logsumexp" in name else [sizes.columns]))
            if not isinstance(t := type_of(value), TensorType) or t.shape != wanted:
                raise VerifyException(f"{name} is {t}, a tensor of {list(wanted)} is expected")
        scores = self.tensor(sizes.scores, self.precision)
        post = self.modified
        gradients = [r.type for r in list(self.results)[3:]]
        given = [scores, *self.numbers(), self.tensor(sizes.scores, post), *self.taken("score")]
        found = _yielded(self.joint)
        dtype = found[0].dtype if found and isinstance(found[0], TensorType) else self.precision
        self.expect("joint", self.joint, given, [scores.with_(dtype=dtype), *gradients])
        wanted = [
            (f"the gradient of {name}", cast(TensorType, v.type))
            for name, v in zip(self.TENSORS[:3], self.tensors[:3], strict=True)
        ]
        if any(t.dtype != query.dtype for _, t in wanted):
            raise VerifyException("query, key and value have one dtype")
        self.expect_results([*wanted, *((f"gradient #{i}", cast(TensorType, t)) for i, t in enumerate(gradients))])


FLEX = Dialect("flex", [AttentionOp, AttentionBackwardOp], [])
