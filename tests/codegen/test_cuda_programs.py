"""Host programs for GPUs, whole, on a GPU that is not there: kernels are interpreted on the CPU's memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
import torch

from lamella import driver
from lamella.codegen import cuda_target
from lamella.codegen.cuda_interpreted import InterpretedGpu
from lamella.codegen.runtime import NativeGraph
from lamella.dialects.tensor import DTYPE_OF_TORCH, TensorType
from lamella.dialects.text import parse_module, print_module
from lamella.lowering import aten_pad_products
from lamella.lowering.options import Options

OPTIONS = Options(target="sm_90", cache=False)
TARGET, GPU = driver.target_of(OPTIONS), driver.gpu_of(OPTIONS)


def compiled(gpu: InterpretedGpu, text: str, options: Options = OPTIONS) -> NativeGraph:
    module = parse_module(text)
    driver.run_passes(module, driver.pipeline(options, TARGET, GPU))
    with gpu.used():
        graph = driver.native(module, TARGET, GPU)
        graph.function()
    return graph


def on(device: str, *shape: Any, dtype: str = "f32", strides: Sequence[Any] | None = None) -> str:
    return f"!sym.t<{TensorType.get(shape, dtype, strides, device).data.text}>"


def type_of(t: torch.Tensor, device: str = "cuda:0") -> str:
    return on(device, *t.shape, dtype=DTYPE_OF_TORCH[str(t.dtype)[6:]], strides=t.stride())


S0, S1 = "cuda:0", "cuda:1"


@pytest.fixture
def gpu() -> InterpretedGpu:
    return InterpretedGpu()


def rows(device: str = S0) -> str:
    """silu, a matmul, and the sums of rows."""
    import sympy

    n = sympy.Symbol("s0", integer=True, positive=True)
    t, w, r = on(device, n, 16), on(device, 16, 16), on(device, n)
    return f"""
        func.func @main(%x: {t}, %w: {w}) -> ({t}, {r}) {{
          %y = aten.silu(%x) : ({t}) -> {t}
          %v = aten.mm(%y, %w) : ({t}, {w}) -> {t}
          %q = aten.neg(%v) : ({t}) -> {t}
          %z = aten.sum.dim_IntList(%v, [-1]) : ({t}) -> {r}
          func.return %q, %z : {t}, {r}
        }}
        """


@pytest.mark.parametrize("n", [1, 7, 40])
def test_program(gpu: InterpretedGpu, n: int) -> None:
    graph = compiled(gpu, rows())
    x, w = torch.randn(n, 16), torch.randn(16, 16)
    v = torch.nn.functional.silu(x) @ w
    for _ in range(2):
        q, z = gpu.run(graph, [x, w])
        torch.testing.assert_close(q, -v)
        torch.testing.assert_close(z, v.sum(-1))
    assert gpu.guards == [0, None] * 2
    assert len(gpu.launches) == 2 * len(graph.meta.kernels)
    assert {(launch.stream, launch.device) for launch in gpu.launches} == {(100, 0)}


def test_launches_that_need_not_wait() -> None:
    """Kernels that wait by themselves are launched so; numbers and launches are the same."""
    gpu = InterpretedGpu(overlaps=True)
    graph = compiled(gpu, rows())
    x, w = torch.randn(7, 16), torch.randn(16, 16)
    q, z = gpu.run(graph, [x, w])
    v = torch.nn.functional.silu(x) @ w
    torch.testing.assert_close(q, -v)
    torch.testing.assert_close(z, v.sum(-1))
    assert gpu.early == len(gpu.launches) == len(graph.meta.kernels)
    assert {(launch.stream, launch.device) for launch in gpu.launches} == {(100, 0)}


def test_elements_of_a_tensor(gpu: InterpretedGpu) -> None:
    """Kernels that read other elements of a tensor are one, which is told which."""
    t, w, k, e = on(S0, 6, 16), on(S0, 16, 16), on(S0, 5), on(S0)
    lines, last = list[str](), "%x"
    for i in (1, 3, 4):
        lines += [
            f"%k{i} = aten.select.int(%k, 0, {i}) : ({k}) -> {e}",
            f"%y{i} = aten.mul.Tensor({last}, %k{i}) : ({t}, {e}) -> {t}",
            f"%z{i} = aten.mm(%y{i}, %w) : ({t}, {w}) -> {t}",
        ]
        last = f"%z{i}"
    body = "\n".join([*lines, f"func.return {last} : {t}"])
    graph = compiled(gpu, f"func.func @main(%x: {t}, %w: {w}, %k: {k}) -> {t} {{\n{body}\n}}")
    x, weight, factors = torch.randn(6, 16), torch.randn(16, 16), torch.randn(5)
    (found,) = gpu.run(graph, [x, weight, factors])
    for i in (1, 3, 4):
        x = (x * factors[i]) @ weight
    torch.testing.assert_close(found, x)
    assert len(graph.meta.kernels) == 1 and len(gpu.launches) == 3


def test_no_points_no_launches(gpu: InterpretedGpu) -> None:
    graph = compiled(gpu, rows())
    q, z = gpu.run(graph, [torch.randn(0, 16), torch.randn(16, 16)])
    assert q.shape == (0, 16) and z.shape == (0,) and gpu.launches == []


def test_sums_of_nothing(gpu: InterpretedGpu) -> None:
    t, columns, no_rows = on(S0, 0, 5, dtype="bf16"), on(S0, 5, dtype="bf16"), on(S0, 0, dtype="bf16")
    graph = compiled(
        gpu,
        f"""
        func.func @main(%x: {t}) -> ({columns}, {no_rows}) {{
          %y = aten.sum.dim_IntList(%x, [0]) : ({t}) -> {columns}
          %z = aten.sum.dim_IntList(%x, [1]) : ({t}) -> {no_rows}
          func.return %y, %z : {columns}, {no_rows}
        }}
        """,
    )
    y, z = gpu.run(graph, [torch.empty(0, 5, dtype=torch.bfloat16)])
    assert torch.equal(y, torch.zeros(5, dtype=torch.bfloat16)) and z.shape == (0,)


def test_wrong_inputs(gpu: InterpretedGpu) -> None:
    """What is on another device than the program was compiled for is refused."""
    graph = compiled(gpu, rows(S1))
    x, w = torch.randn(3, 16), torch.randn(16, 16)
    with pytest.raises(TypeError, match="expected a tensor on cuda:1"):
        gpu.run(graph, [x, w])
    gpu.devices = {t._cdata: 1 for t in (x, w)}
    gpu.run(graph, [x, w])
    assert gpu.guards == [1, None]
    with pytest.raises(TypeError):
        gpu.run(graph, [x.double(), w])


def test_generator_state(gpu: InterpretedGpu) -> None:
    """Attention leaves it on the CPU, where torch's tracing says otherwise. A kernel would read it on the GPU."""
    t, whole = on(S1, dtype="i64"), on(S1, 8, 8, dtype="i64")
    call = f"%y = aten.repeat(%s, [8, 8]) : ({t}) -> {whole}"
    text = f"func.func @main(%s: {t}) -> {whole} {{ {call} func.return %y : {whole} }}"
    module = parse_module(text)
    driver.run_passes(module, "bufferize,host-to-llvm")
    with gpu.used():
        graph = driver.native(module, TARGET, GPU)
        state = torch.tensor(7)
        assert torch.equal(gpu.run(graph, [state])[0], state.repeat(8, 8))
    kernel = compiled(
        gpu, f"func.func @main(%s: {t}) -> {t} {{ %y = aten.neg(%s) : ({t}) -> {t} func.return %y : {t} }}"
    )
    with pytest.raises(TypeError):
        gpu.run(kernel, [state])


def test_addresses_that_are_not_aligned(gpu: InterpretedGpu) -> None:
    """Another kernel runs on them, made when they are first met."""
    t = on(S0, 40)
    graph = compiled(
        gpu, f"func.func @main(%x: {t}) -> {t} {{ %y = aten.neg(%x) : ({t}) -> {t} func.return %y : {t} }}"
    )
    base = torch.randn(64)
    made: list[str] = []
    begin = gpu.begin

    def noted(sources: Any, sm: int) -> Any:
        made.extend(s.text for s in sources)
        return begin(sources, sm)

    gpu.begin = noted  # type: ignore[method-assign]
    for start in (0, 4, 1, 3, 0, 2):
        x = base[start : start + 40]
        assert torch.equal(gpu.run(graph, [x])[0], -x)
    assert len(made) == 1 and "divisibility" not in made[0]


def test_two_gpus_and_the_cpu(gpu: InterpretedGpu) -> None:
    a, b, c = on(S0, 8), on(S1, 8), on("cpu", 8)
    graph = compiled(
        gpu,
        f"""
        func.func @main(%x: {a}, %y: {b}, %z: {c}) -> ({a}, {b}, {c}, {a}) {{
          %p = aten.exp(%x) : ({a}) -> {a}
          %q = aten.exp(%y) : ({b}) -> {b}
          %r = aten.exp(%z) : ({c}) -> {c}
          %s = aten.neg(%x) : ({a}) -> {a}
          func.return %p, %q, %r, %s : {a}, {b}, {c}, {a}
        }}
        """,
    )
    x, y, z = torch.randn(8), torch.randn(8), torch.randn(8)
    gpu.devices = {y._cdata: 1}
    found = gpu.run(graph, [x, y, z])
    for f, want in zip(found, (x.exp(), y.exp(), z.exp(), -x), strict=True):
        torch.testing.assert_close(f, want)
    streams = {launch.device: launch.stream for launch in gpu.launches}
    assert streams == {0: 100, 1: 101}
    current: int | None = None
    for device in gpu.guards[1:-1]:
        assert device != current, "a device is made current that is so already"
        current = device


def test_buffers_that_lie_in_results(gpu: InterpretedGpu) -> None:
    """Side by side in one that is written last, which is what the arena would have taken."""
    t, whole = on(S0, 128, 128), on(S0, 4, 128, 128)
    text = f"""
        func.func @main(%x: {t}) -> {whole} {{
          %a = aten.mm(%x, %x) : ({t}, {t}) -> {t}
          %b = aten.mm(%a, %x) : ({t}, {t}) -> {t}
          %c = aten.mm(%a, %b) : ({t}, {t}) -> {t}
          %e = aten.sin(%c) : ({t}) -> {t}
          %f = aten.mm(%e, %c) : ({t}, {t}) -> {t}
          %g = aten.mm(%f, %e) : ({t}, {t}) -> {t}
          %y = aten.expand(%g, [4, 128, 128]) : ({t}) -> {on(S0, 4, 128, 128, strides=(0, 128, 1))}
          %z = aten.clone(%y, "contiguous_format") : ({on(S0, 4, 128, 128, strides=(0, 128, 1))}) -> {whole}
          func.return %z : {whole}
        }}
        """
    module = parse_module(text)
    driver.run_passes(module, driver.pipeline(OPTIONS, TARGET, GPU).partition(",kernel-to-llvm")[0])
    assert "host.lend" in print_module(module)
    x = torch.randn(128, 128) / 12
    a = x @ x
    c = a @ (a @ x)
    e = c.sin()
    for _ in range(2):
        (z,) = gpu.run(compiled(gpu, text), [x])
        torch.testing.assert_close(z, (e @ c @ e).expand(4, 128, 128))


def test_gradients_of_padded_rows(gpu: InterpretedGpu, monkeypatch: pytest.MonkeyPatch) -> None:
    """A gradient whose rows are not aligned, as it is and transposed: padded once, and cut without a copy."""
    monkeypatch.setattr(aten_pad_products, "COPY_US", -1.0)  # it pays for small ones too
    g, x, w = on(S0, 64, 65, dtype="bf16"), on(S0, 64, 16, dtype="bf16"), on(S0, 65, 16, dtype="bf16")
    turned = on(S0, 65, 64, dtype="bf16", strides=(1, 65))
    text = f"""
        func.func @main(%g: {g}, %x: {x}, %w: {w}) -> ({w}, {x}) {{
          %h = aten.neg(%g) : ({g}) -> {g}
          %t = aten.t(%h) : ({g}) -> {turned}
          %r = aten.mm(%t, %x) : ({turned}, {x}) -> {w}
          %s = aten.mm(%h, %w) : ({g}, {w}) -> {x}
          func.return %r, %s : {w}, {x}
        }}
        """
    module = parse_module(text)
    driver.run_passes(module, driver.pipeline(OPTIONS, TARGET, GPU).partition(",kernel-to-llvm")[0])
    assert len([k for k in module.ops if k.name == "loop.kernel"]) == 2  # of the gradient, with the sign, and of %w
    graph = compiled(gpu, text)
    a, b, c = torch.randn(64, 65).bfloat16(), torch.randn(64, 16).bfloat16(), torch.randn(65, 16).bfloat16()
    r, s = gpu.run(graph, [a, b, c])
    torch.testing.assert_close(r, -a.t() @ b, rtol=2e-2, atol=0.1)
    torch.testing.assert_close(s, -a @ c, rtol=2e-2, atol=0.1)
    assert r.is_contiguous() and r.shape == (65, 16)


def test_changed_argument(gpu: InterpretedGpu) -> None:
    t = on(S0, 20)
    graph = compiled(
        gpu,
        f"""
        func.func @main(%x: {t}, %y: {t}) -> {t} {{
          %a = aten.add.Tensor(%x, %y) : ({t}, {t}) -> {t}
          %b = aten.copy_(%x, %a) : ({t}, {t}) -> {t}
          %c = aten.mul.Tensor(%a, %y) : ({t}, {t}) -> {t}
          func.return %c : {t}
        }}
        """,
    )
    x, y = torch.randn(20), torch.randn(20)
    want = x + y
    (c,) = gpu.run(graph, [x, y])
    assert torch.equal(x, want) and torch.equal(c, want * y)


def test_failed_launch(gpu: InterpretedGpu) -> None:
    """RuntimeError with the driver's words and the kernel; what the call held is released, and the next one works."""
    graph = compiled(gpu, rows())
    x, w = torch.randn(3, 16), torch.randn(16, 16)
    kernels = list(gpu._kernels)
    gpu._kernels = [(k, d, []) for k, d, _ in kernels]
    for _, _, parsed in gpu._kernels:
        parsed.append("no function")  # type: ignore[arg-type]
    with pytest.raises(RuntimeError, match=r"CUDA error: .*; in a launch of kernel silu"):
        gpu.run(graph, [x, w])
    assert gpu.guards[-1] is None
    gpu._kernels = kernels
    gpu.run(graph, [x, w])


def test_too_many_programs(gpu: InterpretedGpu) -> None:
    t = on(S0, 4)
    text = f"""
        tt.func public @k(%x: !tt.ptr<f32>, %y: !tt.ptr<f32>) attributes {{
            lamella.grid = #loop.index<[1, 65536]>, lamella.sizes = #loop.index<[]>}} {{ tt.return }}
        host.func @main(%x: {t}) -> {t} {{
          host.check %x "x" : {t}
          %y = host.empty : {t}
          host.launch @k(%x) outs(%y) sizes [] : {t}, {t}
          host.return %y : {t}
        }}
        """
    module = parse_module(text)
    driver.run_passes(module, "host-to-llvm")
    with gpu.used():
        graph = driver.native(module, TARGET, GPU)
        with pytest.raises(RuntimeError, match="kernel k: 1 x 65536 x 1 programs are more than CUDA launches"):
            gpu.run(graph, [torch.randn(4)])


def test_size_of_more_than_32_bits(gpu: InterpretedGpu) -> None:
    t, n = on(S0, 4), "!sym.int<s0>"
    text = f"""
        tt.func public @k(%x: !tt.ptr<f32>, %n: i32) attributes {{
            lamella.grid = #loop.index<[1]>, lamella.sizes = #loop.index<[s1]>}} {{ tt.return }}
        host.func @main(%n: {n}) -> {t} {{
          %y = host.empty : {t}
          host.launch @k() outs(%y) sizes [s0] : {t}
          host.return %y : {t}
        }}
        """
    module = parse_module(text)
    driver.run_passes(module, "host-to-llvm")
    with gpu.used():
        graph = driver.native(module, TARGET, GPU)
        gpu.run(graph, [2**31 - 1])
        with pytest.raises(RuntimeError, match="kernel k: a size of 2147483648 or more"):
            gpu.run(graph, [2**31])


def test_gpus_of_several_kinds(gpu: InterpretedGpu, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each kernel is compiled for the GPU that it runs on."""
    monkeypatch.setattr(cuda_target, "_capabilities", lambda: (90, 80))
    x, y = (f"!sym.t<[5], f32, device=cuda:{i}>" for i in range(2))
    text = f"""
        func.func @main(%x: {x}, %y: {y}) -> ({x}, {y}) {{
          %a = aten.exp(%x) : ({x}) -> {x}
          %b = aten.exp(%y) : ({y}) -> {y}
          func.return %a, %b : {x}, {y}
        }}
        """
    graph = compiled(gpu, text)
    inputs = torch.randn(5), torch.randn(5)
    gpu.devices[inputs[1]._cdata] = 1
    for found, given in zip(gpu.run(graph, inputs), inputs, strict=True):
        torch.testing.assert_close(found, given.exp())
    assert sorted((device, kernel.sm) for kernel, device, _ in gpu._kernels) == [(0, 90), (1, 80)]


def test_pickled(gpu: InterpretedGpu) -> None:
    import pickle

    graph = compiled(gpu, rows())
    again = pickle.loads(pickle.dumps(graph))
    x, w = torch.randn(3, 16), torch.randn(16, 16)
    with gpu.used():
        torch.testing.assert_close(gpu.run(again, [x, w])[0], -(torch.nn.functional.silu(x) @ w))


def update(sizes: Sequence[int]) -> str:
    """x + w * g written over every x, of as many tensors as there are sizes."""
    w = on(S0)
    types = [on(S0, n) for n in sizes]
    arguments = [f"%x{i}: {t}, %g{i}: {t}" for i, t in enumerate(types)]
    lines: list[str] = []
    for i, t in enumerate(types):
        lines.append(f"%m{i} = aten.mul.Tensor(%g{i}, %w) : ({t}, {w}) -> {t}")
        lines.append(f"%a{i} = aten.add.Tensor(%x{i}, %m{i}) : ({t}, {t}) -> {t}")
        lines.append(f"%c{i} = aten.copy_(%x{i}, %a{i}) : ({t}, {t}) -> {t}")
    body = "\n".join(lines)
    return f"func.func @main(%w: {w}, {', '.join(arguments)}) {{\n{body}\nfunc.return\n}}"


@pytest.mark.parametrize(
    ("sizes", "launches"),
    [
        ([4096, 64, 16, 1024], 1),
        ([5, 700, 3, 33], 1),
        ([64, 5, 0, 32, 7], 2),  # lengths that are multiples of 16, and others; nothing to do for one
        ([16 * (1 + i % 3) for i in range(50)], 2),  # 32 to a launch: two addresses of each, and a common one
    ],
)
def test_launches_of_one_kernel_are_one(gpu: InterpretedGpu, sizes: Sequence[int], launches: int) -> None:
    graph = compiled(gpu, update(sizes))
    assert all(k.symbol.endswith("_together") for k in graph.meta.kernels)
    w, tensors = torch.tensor(0.5), [torch.randn(2, n) for n in sizes]
    given = [t for x, g in tensors for t in (x.clone(), g.clone())]
    for _ in range(2):
        gpu.run(graph, [w, *given])
    for (x, g), got in zip(tensors, given[::2], strict=True):
        torch.testing.assert_close(got, x + 0.5 * g + 0.5 * g)
    assert len(gpu.launches) == 2 * launches


def test_launches_of_one_kernel_from_any_address(gpu: InterpretedGpu) -> None:
    """A buffer that begins at no multiple of 16 bytes: the other form of the kernel."""
    graph = compiled(gpu, update([64, 32]))
    memory = torch.randn(200)
    x, y = memory[1:65], memory[100:132]
    before = x.clone(), y.clone()
    gpu.run(graph, [torch.tensor(2.0), x, torch.ones(64), y, torch.ones(32)])
    torch.testing.assert_close(x, before[0] + 2)
    torch.testing.assert_close(y, before[1] + 2)


def test_a_program_that_neither_takes_a_tensor_nor_launches_a_kernel(gpu: InterpretedGpu) -> None:
    """It only makes one, which ATen fills: it needs the functions for GPUs all the same."""
    t = on(S0, 4, dtype="i64")
    text = f"""
        func.func @main() -> {t} {{
          %r = aten.randint.low(0, 10, [4], device = "cuda:0", pin_memory = false) : () -> {t}
          func.return %r : {t}
        }}
    """
    graph = compiled(gpu, text, replace(OPTIONS, random="eager"))
    assert graph.meta.on_gpu and not graph.meta.kernels
