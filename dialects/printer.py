"""A printer with xDSL's text and less of its cost: attributes are printed once, and text is gathered in a list."""

from __future__ import annotations

import re

from xdsl.dialects.builtin import UnknownLoc, UnregisteredOp
from xdsl.ir import Attribute, BlockArgument, Operation, SSAValue
from xdsl.printer import Printer
from xdsl.traits import IsolatedFromAbove

# Bytes that stand for themselves in a string literal
_PLAIN = re.compile(rb"[ !#-\[\]-~]*")
_NUMBERS = re.compile(r"(?:_[0-9]+)+$")


class FastPrinter(Printer):
    """Prints to memory; `text()` is the result.

    With `print_debuginfo`, locations follow every op and block argument that has one. `loc(unknown)` is what the parser
    assumes, so it is left out, and the text reads back to the same locations.
    """

    def __init__(self, *, print_generic_format: bool = False, print_debuginfo: bool = False) -> None:
        super().__init__(stream=None, print_generic_format=print_generic_format, print_debuginfo=print_debuginfo)
        self._parts: list[str] = []
        self._attribute_text: dict[Attribute, str] = {}

    def text(self) -> str:
        """All that was printed so far."""
        return "".join(self._parts)

    def text_of(self, op: Operation) -> str:
        """The text of `op` alone, with the names that values were given before."""
        start = len(self._parts)
        self.print_op(op)
        return "".join(self._parts[start:])

    def print_string(self, text: str, *, indent: int | None = None) -> None:
        if "\n" not in text:
            self._current_column += len(text)
            self._parts.append(text)
            return
        first, *rest = text.split("\n")
        self._parts.append(first)
        for line in rest:
            self._print_new_line(indent=indent)
            self._parts.append(line)
            self._current_column += len(line)

    def _print_new_line(self, indent: int | None = None, print_message: bool = True) -> None:
        spaces = (self._indent if indent is None else indent) * self.indent_num_spaces
        self._parts.append("\n" + " " * spaces)
        self._current_line += 1
        self._current_column = spaces

    def print_attribute(self, attribute: Attribute) -> None:
        if self.printing_location:  # inside `loc(...)` the same attribute is printed without its own `loc(...)`
            super().print_attribute(attribute)
            return
        text = self._attribute_text.get(attribute)
        if text is not None:
            self._current_column += len(text)
            self._parts.append(text)
            return
        start = len(self._parts)
        super().print_attribute(attribute)
        text = "".join(self._parts[start:])
        if "\n" not in text and not self._dialect_resources:
            self._attribute_text[attribute] = text

    def print_bytes_literal(self, bytestring: bytes) -> None:
        if _PLAIN.fullmatch(bytestring):
            self.print_string(f'"{bytestring.decode()}"')
        else:
            super().print_bytes_literal(bytestring)

    def print_ssa_value(self, value: SSAValue) -> str:
        name = self._ssa_values.get(value)
        if name is None:
            name = self._ssa_values[value] = self._new_name(value.name_hint)
        self._current_column += len(name) + 1
        self._parts.append("%" + name)
        return name

    def _new_name(self, hint: str | None) -> str:
        """A name not yet taken in this scope.

        Reading `a_1` makes the hint `a`, so a hint counts without its numbers: values hinted `a`, `a` and `a_1` would
        else print as `a`, `a_1` and `a_1`.
        """
        base = _NUMBERS.sub("", hint) if hint else ""
        if not base:
            return self._get_new_valid_name_id()
        count = self.ssa_names.get(base, 0)
        self.ssa_names[base] = count + 1
        return f"{base}_{count}" if count else base

    def print_block_argument(self, arg: BlockArgument, print_type: bool = True) -> None:
        self.print_ssa_value(arg)
        if print_type:
            self.print_string(": ")
            self.print_attribute(arg.type)
            self._print_location(arg.location)

    def print_operation_type(self, op: Operation) -> None:
        # xDSL prints the location here too, which doubles it for a custom syntax that ends in the type.
        self.print_function_type(op.operand_types, op.result_types)

    def print_op(self, op: Operation) -> None:
        if isinstance(op, UnregisteredOp):
            super().print_op(op)
            return
        self._print_results(op)
        isolated = op.has_trait(IsolatedFromAbove) if op.regions else False
        if isolated:
            self.enter_scope()
        if self.print_generic_format or type(op).print is Operation.print:
            self.print_string(f'"{op.name}"')
            self.print_op_with_default_format(op)
        else:
            self.print_string(op.name)
            op.print(self)
        self._print_location(op.location)
        if isolated:
            self.exit_scope()

    def _print_location(self, location: Attribute) -> None:
        if self.print_debuginfo and not isinstance(location, UnknownLoc):
            self.print_string(" ")
            self.print_attribute(location)
