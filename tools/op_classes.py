"""What kind of operator each entry of torch's database is, and which operators ATen calls its core."""

from __future__ import annotations

from functools import cache
from typing import Any, Final

import torch
from torch.testing._internal.opinfo import core

from ..dialects.aten import op_name

_NAMED: Final[dict[str, str]] = {
    "pointwise": """
        addcmul addcdiv allclose clamp isin lerp logaddexp2 where masked_fill nn.functional.hardswish to clone
        nn.functional.leaky_relu nn.functional.glu nn.functional.gelu heaviside polar complex resolve_conj resolve_neg
        masked.logaddexp nn.functional.smooth_l1_loss nn.functional.l1_loss nn.functional.mse_loss
        nn.functional.huber_loss nn.functional.soft_margin_loss nn.functional.binary_cross_entropy
        nn.functional.binary_cross_entropy_with_logits nn.functional.kl_div nn.functional.poisson_nll_loss
        nn.functional.gaussian_nll_loss nn.functional.hinge_embedding_loss nn.functional.margin_ranking_loss outer
    """,
    "reduction": """
        equal max-reduction_with_dim max-reduction_no_dim min-reduction_with_dim min-reduction_no_dim aminmax var_mean
        var_mean-unbiased std_mean std_mean-unbiased logsumexp trace norm norm-fro norm-inf dist softmax
        softmax-with_dtype log_softmax log_softmax-with_dtype nn.functional.softmin nn.functional.softmin-with_dtype
        masked.softmax masked.log_softmax masked.softmin masked.normalize nn.functional.normalize
        nn.functional.layer_norm nn.functional.rms_norm nn.functional.group_norm nn.functional.cosine_similarity
        nn.functional.pairwise_distance sum_to_size trapz trapezoid
    """,
    "view": """
        alias_copy as_strided as_strided-partial_views as_strided_copy as_strided_scatter atleast_1d atleast_2d
        atleast_3d block_diag broadcast_tensors broadcast_to cat chunk column_stack constant_pad_nd contiguous diag
        diag_embed diagflat diagonal diagonal_copy diagonal_scatter dsplit dstack expand expand_as expand_copy flatten
        flip fliplr flipud H hsplit hstack mH mT meshgrid-list_of_tensors meshgrid-variadic_tensors movedim
        narrow_copy nn.functional.channel_shuffle nn.functional.pad-circular nn.functional.pad-constant
        nn.functional.pad-reflect nn.functional.pad-replicate nn.functional.pad-replicate_negative
        nn.functional.pixel_shuffle nn.functional.pixel_unshuffle nn.functional.unfold permute permute_copy ravel repeat
        reshape reshape_as roll rot90 select select_scatter slice slice_scatter split split-list_args split_with_sizes
        split_with_sizes_copy squeeze squeeze-multiple squeeze_copy stack t T t_copy tile transpose transpose_copy tril
        triu unbind unbind_copy unflatten unfold unfold_copy unsafe_chunk unsafe_split unsqueeze unsqueeze_copy view
        view_as view_as_complex view_as_real view_copy vsplit vstack
    """,
    "indexing": """
        __getitem__ _unsafe_masked_index _unsafe_masked_index_put_accumulate bucketize gather index_add index_copy
        index_fill index_put index_reduce-amax index_reduce-amin index_reduce-mean index_reduce-prod index_select
        masked_scatter nn.functional.embedding nn.functional.one_hot put scatter scatter_add scatter_reduce-amax
        scatter_reduce-amin scatter_reduce-mean scatter_reduce-prod scatter_reduce-sum searchsorted take
        take_along_dim
    """,
    "scan": """
        cummax cummin cumprod cumsum cumulative_trapezoid logcumsumexp masked.cumprod masked.cumsum
    """,
}
"""Entries by name, beside those that the database itself calls unary, binary or reduction."""

CLASSES: Final = (*_NAMED, "other")


@cache
def _names() -> dict[str, str]:
    return {name: kind for kind, names in _NAMED.items() for name in names.split()}


def class_of(op: Any, name: str) -> str:
    """The class of an entry."""
    if isinstance(op, (core.UnaryUfuncInfo, core.BinaryUfuncInfo)):
        return "pointwise"
    if isinstance(op, core.ReductionOpInfo):
        return "reduction"
    return _names().get(name, "other")


@cache
def core_operators() -> frozenset[str]:
    """The operators on tensors that ATen calls its core: each program can be said in them. Without those that ask for
    sizes.
    """
    found: set[str] = set()
    for name in dir(torch.ops.aten):
        packet = getattr(torch.ops.aten, name)
        if isinstance(packet, torch._ops.OpOverloadPacket) and not name.startswith("sym_"):
            overloads = (getattr(packet, overload) for overload in packet.overloads())
            found |= {op_name(o) for o in overloads if torch.Tag.core in o.tags}
    return frozenset(found)
