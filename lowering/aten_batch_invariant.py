"""aten to aten: a matrix product of one row is one of two rows, the second zeros, computed as a product of many is.

    %c = aten.mm(%a, %b) : [1, k] x [k, n]  ->  the first row of aten.mm(constant_pad_nd(%a, [0, 0, 0, 1]), %b)

With every product a kernel, reductions whole and rounding where eager rounds (`driver.pipeline` asks for these too),
an element of a result depends on its row alone: all forms of a product of two rows and more add in one order. A product
with a vector is one with a matrix of one column.

oneDNN and cuDNN choose how to convolve by the number of images. Each is convolved alone, as is its gradient:

    %y = aten.convolution(%x, %w, …)  ->  %y = flow.scan(%x, %w) carried 0 over 1 do (%image, %w) { … }

Flash attention, and cuDNN's, share out the keys by how many queries there are. The memory-efficient kernel goes over
all keys in one program, whose queries are of one head of one image: it is called in their place.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, cast

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, NoneType
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.passes import ModulePass

from ..dialects.aten import AtenOp, lookup
from ..dialects.flow import ScanOp, YieldOp, bodies, slice_type
from ..dialects.tensor import TensorType
from .attention_call import EFFICIENT

ROWS: Final = {"aten.mm": "self", "aten.addmm": "mat1", "aten.bmm": "self", "aten.baddbmm": "batch1"}
"""The factor that has the rows of each product."""

IMAGES: Final = {"aten.convolution": ("input",), "aten.convolution_backward": ("grad_output", "input")}
"""The arguments whose first dim is that of the first result, of which each part is computed alone."""

SHARED_OUT: Final = frozenset({"aten._scaled_dot_product_flash_attention", "aten._scaled_dot_product_cudnn_attention"})
"""Calls of attention on a GPU that depend on the batch."""

VECTORS: Final = {"aten.mv": ("self", "vec"), "aten.addmv": ("mat", "vec")}
"""The factors of products with a vector."""


@dataclass(frozen=True)
class AtenBatchInvariant(ModulePass):
    """Make products of one row as products of two, convolve image by image, and call the attention of each image."""

    name = "aten-batch-invariant"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for body in bodies(op):
            for o in list(body.block.ops):
                if isinstance(o, AtenOp) and o.name in VECTORS:
                    o = _matrix(o)
                if not isinstance(o, AtenOp):
                    continue
                if o.name in ROWS and cast(TensorType, o.results[0].type).shape[-2] == 1:
                    _two_rows(o)
                elif o.name in IMAGES:
                    _image_by_image(o)
                elif o.name in SHARED_OUT:
                    _attention_of_each(o)


def _image_by_image(op: AtenOp) -> None:
    """Its first result, a scan over images; the others, which add up over all of them, stay a call."""
    if not op.results[0].uses or not isinstance(t := op.results[0].type, TensorType):
        return
    values = dict(zip((a.name for a in op.schema.args), op.args(), strict=True))
    images = [cast(SSAValue, values[name]) for name in IMAGES[op.name]]
    if any(cast(TensorType, v.type).rank != t.rank for v in images):
        return  # an image without a batch
    sliced = list(dict.fromkeys(images))
    whole = [v for name, v in values.items() if isinstance(v, SSAValue) and name not in IMAGES[op.name]]
    types: list[Attribute] = [slice_type(cast(TensorType, v.type)) for v in sliced]
    block = Block(arg_types=[*types, *(v.type for v in whole)])
    rest = iter(block.args[len(sliced) :])

    def add(name: str, args: list[object], result_types: list[Attribute]) -> AtenOp:
        cls = lookup(name)
        assert cls is not None
        block.add_op(new := cls.call(args, result_types, op.location))
        return new

    image: dict[SSAValue, SSAValue] = {}
    for v, argument in zip(sliced, block.args, strict=False):
        of = cast(TensorType, v.type)
        image[v] = add("aten.unsqueeze", [argument, 0], [of.with_(shape=(1, *of.shape[1:]))]).results[0]
    alone: dict[str, object] = {}
    for name, v in values.items():
        alone[name] = v
        if isinstance(v, SSAValue):
            alone[name] = image[v] if name in IMAGES[op.name] else next(rest)
    one = t.with_(shape=(1, *t.shape[1:]))
    results: list[Attribute] = [one]
    if "output_mask" in values:
        alone["output_mask"] = (True, False, False)
        results = [one, NoneType(), NoneType()]
    made = add(op.name, list(alone.values()), results)
    made.attributes |= op.attributes
    part = add("aten.select.int", [made.results[0], 0, 0], [slice_type(t)])
    block.add_op(YieldOp.make([part.results[0]], op.location))
    scan = ScanOp.make([*sliced, *whole], [Region(block)], [t], op.location, carried=0, over=len(sliced))
    parent = op.parent_block()
    assert parent is not None
    parent.insert_op_before(scan, op)
    scan.results[0].name_hint = op.results[0].name_hint
    op.results[0].replace_all_uses_with(scan.results[0])
    if "output_mask" not in values:
        op.detach()
        op.erase()
        return
    others = values | {"output_mask": (False, *cast("tuple[bool, ...]", values["output_mask"])[1:])}
    if any(others["output_mask"]):
        left: list[Attribute] = [NoneType(), *(r.type for r in op.results[1:])]
        replaced = type(op).call(list(others.values()), left, op.location)
        parent.insert_op_before(replaced, op)
        for before, after in zip(op.results[1:], replaced.results[1:], strict=True):
            after.name_hint = before.name_hint
            before.replace_all_uses_with(after)
    op.detach()
    op.erase()


def _attention_of_each(op: AtenOp) -> None:
    """The memory-efficient kernel, where it takes the tensors and nothing but the first result is asked for."""
    args = dict(zip((a.name for a in op.schema.args), op.args(), strict=True))
    query, key, value = (cast(SSAValue, args[name]) for name in ("query", "key", "value"))
    q, k = cast(TensorType, query.type), cast(TensorType, key.type)
    if args["dropout_p"] != 0 or any(r.uses for r in op.results[1:]):
        return
    if q.shape[1] != k.shape[1] or (args["is_causal"] and q.shape[2] != k.shape[2]):
        return
    bias = args.get("attn_bias")
    if isinstance(bias, SSAValue):
        t = cast(TensorType, bias.type)
        if t.dtype != q.dtype or t.rank > 4 or t.shape[-1] != k.shape[2] or t.strides[-1] != 1 or not _whole(t):
            return
        scores = (*q.shape[:3], k.shape[2])
        strides = (0,) * (4 - t.rank) + tuple(
            0 if n != m else s for n, m, s in zip(t.shape, scores[4 - t.rank :], t.strides, strict=True)
        )
        call = cast("type[AtenOp]", lookup("aten.expand")).call(
            [bias, scores], [t.with_(shape=scores, strides=strides)], op.location
        )
        bias = _insert(op, call)
    number = TensorType.get((), "i64")
    none = TensorType.get((*q.shape[:2], 0), "f32", None, q.device)
    given = (query, key, value, bias, False, 0.0, args["is_causal"], args["scale"])
    made = cast("type[AtenOp]", lookup(EFFICIENT)).call(given, [op.results[0].type, none, number, number], op.location)
    _insert(op, made).name_hint = op.results[0].name_hint
    op.results[0].replace_all_uses_with(made.results[0])
    op.detach()
    op.erase()


def _whole(t: TensorType) -> bool:
    """Whether rows begin at multiples of eight elements, as that kernel asks of a mask, and their ends are such."""
    return all(isinstance(n, int) and n % 8 == 0 for n in (t.shape[-1], *t.strides[:-1]))


def _matrix(op: AtenOp) -> Operation:
    """The product with a matrix of one column, in its place."""
    t = cast(TensorType, op.results[0].type)
    matrix, vector = (cast(SSAValue, op.arg(name)) for name in VECTORS[op.name])

    def before(name: str, args: list[object], type: TensorType) -> SSAValue:
        cls = lookup(name)
        assert cls is not None
        return _insert(op, cls.call(args, [type], op.location))

    def column(v: SSAValue) -> SSAValue:
        of = cast(TensorType, v.type)
        return before("aten.unsqueeze", [v, 1], of.with_(shape=(*of.shape, 1), strides=(*of.strides, 1)))

    wide = t.with_(shape=(*t.shape, 1), strides=(1, 1))
    if op.name == "aten.mv":
        product = before("aten.mm", [matrix, column(vector)], wide)
    else:
        bias = cast(SSAValue, op.arg("self"))
        added = column(bias) if cast(TensorType, bias.type).rank else bias
        product = before("aten.addmm", [added, matrix, column(vector), op.arg("beta"), op.arg("alpha")], wide)
    value = before("aten.squeeze.dim", [product, 1], t)
    value.name_hint = op.results[0].name_hint
    op.results[0].replace_all_uses_with(value)
    op.detach()
    op.erase()
    return cast(Operation, product.owner)


def _two_rows(op: AtenOp) -> None:
    t = cast(TensorType, op.results[0].type)
    factor = cast(SSAValue, op.arg(ROWS[op.name]))
    two = (*t.shape[:-2], 2, t.shape[-1])

    def before(name: str, args: list[object], type: TensorType) -> SSAValue:
        cls = lookup(name)
        assert cls is not None
        return _insert(op, cls.call(args, [type], op.location))

    rows = cast(TensorType, factor.type)
    more = rows.with_(shape=(*rows.shape[:-2], 2, rows.shape[-1]))
    padded = before("aten.constant_pad_nd", [factor, (0, 0, 0, 1)], more)
    given = {ROWS[op.name]: padded}
    bias = op.arg("self") if "add" in op.name else None
    if isinstance(bias, SSAValue) and len(cast(TensorType, bias.type).shape) > 1:
        # a bias of one row is repeated as it is
        b = cast(TensorType, bias.type)
        wide = (*b.shape[:-2], 2, b.shape[-1])
        repeated = b.with_(shape=wide, strides=(*b.strides[:-2], 0, b.strides[-1]))
        given["self"] = before("aten.expand", [bias, wide], repeated)
    arguments = [given.get(a.name, v) for a, v in zip(op.schema.args, op.args(), strict=True)]
    product = _insert(op, type(op).call(arguments, [t.with_(shape=two)], op.location))
    made = cast(TensorType, product.type)
    first = before("aten.slice.Tensor", [product, len(two) - 2, 0, 1], t.with_(shape=t.shape, strides=made.strides))
    value = before("aten.clone", [first, "contiguous_format"], t)
    value.name_hint = op.results[0].name_hint
    op.results[0].replace_all_uses_with(value)
    op.detach()
    op.erase()


def _insert(op: AtenOp, new: Operation) -> SSAValue:
    block = op.parent_block()
    assert block is not None
    block.insert_op_before(new, op)
    return new.results[0]
