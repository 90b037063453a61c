"""Where a node of an FX graph came from: the user's line and the path of the module it stands in."""

from __future__ import annotations

import os
import re
from functools import lru_cache

import torch
from torch.fx import Node
from xdsl.dialects.builtin import FileLineColLoc, IntAttr, LocationAttr, NameLoc, StringAttr, UnknownLoc

from .module_names import module_name

_FRAME = re.compile(r'File "([^"]+)", line (\d+)')
_TORCH = os.path.dirname(os.path.abspath(torch.__file__)) + os.sep


def location(node: Node) -> LocationAttr:
    """`loc("layers.0.attn"("model.py":12:0))`, without what is not known."""
    modules = node.meta.get("nn_module_stack") or node.meta.get("fwd_nn_module_stack")
    path = next(reversed(modules.values()))[0] if modules else ""
    return _location(node.meta.get("stack_trace") or "", path)


@lru_cache(maxsize=1 << 14)
def _location(stack_trace: str, module_path: str) -> LocationAttr:
    place: LocationAttr = UnknownLoc()
    frames = [(file, line) for file, line in _FRAME.findall(stack_trace) if not file.startswith("<")]
    if frames:
        users = [frame for frame in frames if not frame[0].startswith(_TORCH)]
        file, line = (users or frames)[-1]
        place = FileLineColLoc(StringAttr(file), IntAttr(int(line)), IntAttr(0))
    path = module_name(module_path)
    return NameLoc(StringAttr(path), place) if path else place
