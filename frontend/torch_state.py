"""What torch is doing: names that are not public, and that are there without AOTAutograd and Inductor."""

from __future__ import annotations

import logging
import sys
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from types import CodeType
from typing import Any
from unittest.mock import patch

import torch
from torch._C._dynamo import eval_frame as _c_eval_frame
from torch.autograd import forward_ad
from torch.utils import _device as _default_device
from torch.utils._python_dispatch import _get_current_dispatch_mode, _pop_mode_temporarily

_eval_frame: Any = _c_eval_frame
_functions: Any = torch._C
_transforms: Any = _functions._functorch
_forward_ad: Any = forward_ad
_device: Any = _default_device


def cache_entries(code: CodeType) -> list[Any]:
    """What TorchDynamo has compiled of a function."""
    return _eval_frame._debug_get_cache_entry_list(code)


def mode_or_transform() -> bool:
    """Whether something stands between the program and the functions of torch that it calls: a mode, a transform."""
    modes, transforms = _functions._len_torch_function_stack(), _transforms.peek_interpreter_stack()
    return bool(modes or transforms) or in_forward_mode() or _device.CURRENT_DEVICE is not None


@contextmanager
def outside_analysis() -> Generator[None]:
    """Without the mode in which AOTAutograd has a first call made, if that is on."""
    if type(_get_current_dispatch_mode()).__name__ == "_AnalyzeCustomOpInputOutputMode":
        with _pop_mode_temporarily():
            yield
    else:
        yield


def in_forward_mode() -> bool:
    """Whether tensors may have derivatives in forward mode."""
    return _forward_ad._current_level != -1


def settings_of_traces() -> tuple[object, ...]:
    """Torch's settings that its operators' meaning depends on when a program is traced, and that no config holds."""
    deterministic: Any = torch.utils.deterministic
    backends, cuda = torch.backends, torch.cuda
    return (
        *(torch.get_default_dtype(), torch.get_float32_matmul_precision()),
        *(torch.are_deterministic_algorithms_enabled(), deterministic.fill_uninitialized_memory),
        *(backends.cuda.flash_sdp_enabled(), backends.cuda.mem_efficient_sdp_enabled()),
        *(backends.cuda.math_sdp_enabled(), backends.cuda.cudnn_sdp_enabled()),
        *(backends.cudnn.enabled, backends.cudnn.benchmark, backends.cudnn.deterministic, backends.mkldnn.enabled),
        *(cuda.is_available(), *((cuda.get_device_name(), cuda.current_device()) if cuda.is_initialized() else ())),
    )


@contextmanager
def nothing_for_nobody() -> Generator[None]:
    """A context in which TorchDynamo does not do what leads to nothing:

    - measure, for its logs, how long guards take that it has built: it empties the processor's caches before, which
      takes 19 ms for each function that is compiled or found;
    - read the source files of what it traces token by token, for its log of calls: 46 ms for those of BERT;
    - load a good part of `torch.distributed` to see that a function is not one that this defines: 30 ms.
    """
    from torch._dynamo import guards, output_graph, symbolic_convert
    from torch._dynamo.variables.higher_order_ops import LocalMapWrappedHigherOrderVariable

    modules: Any = (guards, output_graph, symbolic_convert)
    local_map: Any = LocalMapWrappedHigherOrderVariable
    wraps = local_map.should_wrap_in_hop
    with ExitStack() as changed:
        if not _is_written(modules[0].guards_log):
            changed.enter_context(patch.object(guards, "profile_guard_manager", lambda *_: 0.0))
        calls = (modules[1].trace_call_log, modules[2].trace_call_log, modules[2].trace_source_log)
        if not any(map(_is_written, calls)):
            changed.enter_context(patch.object(symbolic_convert, "get_funcname", lambda *_: None))
        changed.enter_context(
            patch.object(local_map, "should_wrap_in_hop", lambda value: _LOCAL_MAP in sys.modules and wraps(value))
        )
        yield


_LOCAL_MAP = "torch.distributed.tensor.experimental._func_map"
"""The module whose function TorchDynamo looks for."""


def _is_written(log: logging.Logger) -> bool:
    return log.isEnabledFor(logging.DEBUG)


@contextmanager
def transforms_as_before() -> Generator[None]:
    """Where something raises in here, transforms of `torch.func` that it has begun and not ended are ended: a graph of
    TorchDynamo begins and ends them by calls, and traced to the call that raises it has not ended them.
    """
    depth = _transforms.get_dynamic_layer_stack_depth()
    try:
        yield
    except BaseException:
        while _transforms.get_dynamic_layer_stack_depth() > depth:
            _end_transform()
        if not in_forward_mode():
            _leave_forward_mode()
        raise


def _end_transform() -> None:
    """Ends the innermost one, as its function does: torch 2.11's own `pop_dynamic_layer_stack_and_undo_to_depth` ends
    two at a time, and raises where their number is odd.
    """
    ends = {
        "Vmap": _transforms._vmap_decrement_nesting,
        "Grad": _transforms._grad_decrement_nesting,
        "Jvp": _transforms._jvp_decrement_nesting,
        "Functionalize": _transforms._func_decrement_nesting,
    }
    ends[_transforms.peek_interpreter_stack().key().name]()


def _leave_forward_mode() -> None:
    """Graphs enter the one level that there is in C++, which `forward_ad` does not hear of."""
    try:
        level = _functions._enter_dual_level()
    except RuntimeError:  # it has been entered
        level = 0
    _functions._exit_dual_level(level=level)


def turned_off(wrapper: Any) -> Any:
    """What `torch.compiler.disable` made of a compiled graph, shorter: the graph is called with TorchDynamo turned off,
    as by the wrapper, which calls half a dozen functions of Python to find out that this is what it is to do.
    """
    from torch._dynamo.eval_frame import skip_code

    call = getattr(wrapper, "_torchdynamo_orig_callable", None)
    if call is None:
        return wrapper

    def run(*args: Any) -> Any:
        before = _eval_frame.set_eval_frame(None)
        try:
            return call(*args)
        finally:
            _eval_frame.set_eval_frame(before)

    skip_code(run.__code__)  # TorchDynamo is still on where it is called
    run.__dict__.update(wrapper.__dict__, _torchdynamo_wrapper_id=id(run))
    return run
