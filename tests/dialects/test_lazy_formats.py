"""Assembly formats are read when an op is first parsed or printed, and mean what they mean in xDSL."""

from __future__ import annotations

import pytest
from xdsl.dialects.builtin import f32
from xdsl.irdl import IRDLOperation, irdl_op_definition, result_def
from xdsl.utils.exceptions import ParseError

from lamella.dialects.text import print_module


def test_a_format_is_read_when_an_op_is_printed() -> None:
    @irdl_op_definition
    class Good(IRDLOperation):
        name = "test.good"
        res = result_def()
        assembly_format = "attr-dict `:` type($res)"

    @irdl_op_definition
    class Bad(IRDLOperation):
        name = "test.bad"
        res = result_def()
        assembly_format = "attr-dict `:` type($other)"

    assert print_module(Good.create(result_types=[f32])) == "%0 = test.good : f32"
    assert Good.get_irdl_definition().assembly_format == "attr-dict `:` type($res)"
    with pytest.raises(ParseError, match="other"):
        print_module(Bad.create(result_types=[f32]))
