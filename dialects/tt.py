"""The tt level: Triton's dialect, whose text Triton's own compiler takes from there.

Beside the ops here, `arith`, `math` (on tensors: `arith_tensors.py`), `scf` and `ub` make up a function.
"""

from xdsl.ir import Dialect

from .arith_tensors import ARITH as ARITH  # whoever makes kernels has arith of tensors
from .tt_block_pointer import AdvanceOp, MakeTensorPtrOp
from .tt_descriptor import (
    DescriptorGatherOp,
    DescriptorLoadOp,
    DescriptorReduceOp,
    DescriptorScatterOp,
    DescriptorStoreOp,
    MakeTensorDescriptorOp,
)
from .tt_dot import DotOp, DotScaledOp, GatherOp, HistogramOp
from .tt_enums import CachePolicyAttr
from .tt_function import (
    AssertOp,
    CallOp,
    FuncOp,
    GetNumProgramsOp,
    GetProgramIdOp,
    PrintOp,
    ReturnOp,
)
from .tt_memory import AddPtrOp, AtomicCASOp, AtomicRMWOp, LoadOp, StoreOp
from .tt_pointwise import (
    BitcastOp,
    ClampFOp,
    ElementwiseInlineAsmOp,
    ExternElementwiseOp,
    FpToFpOp,
    IntToPtrOp,
    MulhiUIOp,
    PreciseDivFOp,
    PreciseSqrtOp,
    PtrToIntOp,
)
from .tt_reduce import (
    MapElementwiseOp,
    MapElementwiseReturnOp,
    ReduceOp,
    ReduceReturnOp,
    ScanOp,
    ScanReturnOp,
)
from .tt_shape import (
    BroadcastOp,
    CatOp,
    ExpandDimsOp,
    JoinOp,
    MakeRangeOp,
    ReshapeOp,
    SplatOp,
    SplitOp,
    TransOp,
    UnsplatOp,
)
from .tt_types import PtrType, TensorDescType
from .tt_types import element_of as element_of
from .tt_types import pointee_of as pointee_of
from .tt_types import pointer as pointer
from .tt_types import shape_of as shape_of
from .tt_types import tensor as tensor
from .tt_types import with_element as with_element

TT = Dialect(
    "tt",
    [
        *(FuncOp, ReturnOp, CallOp, GetProgramIdOp, GetNumProgramsOp, AssertOp, PrintOp),
        *(MakeRangeOp, SplatOp, UnsplatOp, ExpandDimsOp, BroadcastOp, ReshapeOp, TransOp, CatOp, JoinOp, SplitOp),
        *(AddPtrOp, LoadOp, StoreOp, AtomicRMWOp, AtomicCASOp),
        *(IntToPtrOp, PtrToIntOp, BitcastOp, FpToFpOp, ClampFOp, PreciseSqrtOp, PreciseDivFOp, MulhiUIOp),
        *(ExternElementwiseOp, ElementwiseInlineAsmOp),
        *(ReduceOp, ReduceReturnOp, ScanOp, ScanReturnOp, MapElementwiseOp, MapElementwiseReturnOp),
        *(DotOp, DotScaledOp, HistogramOp, GatherOp),
        *(MakeTensorPtrOp, AdvanceOp),
        *(MakeTensorDescriptorOp, DescriptorLoadOp, DescriptorStoreOp, DescriptorReduceOp),
        *(DescriptorGatherOp, DescriptorScatterOp),
    ],
    [PtrType, TensorDescType, CachePolicyAttr],
)
