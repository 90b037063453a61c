"""What torch is doing: names that are not public, and that are there without AOTAutograd and Inductor."""

from __future__ import annotations

from types import CodeType
from typing import Any

import torch
from torch._C._dynamo import eval_frame as _c_eval_frame
from torch.autograd import forward_ad
from torch.utils import _device as _default_device

_eval_frame: Any = _c_eval_frame
_functions: Any = torch._C
_forward_ad: Any = forward_ad
_device: Any = _default_device


def cache_entries(code: CodeType) -> list[Any]:
    """What TorchDynamo has compiled of a function."""
    return _eval_frame._debug_get_cache_entry_list(code)


def mode_or_transform() -> bool:
    """Whether something stands between the program and the functions of torch that it calls: a mode, a transform."""
    modes, transforms = _functions._len_torch_function_stack(), _functions._functorch.peek_interpreter_stack()
    return bool(modes or transforms) or _forward_ad._current_level != -1 or _device.CURRENT_DEVICE is not None
