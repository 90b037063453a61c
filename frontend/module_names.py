"""What a user calls a part of a module."""

import re

_ROOT = re.compile(r"^[LG]\['(\w+)'\]|^L__(self)___?")
_ITEM = re.compile(r"(?:\._(?:modules|parameters|buffers))?(?:\['([^']*)'\]|\[(\d+)\])")


def module_name(path: str) -> str:
    """How a user would call what TorchDynamo calls `L['self'].layers[0]._modules['attn']`: `layers.0.attn`."""
    rooted = _ROOT.sub(lambda m: (m[1] or m[2]) + ".", path)
    name = _ITEM.sub(lambda m: "." + (m[1] or m[2]), rooted).replace("..", ".").strip(".")
    return "" if name == "self" else name.removeprefix("self.")
