"""`flex_attention` and its gradient as ops with regions (`dialects/flex.py`).

Their graphs are about one score; the regions are about all of them, so torch's own `vmap` is traced over each graph.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, cast

import torch
from torch._dynamo._trace_wrapped_higher_order_op import TransformGetItemToIndex
from torch._guards import detect_fake_mode
from torch.fx import GraphModule, Interpreter, Node
from torch.fx.experimental.proxy_tensor import make_fx
from torch.nn.attention.flex_attention import _vmap_for_bhqkv  # pyright: ignore[reportPrivateUsage]
from torch.utils import _pytree as pytree
from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, FloatAttr, IntegerAttr, StringAttr, f64, i64
from xdsl.ir import Attribute, Region, SSAValue

from ..dialects.flex import AttentionBackwardOp, AttentionOp
from ..dialects.flow_op import YieldOp
from ..dialects.tensor import TensorType
from .graph_parts import UnsupportedGraph, held_constants, parts_of
from .locations import location

if TYPE_CHECKING:
    from .import_fx import Importer

BLOCK_MASK = (
    *("kv_num_blocks", "kv_indices", "full_kv_num_blocks", "full_kv_indices"),
    *("q_num_blocks", "q_indices", "full_q_num_blocks", "full_q_indices"),
    *("dq_write_order", "dq_write_order_full"),
)
"""The tensors of torch's block mask, after two lengths; the last two from torch 2.13 on."""


def flex_attention(
    importer: Importer,
    node: Node,
    query: Node,
    key: Node,
    value: Node,
    score_mod: Node,
    block_mask: Sequence[Any],
    scale: Any,
    options: dict[str, Any],
    score: Sequence[Any] = (),
    mask: Sequence[Any] = (),
) -> None:
    """Import a call."""
    call = _Call(importer, node, [query, key, value], [score_mod], block_mask, scale, options, score, mask)
    regions = [call.score_mod(), call.mask_mod()]
    rows = call.scores[:3]
    types = [call.result(0), call.type(rows, "f32"), call.type(rows, "f32")]
    call.add(AttentionOp, regions, types)
    importer.env[node] = tuple(call.results)


def flex_attention_backward(
    importer: Importer,
    node: Node,
    query: Node,
    key: Node,
    value: Node,
    out: Node,
    logsumexp: Node,
    grad_out: Node | None,
    grad_logsumexp: Node | None,
    score_mod: Node,
    joint: Node | None,
    block_mask: Sequence[Any],
    scale: Any,
    options: dict[str, Any],
    score: Sequence[Any] = (),
    mask: Sequence[Any] = (),
) -> None:
    """Import a call. Raises UnsupportedGraph where there is no joint graph."""
    if joint is None:
        raise UnsupportedGraph(f"node {node.name}: there is no graph of the gradient")
    tensors = [query, key, value, out, logsumexp, grad_out or (out,), grad_logsumexp or (logsumexp,)]
    call = _Call(importer, node, tensors, [score_mod, joint], block_mask, scale, options, score, mask)
    forward, masked = call.score_mod(), call.mask_mod()
    gradients, region = call.joint(forward)
    given = [call.region_type(v) for v, g in zip(score, gradients, strict=True) if g]
    call.add(AttentionBackwardOp, [forward, masked, region], [*(call.result(i) for i in range(3)), *given])
    captured = iter(call.results[3:])
    importer.env[node] = (*call.results[:3], tuple(next(captured) if g else None for g in gradients))


class _Call:
    """A call that is imported, with what both kinds have."""

    def __init__(
        self,
        importer: Importer,
        node: Node,
        tensors: Sequence[Any],
        graphs: Sequence[Node],
        block_mask: Sequence[Any],
        scale: Any,
        options: dict[str, Any],
        score: Sequence[Any],
        mask: Sequence[Any],
    ) -> None:
        self.importer, self.node = importer, node
        self.tensors = [self.zeros(v[0]) if isinstance(v, tuple) else importer.resolve(v) for v in tensors]
        self.scale, self.options = importer.resolve(scale), options
        self.blocks = dict(zip(BLOCK_MASK, block_mask[2:-3], strict=False))
        self.blocks = {name: importer.resolve(v) for name, v in self.blocks.items() if v is not None}
        self.block_size = [importer.resolve(v) for v in block_mask[-3:-1]]
        self.graphs: dict[str, list[Node]] = {"score": list(graphs), "mask": [block_mask[-1]]}
        self.others = {"score": list(score), "mask": list(mask)}
        self.constants = {
            kind: [c for g in found for c in held_constants(self.held(g))] for kind, found in self.graphs.items()
        }
        """Tensors that graphs hold: the last arguments of their regions."""
        query, key = (v.meta["val"] for v in tensors[:2])
        self.query = query
        self.mode: Any = detect_fake_mode((query, key))
        self.precision = "f64" if query.dtype is torch.float64 else "f32"
        self.scores: tuple[Any, ...] = (*query.shape[:3], key.shape[2])
        self.results: list[SSAValue] = []

    def zeros(self, like: Node) -> SSAValue:
        """The gradient of a result that nobody used."""
        from ..dialects.aten import lookup

        x = cast(SSAValue, self.importer.resolve(like))
        t = cast(TensorType, x.type)
        cls = lookup("aten.zeros_like")
        assert cls is not None
        self.importer.block.add_op(op := cls.call([x], [t], location(self.node)))
        return op.results[0]

    def type(self, shape: Sequence[Any], dtype: str) -> TensorType:
        like = self.importer.types.of(self.query)
        assert isinstance(like, TensorType)
        return TensorType.get(self.importer.resolve(tuple(shape)), dtype, None, like.device)  # pyright: ignore

    def result(self, i: int) -> Attribute:
        return self.importer.types.of(self.node.meta["val"][i])

    def region_type(self, buffer: Node) -> Attribute:
        """The type of the gradient of a tensor."""
        t = self.importer.types.of(buffer.meta["val"])
        return TensorType.get(t.shape, t.dtype, None, t.device) if isinstance(t, TensorType) else t

    def held(self, graph: Node) -> GraphModule:
        if not isinstance(found := self.importer.held.get(graph), GraphModule):
            raise UnsupportedGraph(f"node {self.node.name}: {graph} is no graph")
        return found

    def score_mod(self) -> Region:
        return self.region("score", 0, lambda f, n: _vmap_for_bhqkv(f, (0,), (None,) * n), self.fake())[1]

    def mask_mod(self) -> Region:
        return self.region("mask", 0, lambda f, n: _vmap_for_bhqkv(f, (), (None,) * n))[1]

    def joint(self, forward: Region) -> tuple[list[bool], Region]:
        """Which tensors have a gradient, and the region that gives it."""
        (modified,) = cast(YieldOp, forward.block.last_op).operands
        dtype = cast(TensorType, modified.type).dtype
        numbers = len(self.others["score"])

        def batched(f: Callable[..., Any], n: int) -> Callable[..., Any]:
            outputs = [0, *[None] * (4 + numbers)]
            return _vmap_for_bhqkv(f, (0,), (0, *[None] * n), cast(Any, outputs))

        kinds = {"f16": torch.float16, "bf16": torch.bfloat16, "f32": torch.float32, "f64": torch.float64}
        default = kinds[self.precision]
        given, region = self.region("score", 1, batched, self.fake(), self.fake(kinds.get(dtype, default)))
        return given[5:], region

    def fake(self, dtype: torch.dtype | None = None) -> torch.Tensor:
        """A fake tensor of all scores."""
        working = torch.float64 if self.precision == "f64" else torch.float32
        with self.mode:
            return torch.empty(self.scores, dtype=dtype or working, device=self.query.device)

    def region(
        self,
        kind: str,
        which: int,
        batched: Callable[[Callable[..., Any], int], Callable[..., Any]],
        scores: torch.Tensor | None = None,
        gradient: torch.Tensor | None = None,
    ) -> tuple[list[bool], Region]:
        """The region of a graph, which takes the scores and their gradient where these are given; and which of the
        outputs of the graph there are.
        """
        graph, constants = self.graphs[kind][which], self.constants[kind]
        held = self.held(graph)
        own = held_constants(held)
        others = [v.meta["val"] if isinstance(v, Node) else v for v in self.others[kind]]
        given: list[bool] = []

        def one(*args: Any) -> Any:
            n = len(args) - len(constants)
            values = {str(c.target): v for c, v in zip(constants, args[n:], strict=True) if c in own}
            out = _Lifted(held, values).run(*args[:n])
            return list(out) if isinstance(out, (list, tuple)) else out

        def whole(*args: Any) -> Any:
            with TransformGetItemToIndex():
                out = pytree.tree_leaves(batched(one, len(others) + len(constants))(*args), lambda v: v is None)
            given[:] = [v is not None for v in out]
            return [v for v in out if v is not None]

        with self.mode, torch.no_grad():
            numbers = [torch.arange(0, n, device=self.query.device) for n in self.scores]
            first = [] if scores is None else [scores]
            last = [] if gradient is None else [gradient]
            fakes = [self.mode.from_tensor(c.meta["val"]) for c in constants]
            args = [*first, *numbers, *last, *others, *fakes]
            try:
                traced = make_fx(torch.func.functionalize(whole))(*args)
            except Exception as error:  # whatever torch's own vmap meets: then torch runs it
                reason = f"{type(error).__name__}: {error}"
                raise UnsupportedGraph(f"node {self.node.name}: {graph} cannot be traced: {reason}") from None
        _without_custom_calls(traced)
        words = [*(["score"] if first else []), "b", "h", "q_idx", "kv_idx", *(["grad"] if last else [])]
        return given, self.body(traced, words)

    def body(self, traced: GraphModule, words: Sequence[str]) -> Region:
        """A traced graph as a region, with names of its first arguments; numbers stand in it literally."""
        parts, body = parts_of(traced), self.importer.inner(traced)
        if held_constants(traced):
            raise UnsupportedGraph(f"node {self.node.name}: a graph makes a constant")
        numbers = [n for n in parts.placeholders if not isinstance(n.meta["val"], torch.Tensor)]
        body.add_arguments([n for n in parts.placeholders if n not in numbers])
        for argument, word in zip(body.block.args, words, strict=False):
            argument.name_hint = word
        body.env |= {n: self.importer.resolve(n.meta["val"]) for n in numbers}
        for call in parts.calls:
            body.add_call(call)
        results = [body.resolve(v) for v in cast("list[Any]", parts.output.args[0])]
        body.block.add_op(YieldOp.make(results))
        body.add_missing_locations()
        return Region(body.block)

    def add(self, op: Any, regions: Sequence[Region], types: Sequence[Attribute]) -> None:
        """The op over its regions; `results` are those of it."""
        taken = {
            kind: [
                *(v for v in map(self.importer.resolve, self.others[kind]) if isinstance(v, SSAValue)),
                *(self.importer.env[c] for c in self.constants[kind]),
            ]
            for kind in ("score", "mask")
        }
        args = [*self.tensors, self.scale, *self.blocks.values(), *taken["score"], *taken["mask"]]
        counts = {"blocks": len(self.blocks), "score": len(taken["score"]), "mask": len(taken["mask"])}
        made = op.make(args, regions, types, location(self.node), **counts)
        made.attributes |= self.attributes()
        self.importer.block.add_op(made)
        self.importer.name_results(self.node, made)
        self.results = list(made.results)

    def attributes(self) -> dict[str, Attribute]:
        """What names the operands of a block mask, and what torch's own kernels are told."""
        sizes = [IntegerAttr(n, i64) for n in self.block_size if isinstance(n, int)]
        known = {name: a for name, value in self.options.items() if (a := _attribute(value)) is not None}
        found: dict[str, Attribute] = {}
        if self.blocks:
            found["block_mask"] = ArrayAttr([StringAttr(name) for name in self.blocks])
            found["block_size"] = ArrayAttr(sizes)
        if known:
            found["kernel_options"] = DictionaryAttr(known)
        return found


def _without_custom_calls(traced: GraphModule) -> None:
    """Write torch's own operator, the gradient of `table[index]`, with ATen's, and leave out what nobody uses."""
    for node in traced.graph.find_nodes(op="call_function", target=torch.ops.flex_lib.zeros_and_scatter.default):
        sizes, indices, values = node.args
        x = values.meta["val"]
        with traced.graph.inserting_before(node):
            zeros = traced.graph.call_function(_NEW_ZEROS, (values, sizes))
            zeros.meta = {"val": x.new_zeros(node.meta["val"].shape)}
            put = traced.graph.call_function(torch.ops.aten.index_put.default, (zeros, indices, values, True))
            put.meta = dict(node.meta)
        node.replace_all_uses_with(put)
    traced.graph.eliminate_dead_code()


_NEW_ZEROS = torch.ops.aten.new_zeros.default


def _attribute(value: Any) -> Attribute | None:
    if isinstance(value, bool):
        return IntegerAttr.from_bool(value)
    if isinstance(value, int):
        return IntegerAttr(value, i64)
    if isinstance(value, float):
        return FloatAttr(value, f64)
    return StringAttr(value) if isinstance(value, str) else None


class _Lifted(Interpreter):
    """Runs a graph with other values in place of tensors that it holds."""

    def __init__(self, graph: GraphModule, values: dict[str, Any]) -> None:
        super().__init__(graph)
        self.values = values

    def get_attr(self, target: Any, args: Any, kwargs: Any) -> Any:
        return self.values[target] if target in self.values else super().get_attr(target, args, kwargs)
