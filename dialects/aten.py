"""The aten level: one op class per overload of every operator registered with torch, made from its schema on first use.

    %2 = aten.add.Tensor(%0, %1, alpha = 2) : (!sym.t<[s0, 16], f32>, !sym.t<[16], f32>) -> !sym.t<[s0, 16], f32>
    %3 = aten.view(%2, [16*s0]) : (!sym.t<[s0, 16], f32>) -> !sym.t<[16*s0], f32>

Tensors are operands, in the order of the schema; every other argument is a `Literal` property, left out where it
equals the default. A list of tensors is several operands or results; a result that torch leaves undefined has type
`none`. Overload "default" is not written: `aten.mm`. Operators of a namespace that is one of our own dialects are
written `torch_prims.iota`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from difflib import get_close_matches
from importlib import import_module
from typing import Any, ClassVar

import torch
from xdsl.dialects.builtin import LocationAttr, NoneType
from xdsl.ir import Attribute, Dialect, Operation, OpTraits, SSAValue
from xdsl.parser import Parser
from xdsl.parser.core import UnresolvedOperand
from xdsl.printer import Printer
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException
from xdsl.utils.mlir_lexer import MLIRTokenKind

from .context import DIALECTS
from .literal import HOLE, Literal, Value, holes, parse_value, text
from .schema import NAMED, Argument, Schema, compile_schema
from .tensor import SymType, TensorType


class AtenOp(Operation):
    """A call of one operator overload. Subclasses come from `lookup`; all that differs is in the class attributes."""

    schema: ClassVar[Schema]
    overload: ClassVar[Any]
    """The `torch._ops.OpOverload`: callable on tensors."""

    def args(self) -> list[Value]:
        """The arguments in the order of the schema: SSA values, literal values, tuples of both. Defaults are filled
        in, and a number given for a fixed-length list has become that list.
        """
        operands = iter(self.operands)
        return [_fill(a, template, operands) for a, template in zip(self.schema.args, self.templates(), strict=True)]

    def arg(self, name: str) -> Value:
        """One argument, as in `args()`. Raises KeyError for a name that the schema lacks."""
        return self.args()[self.schema.index[name]]

    def templates(self) -> Iterator[Value]:
        """The literal value of each argument, with `HOLE` for operands."""
        properties = self.properties
        for a in self.schema.args:
            literal = properties.get(a.name)
            yield literal.value if isinstance(literal, Literal) else a.default

    @classmethod
    def call(
        cls, args: Sequence[Value], result_types: Sequence[Attribute], location: LocationAttr | None = None
    ) -> AtenOp:
        """An op from arguments in the order of the schema, as `args()` gives them; trailing ones may be left out when
        they have defaults. Raises TypeError for what no literal can hold; whether it fits the schema is left to
        `verify_`.
        """
        operands: list[SSAValue] = []
        properties: dict[str, Attribute] = {}
        for a, value in zip(cls.schema.args, args, strict=False):
            template = _template(value, operands)
            if template is HOLE and a.default is HOLE:
                continue
            literal = Literal.get(template)
            if a.default is HOLE or literal is not Literal.get(a.default):
                properties[a.name] = literal
        return cls.create(operands=operands, result_types=result_types, properties=properties, location=location)

    def verify_(self) -> None:
        schema, operands = self.schema, tuple(self.operands)
        taken = known = 0
        for a in schema.args:
            literal = self.properties.get(a.name)
            if literal is None:
                if a.default is not HOLE:
                    continue
                template = HOLE
                if a.is_list or not a.binds:
                    raise VerifyException(f"argument '{a.name}: {a.type_text}' is missing")
            else:
                known += 1
                if not isinstance(literal, Literal):
                    raise VerifyException(f"argument '{a.name}' must be an #aten.lit, got {literal}")
                template = literal.value
                if not schema.allows(a, template):
                    raise VerifyException(f"argument '{a.name}': {text(template)} is not {_kind(a)}")
            for _ in range(holes(template)):
                if taken >= len(operands):
                    raise VerifyException(
                        f"argument '{a.name}' lacks an operand: {len(operands)} given for {schema.text}"
                    )
                if not a.accepts_operand(operands[taken]):
                    raise VerifyException(
                        f"argument '{a.name}': a value of type {operands[taken].type} cannot stand for {_kind(a)}"
                    )
                taken += 1
        if taken != len(operands):
            raise VerifyException(f"takes {taken} operands with these arguments, got {len(operands)}: {schema.text}")
        if known != len(self.properties):
            unknown = ", ".join(sorted(set(self.properties) - set(schema.index)))
            raise VerifyException(f"has no argument {unknown}: {schema.text}")
        self._verify_results()

    def _verify_results(self) -> None:
        schema, results = self.schema, self.results
        least, most = schema.results
        if not least <= len(results) <= (len(results) if most is None else most):
            expected = f"{least}" if most == least else f"at least {least}"
            raise VerifyException(f"has {len(results)} results, expected {expected}: {schema.text}")
        # Which results a list takes is not known where there is more beside it: each may then be of any declared type.
        single = [{r.element} for r in schema.returns]
        expected_types = single if most is not None else [set[str]().union(*single)] * len(results)
        for i, (result, elements) in enumerate(zip(results, expected_types, strict=True)):
            if not isinstance(result.type, _result_types(elements)):
                raise VerifyException(f"result #{i} of type {result.type} cannot hold {' or '.join(sorted(elements))}")

    def print(self, printer: Printer) -> None:
        operands = iter(self.operands)
        printer.print_string("(")
        first, named = True, False
        for a, template in zip(self.schema.args, self.templates(), strict=True):
            if a.name not in self.properties and a.default is not HOLE:
                named = True
                continue
            if not first:
                printer.print_string(", ")
            first = False
            if named or a.kwarg_only:
                printer.print_string(f"{a.name} = ")
            _print_value(printer, template, operands, a.element in NAMED)
        printer.print_string(")")
        printer.print_op_attributes(self.attributes, print_keyword=False)
        printer.print_string(" : ")
        printer.print_function_type(self.operand_types, self.result_types)

    @classmethod
    def parse(cls, parser: Parser) -> AtenOp:
        unresolved: list[UnresolvedOperand] = []
        properties: dict[str, Attribute] = {}
        parser.parse_punctuation("(")
        if parser.parse_optional_punctuation(")") is None:
            position = cls._parse_argument(parser, 0, unresolved, properties)
            while parser.parse_optional_punctuation(")") is None:
                parser.parse_punctuation(",")
                position = cls._parse_argument(parser, position, unresolved, properties)
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        start = parser.pos
        signature = parser.parse_function_type()
        return cls.create(
            operands=parser.resolve_operands(unresolved, signature.inputs.data, start),
            result_types=signature.outputs.data,
            properties=properties,
            attributes=attributes,
        )

    @classmethod
    def _parse_argument(
        cls, parser: Parser, position: int, unresolved: list[UnresolvedOperand], properties: dict[str, Attribute]
    ) -> int:
        """Parse `value` or `name = value` for the argument at `position` or after it; returns the next position."""
        schema = cls.schema
        token = parser._current_token  # pyright: ignore[reportPrivateUsage]
        if token.kind is MLIRTokenKind.BARE_IDENT and _followed_by_equals(token.span.input.content, token.span.end):
            name = parser.parse_identifier()
            position_of = schema.index.get(name)
            if position_of is None:
                parser.raise_error(f"'{cls.name}' has no argument '{name}': {schema.text}", token.span)
            if position_of < position:
                parser.raise_error(f"argument '{name}' is given twice or out of order: {schema.text}", token.span)
            position = position_of
            parser.parse_punctuation("=")
        elif position >= len(schema.args):
            parser.raise_error(f"too many arguments: {schema.text}")
        a = schema.args[position]
        start = parser.pos
        value = parse_value(parser, unresolved, words=a.element in NAMED)
        if not schema.allows(a, value):
            parser.raise_error(f"argument '{a.name}': {text(value)} is not {_kind(a)}", start, parser.pos)
        if value is not HOLE or a.default is not HOLE:
            literal = Literal.get(value)
            if a.default is HOLE or literal is not Literal.get(a.default):
                properties[a.name] = literal
        return position + 1


def _followed_by_equals(content: str, end: int) -> bool:
    while end < len(content) and content[end] in " \t\n":
        end += 1
    return content[end : end + 1] == "="


def _kind(a: Argument) -> str:
    return f"{'an' if a.type_text[0] in 'aeiouAEIO' else 'a'} {a.type_text}"


def _template(value: Value, operands: list[SSAValue]) -> Value:
    """`value` with holes for the SSA values, which are appended to `operands`."""
    if isinstance(value, SSAValue):
        operands.append(value)
        return HOLE
    return tuple(_template(v, operands) for v in value) if isinstance(value, (tuple, list)) else value


def _fill(a: Argument, template: Value, operands: Iterator[SSAValue]) -> Value:
    if template is HOLE:
        return next(operands)
    if type(template) is tuple:
        filled = tuple(_fill_element(t, operands) for t in template)
        return filled * (a.size if a.size and len(filled) == 1 else 1)  # one number for all places, as torch has it
    if a.size is not None and template is not None:
        return (template,) * a.size
    return template


def _fill_element(template: Value, operands: Iterator[SSAValue]) -> Value:
    if template is HOLE:
        return next(operands)
    return tuple(_fill_element(t, operands) for t in template) if type(template) is tuple else template


def _print_value(printer: Printer, value: Value, operands: Iterator[SSAValue], words: bool) -> None:
    if value is HOLE:
        printer.print_ssa_value(next(operands))
    elif type(value) is tuple and holes(value):
        printer.print_string("[")
        for i, item in enumerate(value):
            if i:
                printer.print_string(", ")
            _print_value(printer, item, operands, words)
        printer.print_string("]")
    elif words and type(value) is str:
        printer.print_string(value)
    else:
        printer.print_string(text(value))


def _result_types(elements: set[str]) -> tuple[type[Attribute], ...]:
    tensor = (TensorType, NoneType) if elements & {"Tensor", "Any", "t"} else ()
    return (*tensor, SymType) if elements - {"Tensor"} else tensor


_OWN_DIALECTS = frozenset(DIALECTS) - {"aten"}
_PURE = OpTraits(lambda: (Pure(),))
_EFFECTS = OpTraits(lambda: ())
_classes: dict[str, type[AtenOp]] = {}


def lookup(name: str) -> type[AtenOp] | None:
    """The op class of `aten.add.Tensor`, `aten.mm` (or `aten.mm.default`), `mylib.scale`; None if torch has no such
    overload.
    """
    cls = _classes.get(name)
    if cls is None:
        overload = _find_overload(name)
        if overload is None:
            return None
        cls = _classes[name] = op_class(overload)
    return cls


def similar(name: str) -> list[str]:
    """Names of operators of torch that someone who wrote `name` may have meant."""
    namespace, _, rest = name.partition(".")
    known: list[str] = torch._C._dispatch_get_all_op_names()
    names = [n.partition("::")[2] for n in known if n.startswith(f"{namespace}::")]
    if overloads := [n for n in names if n.startswith(f"{rest}.")]:
        return [f"{namespace}.{n}" for n in overloads[:3]]
    return [f"{namespace}.{n}" for n in get_close_matches(rest, names, 3)]


def op_class(overload: Any) -> type[AtenOp]:
    """The op class of a `torch._ops.OpOverload`."""
    name = op_name(overload)
    cls = _classes.get(name)
    if cls is None or cls.overload is not overload:  # an operator may be registered anew under an old name
        schema = compile_schema(name, overload)
        traits = _PURE if schema.is_pure else _EFFECTS
        members = {"name": name, "schema": schema, "overload": overload, "traits": traits, "__doc__": schema.text}
        cls = _classes[name] = type(name.replace(".", "_"), (AtenOp,), members)
    return cls


def op_name(overload: Any) -> str:
    """How calls of a `torch._ops.OpOverload` are written: `aten.add.Tensor`, `aten.mm`."""
    namespace, _, packet = overload._schema.name.partition("::")
    prefix = f"torch_{namespace}" if namespace in _OWN_DIALECTS else namespace
    return f"{prefix}.{packet}" + (f".{overload._overloadname}" if overload._overloadname != "default" else "")


def _find_overload(name: str) -> Any:
    parts = name.split(".")
    if len(parts) not in (2, 3):
        return None
    namespace = parts[0].removeprefix("torch_")
    if (namespace in _OWN_DIALECTS) != (namespace != parts[0]):
        return None
    if namespace == "prims" and not hasattr(torch.ops.prims, parts[1]):
        with suppress(ImportError):
            import_module("torch._inductor.inductor_prims")  # which TorchDynamo takes some from
    if namespace == "lamella":
        from . import user_kernels as user_kernels  # which registers its operator
    try:
        if namespace == "seeded":
            from .seeded import find

            return find(*parts[1:])
        packet = getattr(getattr(torch.ops, namespace), parts[1])
        overload = getattr(packet, parts[2] if len(parts) == 3 else "default")
    except (AttributeError, RuntimeError):
        return None
    arguments = [a.name for a in overload._schema.arguments]
    return overload if len(set(arguments)) == len(arguments) else None


ATEN = Dialect("aten", [], [Literal])
