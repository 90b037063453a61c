"""Operators by what they do to elements, whatever these are."""

from __future__ import annotations

from typing import Final

_VIEWS = (
    *("alias", "detach", "lift", "lift_fresh", "contiguous", "view", "_unsafe_view", "reshape", "_reshape_alias"),
    *(
        "view_as",
        "reshape_as",
        "flatten.using_ints",
        "unflatten.int",
        "ravel",
        "squeeze",
        "squeeze.dim",
        "squeeze.dims",
    ),
    *("atleast_1d", "atleast_2d", "expand", "expand_as", "broadcast_to", "unsqueeze", "permute", "transpose.int"),
    *("swapaxes", "swapdims", "t", "mT", "numpy_T", "movedim.int", "slice.Tensor", "narrow", "select.int"),
    *("split.Tensor", "split_with_sizes", "split.sizes", "chunk", "tensor_split.sections", "unsafe_split.Tensor"),
    *("unsafe_split_with_sizes", "unsafe_chunk", "unbind.int", "unfold", "diagonal"),
    *("positive", "resolve_conj", "resolve_neg"),
)
_COPIES = (
    *("view_copy", "_reshape_copy", "squeeze_copy", "squeeze_copy.dim", "squeeze_copy.dims", "expand_copy", "t_copy"),
    *("unsqueeze_copy", "permute_copy", "transpose_copy.int", "slice_copy.Tensor", "narrow_copy", "select_copy.int"),
    *("split_copy.Tensor", "split_with_sizes_copy", "unbind_copy.int", "unfold_copy", "diagonal_copy"),
    *("clone", "lift_fresh_copy", "detach_copy", "alias_copy", "cat", "concat", "concatenate", "stack", "flip"),
    *("fliplr", "flipud", "roll", "repeat", "tile", "repeat_interleave.self_int", "rot90", "pixel_shuffle"),
    *("pixel_unshuffle", "slice_scatter", "select_scatter", "diagonal_scatter", "diag_embed"),
    *("slice_backward", "select_backward", "diagonal_backward", "tril", "triu", "where.self"),
    *("masked_fill.Tensor", "index.Tensor", "gather"),
    *("_unsafe_index.Tensor", "take", "index_select", "embedding", "scatter.src", "index_copy"),
    *("index_fill.int_Tensor", "masked_scatter", "reflection_pad1d", "reflection_pad2d"),
    *("reflection_pad3d", "replication_pad1d", "replication_pad2d", "replication_pad3d"),
    "channel_shuffle",
    *("zeros", "zeros_like", "new_zeros", "zero", "empty.memory_format", "empty_like", "new_empty", "empty_strided"),
    *("new_empty_strided", "empty_permuted", "fill.Tensor"),
)
_WITH_NUMBERS = (
    *("full", "full_like", "fill.Scalar", "new_full", "scalar_tensor", "constant_pad_nd", "where.ScalarSelf"),
    *("where.ScalarOther", "where.Scalar", "masked_fill.Scalar", "scatter.value", "index_fill.int_Scalar"),
    *("_unsafe_masked_index", "block_diag", "im2col"),
)
_SUMS = (
    *("neg", "sum", "sum.dim_IntList", "mean", "mean.dim", "cumsum", "trace", "diff", "scatter_add", "index_put"),
    *("_unsafe_index_put", "unfold_backward", "_unsafe_masked_index_put_accumulate", "put"),
)

MOVES: Final = frozenset(f"aten.{name}" for name in (*_VIEWS, *_COPIES))
"""Operators whose results hold elements of their operands, or zeros: they are the same for all dtypes."""

MOVES_OR_NUMBERS: Final = MOVES | frozenset(f"aten.{name}" for name in _WITH_NUMBERS)
"""Operators whose results hold elements of their operands, or numbers that they are given."""

PARTWISE: Final = MOVES_OR_NUMBERS | frozenset(f"aten.{name}" for name in _SUMS)
"""Operators that do to complex numbers what they do to the real and to the imaginary parts."""
