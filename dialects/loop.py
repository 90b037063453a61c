"""The loop level: nests over tensors, then kernels made of fused nests with explicit loops.

Scalar code in bodies is `arith` and `math`; the ops here are the iteration, memory access, and what
those dialects lack. docs/ARCHITECTURE.md shows both forms.
"""

from xdsl.ir import Dialect

from .loop_attrs import DimsAttr as DimsAttr
from .loop_attrs import IndexAttr as IndexAttr
from .loop_attrs import LoopDim as LoopDim
from .loop_attrs import PredAttr as PredAttr
from .loop_kernel import EndOp, ForOp, KernelOp, LaunchOp, ScratchOp
from .loop_nest import NestOp, ScatterOp, ViewOp
from .loop_scalar import FUNCTIONS as FUNCTIONS
from .loop_scalar import AssertOp, FnOp, IndexOp, LoadOp, PredOp, ScanOp, StoreOp, YieldAtOp, YieldOp
from .loop_sort import SortOp
from .loop_syntax import ALONG as ALONG
from .loop_syntax import COMBINE_RESULTS as COMBINE_RESULTS
from .loop_syntax import SCAN_KINDS as SCAN_KINDS
from .loop_syntax import SORT as SORT
from .loop_syntax import STORE_KINDS as STORE_KINDS
from .loop_syntax import body_ops as body_ops
from .loop_syntax import kinds as kinds
from .loop_syntax import op_symbols as op_symbols

LOOP = Dialect(
    "loop",
    [
        *(NestOp, ScatterOp, ViewOp, KernelOp, LaunchOp, ForOp, ScratchOp, EndOp),
        *(LoadOp, StoreOp, IndexOp, PredOp, FnOp, AssertOp, ScanOp, SortOp, YieldOp, YieldAtOp),
    ],
    [DimsAttr, IndexAttr, PredAttr],
)
