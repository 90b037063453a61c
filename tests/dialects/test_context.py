"""Dialects are found by name, and loaded no sooner."""

from __future__ import annotations

import subprocess
import sys

import pytest
from xdsl.ir import Dialect

from lamella.dialects.context import DIALECTS, load_object, make_context


@pytest.mark.parametrize("name", DIALECTS)
def test_every_dialect_of_the_table_loads(name: str) -> None:
    dialect = load_object(DIALECTS[name])
    assert isinstance(dialect, Dialect)
    assert dialect.name == name
    assert make_context().get_optional_dialect(name) is not None


def test_operators_of_torch_get_classes_on_demand() -> None:
    context = make_context()
    op = context.get_optional_op("aten.add.Tensor")
    assert op is not None
    assert op.name == "aten.add.Tensor"
    assert context.get_optional_op("aten.add.Tensor") is op
    assert context.clone().get_optional_op("aten.mul.Tensor") is not None


def test_custom_operators_too() -> None:
    import torch

    with torch.library._scoped_library("lamella_test_context", "FRAGMENT") as library:
        library.define("twice(Tensor x) -> Tensor")
        op = make_context().get_optional_op("lamella_test_context.twice")
    assert op is not None


def test_our_own_dialects_come_before_torch_namespaces() -> None:
    """`prims` is ours: torch's namespace of that name must not answer for it."""
    assert make_context().get_optional_op("prims.convert_element_type.default") is None


def test_unknown_names_are_unknown() -> None:
    context = make_context()
    for name in ("aten.no_such_op", "nowhere.op", "word", "a.b.c.d", "aten.", ".x", "aten..x", "aten.__class__"):
        assert context.get_optional_op(name) is None


def test_text_without_torch_operators_does_not_import_torch() -> None:
    code = (
        "import sys; from lamella.dialects.text import parse_module;"
        "parse_module('func.func @f() { func.return }'); print('torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
