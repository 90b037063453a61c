"""Calls into torch's C shim give what the operator gives; their C form is made from the schema alone."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from lamella.codegen.runtime import NativeGraph
from lamella.codegen.target import CpuTarget
from lamella.dialects.aten import lookup
from lamella.dialects.tensor import DTYPE_OF_TORCH, TensorType
from lamella.dialects.text import parse_module
from lamella.driver import native, run_passes
from lamella.lowering.host_calls import SHIMS

aten = torch.ops.aten


def tensor_type(t: torch.Tensor) -> str:
    return f"!sym.t<{TensorType.get(tuple(t.shape), DTYPE_OF_TORCH[str(t.dtype)[6:]], t.stride()).data.text}>"


def compiled(
    op: str, template: str, inputs: list[torch.Tensor], results: list[torch.Tensor]
) -> tuple[NativeGraph, str]:
    """The graph that calls `op` with `{0}`, `{1}`, … for the inputs, and its text at the llvm level."""
    types = [tensor_type(t) for t in inputs]
    given = ", ".join(f"%a{i}: {t}" for i, t in enumerate(types))
    outs = [tensor_type(t) for t in results]
    names = ", ".join(f"%r{i}" for i in range(len(results)))
    arguments = template.format(*(f"%a{i}" for i in range(len(inputs))))
    module = parse_module(
        f"""
        func.func @main({given}) -> ({", ".join(outs)}) {{
          {names} = {op}({arguments}) : ({", ".join(types)}) -> ({", ".join(outs)})
          func.return {names} : {", ".join(outs)}
        }}
        """
    )
    run_passes(module, "bufferize,host-to-llvm")
    return native(module, CpuTarget.host()), str(module)


def rand(*sizes: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(*sizes).to(dtype)


Case = tuple[str, str, Any, list[torch.Tensor]]
CASES: list[Case] = [
    ("aten.mm", "{0}, {1}", aten.mm.default, [rand(3, 4), rand(4, 5)]),
    ("aten.mm", "{0}, {1}", aten.mm.default, [rand(3, 4), rand(5, 4).t()]),
    ("aten.mm", "{0}, {1}", aten.mm.default, [rand(3, 4, dtype=torch.bfloat16), rand(4, 5, dtype=torch.bfloat16)]),
    ("aten.addmm", "{0}, {1}, {2}", aten.addmm.default, [rand(5), rand(3, 4), rand(4, 5)]),
    (
        "aten.addmm",
        "{0}, {1}, {2}, beta = 0.5, alpha = 2",
        lambda a, b, c: aten.addmm.default(a, b, c, beta=0.5, alpha=2),
        [rand(3, 5), rand(3, 4), rand(4, 5)],
    ),
    ("aten.bmm", "{0}, {1}", aten.bmm.default, [rand(2, 3, 4), rand(2, 4, 5)]),
    ("aten.baddbmm", "{0}, {1}, {2}", aten.baddbmm.default, [rand(2, 3, 5), rand(2, 3, 4), rand(2, 4, 5)]),
    (
        "aten.convolution",
        "{0}, {1}, {2}, [2, 1], [1, 0], [1, 1], false, [0, 0], 2",
        lambda x, w, b: aten.convolution(x, w, b, [2, 1], [1, 0], [1, 1], False, [0, 0], 2),
        [rand(2, 4, 9, 8), rand(6, 2, 3, 3), rand(6)],
    ),
    (
        "aten.convolution",
        "{0}, {1}, none, [1], [0], [1], true, [0], 1",
        lambda x, w: aten.convolution(x, w, None, [1], [0], [1], True, [0], 1),
        [rand(2, 4, 9), rand(4, 3, 3)],
    ),
    (
        "aten._scaled_dot_product_flash_attention_for_cpu",
        "{0}, {1}, {2}, 0.0, true",
        lambda q, k, v: aten._scaled_dot_product_flash_attention_for_cpu(q, k, v, 0.0, True),
        [rand(2, 3, 7, 16), rand(2, 3, 7, 16), rand(2, 3, 7, 16)],
    ),
    (
        "aten._scaled_dot_product_flash_attention_for_cpu",
        "{0}, {1}, {2}, attn_mask = {3}, scale = 0.25",
        lambda q, k, v, m: aten._scaled_dot_product_flash_attention_for_cpu(q, k, v, attn_mask=m, scale=0.25),
        [rand(2, 3, 7, 16), rand(2, 3, 9, 16), rand(2, 3, 9, 16), rand(2, 1, 7, 9)],
    ),
    (
        "aten.max_pool2d_with_indices",
        "{0}, [3, 3], [2, 2], [1, 1]",
        lambda x: aten.max_pool2d_with_indices(x, [3, 3], [2, 2], [1, 1]),
        [rand(2, 3, 8, 9)],
    ),
    (
        "aten.avg_pool2d",
        "{0}, [2, 2], [2, 2], [0, 0], false, true, 3",
        lambda x: aten.avg_pool2d(x, [2, 2], [2, 2], [0, 0], False, True, 3),
        [rand(2, 3, 8, 8)],
    ),
    ("aten._adaptive_avg_pool2d", "{0}, [2, 3]", lambda x: aten._adaptive_avg_pool2d(x, [2, 3]), [rand(2, 3, 8, 9)]),
    ("aten.sort", "{0}, 1, true", lambda x: aten.sort.default(x, 1, True), [rand(4, 9)]),
    (
        "aten.sort.stable",
        "{0}, stable = true, dim = 0",
        lambda x: aten.sort.stable(x, stable=True, dim=0),
        [torch.randint(0, 3, (9, 4))],
    ),
    ("aten.topk", "{0}, 3, 1, false", lambda x: aten.topk(x, 3, 1, False), [rand(4, 9)]),
    ("aten.cat", "[{0}, {1}], 1", lambda a, b: aten.cat([a, b], 1), [rand(2, 3), rand(2, 4)]),
    ("aten.cumsum", "{0}, 1", lambda x: aten.cumsum(x, 1), [rand(3, 5)]),
    ("aten.cumsum", "{0}, 0, dtype = f64", lambda x: aten.cumsum(x, 0, dtype=torch.float64), [rand(3, 5)]),
    ("aten.nonzero", "{0}", aten.nonzero.default, [torch.tensor([1, 0, 3])]),
]


@pytest.mark.parametrize(("op", "template", "eager", "inputs"), CASES, ids=[f"{i}-{c[0]}" for i, c in enumerate(CASES)])
def test_shim_agrees_with_eager(op: str, template: str, eager: Any, inputs: list[torch.Tensor]) -> None:
    expected = eager(*inputs)
    expected = list(expected) if isinstance(expected, (list, tuple)) else [expected]
    graph, text = compiled(op, template, inputs, expected)
    assert "aoti_torch_cpu_" in text  # Python is asked only where that fails, and then for the error alone
    for _ in range(2):
        results = graph(list(inputs))
        for got, want in zip(results, expected, strict=True):
            assert got.stride() == want.stride() and got.dtype == want.dtype
            torch.testing.assert_close(got, want)


def test_every_shim_exists() -> None:
    """The table names operators and functions of this torch."""
    from lamella.lowering.host_calls import _exists

    assert [name for name in SHIMS if lookup(name) is None] == []
    assert [shim for shim in SHIMS.values() if not _exists(shim)] == []


def test_list_with_one_tensor_twice() -> None:
    a, b = rand(2, 3), rand(2, 4)
    module = parse_module(
        """
        func.func @main(%a: !sym.t<[2, 3], f32>, %b: !sym.t<[2, 4], f32>) -> !sym.t<[2, 10], f32> {
          %r = aten.cat([%a, %b, %a], 1)
            : (!sym.t<[2, 3], f32>, !sym.t<[2, 4], f32>, !sym.t<[2, 3], f32>) -> !sym.t<[2, 10], f32>
          func.return %r : !sym.t<[2, 10], f32>
        }
        """
    )
    run_passes(module, "bufferize,host-to-llvm")
    assert torch.equal(native(module, CpuTarget.host())([a, b])[0], torch.cat([a, b, a], 1))


def test_undefined_results() -> None:
    g, x, w = rand(2, 4, 6, 6), rand(2, 3, 8, 8), rand(4, 3, 3, 3)
    module = parse_module(
        f"""
        func.func @main(%g: {tensor_type(g)}, %x: {tensor_type(x)}, %w: {tensor_type(w)})
            -> ({tensor_type(x)}, {tensor_type(w)}) {{
          %dx, %dw, %db = aten.convolution_backward(
            %g, %x, %w, none, [1, 1], [0, 0], [1, 1], false, [0, 0], 1, [true, true, false])
            : ({tensor_type(g)}, {tensor_type(x)}, {tensor_type(w)}) -> ({tensor_type(x)}, {tensor_type(w)}, none)
          func.return %dx, %dw : {tensor_type(x)}, {tensor_type(w)}
        }}
        """
    )
    run_passes(module, "bufferize,host-to-llvm")
    dx, dw, _ = aten.convolution_backward(g, x, w, None, [1, 1], [0, 0], [1, 1], False, [0, 0], 1, [True, True, False])
    results = native(module, CpuTarget.host())([g, x, w])
    torch.testing.assert_close(results[0], dx)
    torch.testing.assert_close(results[1], dw)


def test_integers_do_not_become_doubles() -> None:
    """A Scalar is a double in the shim, which integer tensors refuse: such a call goes through Python."""
    a, b, c = (torch.randint(0, 9, s) for s in ((3, 5), (3, 4), (4, 5)))
    graph, text = compiled("aten.addmm", "{0}, {1}, {2}, alpha = 2", [a, b, c], [a])
    assert "lamella_call" in text and "aoti_torch_cpu_" not in text
    assert torch.equal(graph([a, b, c])[0], a + 2 * (b @ c))


def test_message_of_a_failed_call() -> None:
    """The type of eager's error, with torch's own words."""
    graph, _ = compiled("aten.mm", "{0}, {1}", [rand(3, 4), rand(4, 5)], [rand(3, 5)])
    with pytest.raises(ValueError, match="input 'a1': expected sizes"):
        graph([rand(3, 4), rand(3, 5)])
    graph, _ = compiled("aten.mm", "{0}, {1}", [rand(3, 4), rand(3, 5)], [rand(3, 5)])
    with pytest.raises(RuntimeError, match=r"mat1 and mat2 shapes cannot be multiplied \(3x4 and 3x5\)"):
        graph([rand(3, 4), rand(3, 5)])
    truths = [torch.ones(1, 1, 4, 4, dtype=torch.bool)]
    graph, _ = compiled("aten.avg_pool2d", "{0}, [2, 2], [2, 2]", truths, [truths[0][..., :2, :2].contiguous()])
    with pytest.raises(NotImplementedError, match="not implemented for 'Bool'"):
        graph(truths)


def test_an_error_that_the_shim_leaves() -> None:
    """A call that fails under TorchDynamo may leave an error of Python's, before it is made again for eager's."""
    both = torch.ones(1, 2, 5, dtype=torch.bool), torch.ones(2, 2, 3, dtype=torch.bool)
    with pytest.raises(NotImplementedError, match="not implemented for 'Bool'"):
        torch.compile(torch.nn.functional.conv1d, backend="lamella")(*both)
