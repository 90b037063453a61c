"""The text of a pipeline, read into passes and written from them.

pipeline ::= element (`,` element)*
element  ::= name (`{` option* `}`)?
option   ::= key (`=` value (`,` value)*)?
value    ::= word | `"` characters, with `\\` before `"` and `\\` `"`
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from functools import cache
from types import NoneType, UnionType
from typing import Any, Literal, NoReturn, Union, cast, get_args, get_origin, get_type_hints

from xdsl.passes import ModulePass

from ..dialects.errors import LamellaError, caret
from .registry import LEVELS, PASSES, TARGETS, load_pass, options_for, passes_to

_TOKEN = re.compile(r'\s*(?:(?P<string>"(?:[^"\\]|\\.)*")|(?P<punctuation>[{},=])|(?P<word>[^\s{},="]+)|(?P<end>$))')

# A value as written: its text, and the flag with no value as None
Values = list[str] | None


class PipelineError(LamellaError):
    """A pipeline that names what does not exist, or cannot be read."""


@dataclasses.dataclass(frozen=True)
class Element:
    """One pass of a pipeline, before its class is known."""

    name: str
    options: dict[str, Values]


class _Reader:
    """A cursor over the tokens of a pipeline text."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.position = 0
        self.kind = self.token = ""
        self.start = 0
        self.advance()

    def advance(self) -> str:
        """Consume the current token and return it."""
        consumed = self.token
        match = _TOKEN.match(self.text, self.position)
        if match is None:
            self.start = self.position + len(self.text[self.position :]) - len(self.text[self.position :].lstrip())
            self.fail("unterminated string")
        self.kind = match.lastgroup or ""
        self.token = match[self.kind]
        self.start, self.position = match.span(self.kind)
        return consumed

    def accept(self, token: str) -> bool:
        found = self.kind == "punctuation" and self.token == token
        if found:
            self.advance()
        return found

    def fail(self, message: str) -> NoReturn:
        raise PipelineError(f"{message} in the pipeline" + caret(self.text.replace("\n", " "), self.start + 1))

    def word(self, what: str) -> str:
        if self.kind != "word":
            self.fail(f"expected {what}")
        return self.advance()

    def value(self) -> str:
        if self.kind == "string":
            return re.sub(r"\\(.)", r"\1", self.advance()[1:-1])
        return self.word("a value")

    def element(self) -> Element:
        name = self.word("the name of a pass")
        options: dict[str, Values] = {}
        if self.accept("{"):
            while not self.accept("}"):
                at = self.start
                key = self.word("an option or '}'").replace("-", "_")
                if key in options:
                    self.start = at
                    self.fail(f"option '{key}' is given twice")
                options[key] = self._values() if self.accept("=") else None
        return Element(name, options)

    def _values(self) -> list[str]:
        values = [self.value()]
        while self.accept(","):
            values.append(self.value())
        return values


def parse_elements(text: str) -> list[Element]:
    """The elements of a pipeline text; none for blank text. Raises `PipelineError` with the place."""
    reader = _Reader(text)
    if reader.kind == "end":
        return []
    elements = [reader.element()]
    while reader.accept(","):
        elements.append(reader.element())
    if reader.kind != "end":
        reader.fail("expected ',' or '{'" if not elements[-1].options else "expected ','")
    return elements


def parse_passes(text: str) -> tuple[ModulePass, ...]:
    """The passes of a pipeline text such as `aten-to-prims,prims-to-loop{tile=64 order=a,b}`.

    The name of a level stands for the passes down to it. Raises `PipelineError`.
    """
    passes: list[ModulePass] = []
    for element in parse_elements(text):
        if element.name in LEVELS and element.name not in PASSES:
            if element.options:
                raise PipelineError(f"'{element.name}' is a level, which takes no options: name its passes instead")
            passes.extend(make_pass(Element(name, {})) for name in passes_to(element.name))
        else:
            passes.append(make_pass(element))
    return tuple(passes)


def pipeline_to(level: str) -> tuple[ModulePass, ...]:
    """The passes that take a module from the top to `level`. Raises `PipelineError`."""
    if level not in LEVELS:
        raise PipelineError(f"unknown level '{level}'; the levels are {', '.join(LEVELS)}")
    return parse_passes(",".join(passes_to(level)))


def pipeline_for(target: str, level: str | None = None) -> tuple[ModulePass, ...]:
    """The passes that take a module down to `target`, or to a level on the way there. Raises `PipelineError`."""
    if target not in TARGETS:
        raise PipelineError(f"unknown target '{target}'; the targets are {', '.join(TARGETS)}")
    if level is not None and level not in LEVELS:
        return pipeline_to(level)
    options = options_for(target)
    names = passes_to(level or TARGETS[target])
    return parse_passes(",".join(f"{name}{{{options[name]}}}" if name in options else name for name in names))


def make_pass(element: Element) -> ModulePass:
    """The pass that `element` names, with its options converted to their types. Raises `PipelineError`."""
    name = element.name
    if name not in PASSES:
        near = get_close_matches(name, [*PASSES, *LEVELS], 3)
        raise PipelineError(f"unknown pass '{name}'; " + (f"did you mean {' or '.join(near)}?" if near else _all()))
    cls = load_pass(name)
    types = option_types(cls)
    values: dict[str, Any] = {}
    for key, value in element.options.items():
        if key not in types:
            near = get_close_matches(key, types, 1)
            hint = f"; did you mean '{near[0]}'?" if near else ""
            valid = ", ".join(f"{n}: {show_type(t)}" for n, t in types.items())
            options = f"its options are {valid}" if valid else "it has none"
            raise PipelineError(f"pass '{name}' has no option '{key}'{hint} ({options})")
        try:
            values[key] = convert(value, types[key])
        except ValueError:
            got = "no value" if value is None else f"'{','.join(value)}'"
            raise PipelineError(f"option '{key}' of pass '{name}' takes {show_type(types[key])}, got {got}") from None
    if missing := sorted(cls.required_fields() - values.keys()):
        raise PipelineError(f"pass '{name}' needs a value for {', '.join(missing)}")
    try:
        return cls(**values)
    except ValueError as error:
        raise PipelineError(f"pass '{name}': {error}") from None


def _all() -> str:
    return f"the passes are {', '.join(PASSES)}"


@cache
def option_types(cls: type[ModulePass]) -> dict[str, Any]:
    """Option name to type, in order."""
    hints = get_type_hints(cls)
    return {field.name: hints[field.name] for field in dataclasses.fields(cls) if field.init}


def convert(value: Values, type: Any) -> Any:
    """`value` as `type`: bool, int, float, str, a Literal, a tuple of one type, a union of these; or `ValueError`."""
    origin, arguments = get_origin(type), get_args(type)
    if origin in (Union, UnionType):
        if NoneType in arguments and value in (None, ["none"]):
            return None
        return _first_of(value, [a for a in arguments if a is not NoneType])
    if origin is tuple:
        return tuple(convert([part], arguments[0]) for part in value or [])
    if type is bool and value is None:
        return True
    if value is None or len(value) != 1:
        raise ValueError(value)
    return _convert_one(value[0], type)


def _first_of(value: Values, types: Sequence[Any]) -> Any:
    for type in types[:-1]:
        try:
            return convert(value, type)
        except ValueError:
            continue
    return convert(value, types[-1])


def _convert_one(text: str, type: Any) -> Any:
    choices: Sequence[object] = ()
    if get_origin(type) is Literal:
        choices = get_args(type)
    elif type is bool:
        choices = (True, False)
    else:
        return type(text)
    for choice in choices:
        if show_value(choice) == text:
            return choice
    raise ValueError(text)


def show_type(type: Any) -> str:
    """A type as a user of the command line knows it: `int`, `int,int,...`, `a|b`."""
    origin, arguments = get_origin(type), get_args(type)
    if origin in (Union, UnionType):
        return " or ".join("none" if a is NoneType else show_type(a) for a in arguments)
    if origin is tuple:
        return f"{show_type(arguments[0])},..."
    if origin is Literal:
        return "|".join(map(str, arguments))
    return str(type.__name__)


def show_value(value: object) -> str:
    """The text that `convert` reads back to `value`."""
    match value:
        case None:
            return "none"
        case bool():
            return str(value).lower()
        case tuple():
            return ",".join(map(show_value, cast("tuple[object, ...]", value)))
        case _:
            text = str(value)
            return text if re.fullmatch(r'[^\s{},="]+', text) else '"' + re.sub(r'(["\\])', r"\\\1", text) + '"'


def pipeline_text(passes: Sequence[ModulePass]) -> str:
    """The text from which `parse_passes` makes `passes` again; options at their defaults are left out."""
    return ",".join(p.name + _options_text(p) for p in passes)


def _options_text(p: ModulePass) -> str:
    defaults: Mapping[str, object] = _defaults(type(p))
    options = [
        f"{name}={text}" if (text := show_value(getattr(p, name))) else name
        for name in option_types(type(p))
        if name not in defaults or getattr(p, name) != defaults[name]
    ]
    return "{" + " ".join(options) + "}" if options else ""


def _defaults(cls: type[ModulePass]) -> dict[str, object]:
    found: dict[str, object] = {}
    for field in dataclasses.fields(cls):
        if field.default is not dataclasses.MISSING:
            found[field.name] = field.default
        elif field.default_factory is not dataclasses.MISSING:
            found[field.name] = field.default_factory()
    return found


def describe_pass(name: str) -> str:
    """Name, what the pass does, and its options with types and defaults, for people."""
    cls = load_pass(name)
    summary = next((line.strip() for line in (cls.__doc__ or "").splitlines() if line.strip()), "")
    lines = [f"{name}: {summary}" if summary else name]
    defaults = _defaults(cls)
    for option, type in option_types(cls).items():
        default = f" = {show_value(defaults[option]) or '(empty)'}" if option in defaults else ", required"
        lines.append(f"    {option}: {show_type(type)}{default}")
    return "\n".join(lines)
