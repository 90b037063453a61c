"""Options that users give: `torch.compile(..., options={"dump": "out"})`, checked against the fields of
`Options`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import fields, replace
from difflib import get_close_matches
from typing import Any, get_type_hints

from ..dialects.user_error import LamellaError
from ..lowering.options import Options

MODES = ("default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs")
"""torch.compile's modes: `reduce-overhead` asks for `cuda_graphs`, `max-autotune` for `autotune` as well."""

CHOICES = {
    "numerics": ("fast", "eager"),
    "random": ("philox", "eager"),
    "products": ("auto", "all", "none"),
}
"""What options of text may be; `target` has its own names."""


FLAGS = ("timing", "strict")
"""Options that the environment variables `LAMELLA_…` of their names turn on."""

_ON, _OFF = ("1", "true", "yes", "on"), ("", "0", "false", "no", "off")


class OptionError(LamellaError, ValueError):
    """An option or mode that does not exist, or a value it cannot have."""


class NoProgramError(LamellaError, TypeError):
    """What is to be compiled is nothing that can be called."""


def parse_options(options: Any = None, mode: str | None = None) -> Options:
    """The options of a mapping by name, with defaults. Raises OptionError."""
    if mode is not None and mode not in MODES:
        raise OptionError(f"unknown mode {mode!r}; the modes are {', '.join(MODES)}")
    if options is not None and not isinstance(options, Mapping):
        raise OptionError(f"options must be a dict, got {type(options).__name__}")
    known = {f.name: f for f in fields(Options)}
    hints = get_type_hints(Options)
    given: dict[str, Any] = dict(options or {})
    if mode in ("reduce-overhead", "max-autotune"):
        given.setdefault("cuda_graphs", True)
    if mode is not None and mode.startswith("max-autotune"):
        given.setdefault("autotune", True)
    budget = given.get("activation_memory_budget")
    if type(budget) is int:
        given["activation_memory_budget"] = budget = float(budget)
    for name, value in given.items():
        if name not in known:
            near = get_close_matches(str(name), known, 1)
            hint = f" (did you mean {near[0]!r}?)" if near else ""
            raise OptionError(f"unknown option {name!r}{hint}; the options are {', '.join(known)}")
        if not isinstance(value, hints[name]):
            kind = getattr(hints[name], "__name__", str(hints[name]))
            raise OptionError(f"option {name!r} must be of type {kind}, got {value!r}")
        choices = _targets() if name == "target" else CHOICES.get(name, (value,))
        if value not in choices:
            raise OptionError(f"option {name!r} is one of {', '.join(choices)}, got {value!r}")
    if budget is not None and not 0 <= budget <= 1:
        raise OptionError(f"option 'activation_memory_budget' lies between 0 and 1, got {budget!r}")
    return Options(**given)


def check_program(program: Any) -> None:
    """Raises NoProgramError for what cannot be called."""
    if not callable(program):
        raise NoProgramError(f"expected a function, a module or an exported program, got {type(program).__name__}")


def check_flags(dynamic: Any, fullgraph: Any) -> None:
    """Raises OptionError: torch takes what is no truth value for one, or says where in its code it does not."""
    if dynamic is not None and not isinstance(dynamic, bool):
        raise OptionError(f"dynamic is True, False or None, got {dynamic!r}")
    if not isinstance(fullgraph, bool):
        raise OptionError(f"fullgraph is True or False, got {fullgraph!r}")


def with_environment(options: Options) -> Options:
    """`options`, with what environment variables turn on. Raises OptionError."""
    on = {name: True for name in FLAGS if _flag(f"LAMELLA_{name.upper()}")}
    return replace(options, **on)


def _flag(variable: str) -> bool:
    text = os.environ.get(variable, "").strip()
    if text.lower() not in (*_ON, *_OFF):
        raise OptionError(f"{variable} is {text!r}: set it to 1 or 0, or unset it")
    return text.lower() in _ON


def _targets() -> tuple[str, ...]:
    from ..lowering import gpu_target, target  # the IR's library, which a cached graph does without

    return "host", *target.NAMES, *gpu_target.NAMES
