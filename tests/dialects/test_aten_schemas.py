"""Every operator registered with torch can be written at the aten level: built, verified, printed and parsed back."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pytest
import torch
from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Attribute, Block, Region, SSAValue

from lamella.dialects import expr
from lamella.dialects.aten import AtenOp, lookup
from lamella.dialects.literal import HOLE
from lamella.dialects.schema import Argument
from lamella.dialects.tensor import SymType, TensorType
from lamella.dialects.text import parse_module, print_module
from lamella.dialects.verify import verify

TENSOR = TensorType.get([expr.symbol("s0"), 4], "f32")
SAMPLES: dict[str, Any] = {
    "int": 2 * expr.symbol("s0"),
    "float": -0.5,
    "number": 1.5,
    "bool": True,
    "complex": complex(1.0, -0.0),
    "str": 'a "quoted" \\ text',
    "ScalarType": "bf16",
    "Device": "cpu",
    "Layout": "strided",
    "MemoryFormat": "channels_last",
}
NO_LITERAL = "an argument of a type that has no literal"


def names() -> Iterator[str]:
    for schema in torch._C._jit_get_all_schemas():
        namespace, _, packet = schema.name.partition("::")
        prefix = "torch_prims" if namespace == "prims" else namespace
        yield f"{prefix}.{packet}" + (f".{schema.overload_name}" if schema.overload_name else "")


def sample(a: Argument, operands: Iterator[Any]) -> Any:
    """A value that fits the argument; raises KeyError where its type has no literal."""
    one = next(operands) if a.element in ("Tensor", "Any", "t") else SAMPLES.get(a.element)
    if one is None:
        if a.optional:
            return None
        if a.default is not HOLE:
            return a.default
        raise KeyError(NO_LITERAL)
    if not a.is_list:
        return one
    values = tuple(next(operands) if a.element in ("Tensor", "t") else one for _ in range(a.size or 2))
    return (values, values) if a.nested else values


def call(cls: type[AtenOp], values: Sequence[SSAValue]) -> AtenOp:
    """A call with all arguments given."""
    operands = iter(values)
    args = [sample(a, operands) for a in cls.schema.args]
    results: list[Attribute] = []
    for r in cls.schema.returns:
        one: Attribute = TENSOR if r.element in ("Tensor", "Any", "t") else SymType.get(expr.symbol("u0"))
        results += [one] * (2 if r.is_list else 1)
    return cls.call(args, results)


def module_of(classes: Iterable[type[AtenOp]]) -> tuple[ModuleOp, int]:
    """A function that calls each class once, and how many could not be called."""
    block = Block(arg_types=[TENSOR] * 64)
    skipped = 0
    for cls in classes:
        try:
            block.add_op(call(cls, block.args))
        except KeyError as error:
            assert error.args == (NO_LITERAL,), cls.name
            skipped += 1
    block.add_op(func.ReturnOp())
    return ModuleOp([func.FuncOp("main", (block.arg_types, []), Region(block))]), skipped


def test_every_overload_round_trips() -> None:
    found = {name: lookup(name) for name in sorted(set(names()))}
    missing = [name for name, cls in found.items() if cls is None]
    module, skipped = module_of(cls for cls in found.values() if cls is not None)
    verify(module)
    for generic in (False, True):
        text = print_module(module, generic=generic)
        again = parse_module(text)
        verify(again)
        assert print_module(again, generic=generic) == text
    # One is not callable from Python, one has two arguments of one name.
    assert set(missing) <= {"prim.name", "static_runtime.clamp_nan_to_num"}
    assert len(found) > 4000 and skipped < 0.07 * len(found)


@pytest.mark.parametrize(
    ("name", "pure"), [("aten.add.Tensor", True), ("aten.add_.Tensor", False), ("aten.rand", False)]
)
def test_purity(name: str, pure: bool) -> None:
    cls = lookup(name)
    assert cls is not None and cls.schema.is_pure is pure


def test_custom_operators() -> None:
    library = torch.library.Library("lamella_test_schemas", "DEF")
    library.define("scale(Tensor x, float factor, *, int[] dims=[]) -> (Tensor, SymInt)")
    cls = lookup("lamella_test_schemas.scale")
    assert cls is not None
    text = print_module(module_of([cls])[0])
    assert "lamella_test_schemas.scale(%0, -0.5, dims = [2*s0, 2*s0])" in text
    verify(parse_module(text))
    library._destroy()


def test_a_word_for_an_argument_of_any_type() -> None:
    """As the groups of collectives are, since torch 2.13."""
    library = torch.library.Library("lamella_test_schemas", "DEF")
    library.define("gather(Tensor x, Any group) -> Tensor")
    text = """builtin.module {
  func.func @main(%x: !sym.t<[4], f32>) -> !sym.t<[4], f32> {
    %y = lamella_test_schemas.gather(%x, "0") : (!sym.t<[4], f32>) -> !sym.t<[4], f32>
    func.return %y : !sym.t<[4], f32>
  }
}
"""
    module = parse_module(text)
    verify(module)
    assert print_module(module).strip() == text.strip()
    library._destroy()
