"""Kernels of a GPU compute what eager does: ATen functions and prims programs through loop-tile and kernel-to-tt.

No GPU is needed: the host program is walked here, its kernels run in the tt interpreter on CPU tensors.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from torch import Tensor
from xdsl.dialects.builtin import ModuleOp

from lamella.codegen.interpret_aten import run_aten
from lamella.codegen.interpret_tt import KernelError, launch
from lamella.codegen.interpreter import Environment, run_module
from lamella.dialects import expr, host, prims, tt
from lamella.dialects.aten import AtenOp
from lamella.dialects.tensor import TORCH_DTYPES, TensorType
from lamella.dialects.text import parse_module, print_module
from lamella.dialects.verify import verify_op
from lamella.driver import run_passes
from lamella.frontend.capture import capture
from lamella.lowering import tile_choice
from lamella.lowering.gpu_target import GpuTarget

from . import test_prims_to_loop

known: Any = test_prims_to_loop  # its operators and random programs serve here too

FROM_LOOP = f"loop-fuse{{{GpuTarget.from_name('sm_90').machine}}},bufferize,loop-tile,kernel-to-tt"


# Running


def on_gpu(module: ModuleOp, passes: str) -> ModuleOp:
    """A module with all tensors on a GPU, after the passes."""
    text = re.sub(
        r"!sym\.t<(\[[^\]]*\], \w+(?:, strides=\[[^\]]*\])?)>", r"!sym.t<\1, device=cuda:0>", print_module(module)
    )
    moved = parse_module(text.replace('device = "cpu"', 'device = "cuda:0"'))
    run_passes(moved, passes, verify=False)
    for function in moved.ops:
        for op in function.walk() if isinstance(function, tt.FuncOp) else ():
            verify_op(op)
    return moved


class Program:
    """A host program run step by step. Fresh memory is full of NaN, or of ones."""

    def __init__(self, module: ModuleOp, inputs: Sequence[Tensor]) -> None:
        self.module = module
        self.kernels = {o.sym_name.data: o for o in module.ops if isinstance(o, tt.FuncOp)}
        (main,) = [o for o in module.ops if isinstance(o, host.FuncOp)]
        self.sizes: dict[str, int] = {}
        for a, x in zip(main.body.block.args, inputs, strict=True):
            assert isinstance(a.type, TensorType)
            for e, n in zip((*a.type.shape, *a.type.strides), (*x.shape, *x.stride()), strict=True):
                if not isinstance(e, int) and e.is_Symbol:
                    self.sizes[expr.text(e)] = n
        self.values: dict[Any, Any] = dict(zip(main.body.block.args, inputs, strict=True))
        self.results: list[Tensor] = []
        for op in main.body.block.ops:
            self._step(op)

    def _number(self, e: Any) -> int:
        return int(expr.evaluate(e, self.sizes))

    def _layout(self, t: TensorType) -> tuple[list[int], list[int]]:
        return [self._number(n) for n in t.shape], [self._number(n) for n in t.strides]

    def _step(self, op: Any) -> None:
        match op:
            case host.CheckOp() | host.DropOp() | host.ArenaOp() | host.LendOp():
                pass
            case host.EmptyOp() | host.SlotOp():
                t = op.res.type
                x = torch.empty_strided(*self._layout(t), dtype=getattr(torch, TORCH_DTYPES[t.dtype]))
                self.values[op.res] = x.fill_(float("nan")) if x.is_floating_point() else x.fill_(1)
            case host.ViewOp():
                x = self.values[op.source]
                offset = x.storage_offset() + self._number(op.offset[0])
                self.values[op.res] = torch.as_strided(x, *self._layout(op.res.type), offset)
            case host.LaunchOp():
                buffers = [self.values[v] for v in (*op.ins, *op.outs)]
                launch(self.kernels[op.callee], buffers, [self._number(n) for n in op.sizes])
            case host.ReturnOp():
                self.results = [self.values[v] for v in op.values]
            case AtenOp():
                known = Environment(self.module, symbols=self.sizes)
                for res, x in zip(op.results, run_aten(op, [self.values[v] for v in op.operands], known), strict=True):
                    assert isinstance(res.type, TensorType)
                    self.values[res] = torch.empty_strided(*self._layout(res.type), dtype=x.dtype).copy_(x)
            case _:
                raise NotImplementedError(op.name)


TOLERANCES = {torch.float32: 3e-6, torch.float64: 1e-12, torch.bfloat16: 2e-2, torch.float16: 2e-3}


def compare(got: Sequence[Tensor], wanted: Sequence[Tensor], *, scale: float = 1.0) -> None:
    for k, (g, w) in enumerate(zip(got, wanted, strict=True)):
        assert g.dtype == w.dtype and g.shape == w.shape, f"result {k}"
        tolerance = scale * TOLERANCES.get(g.dtype, 0.0)
        torch.testing.assert_close(g, w, rtol=tolerance, atol=tolerance, equal_nan=True)


def flat(value: Any) -> list[Tensor]:
    return [value] if isinstance(value, Tensor) else [t for v in value for t in flat(v)]


def check(
    f: Callable[..., Any], *inputs: Tensor, scale: float = 1.0, others: Sequence[Tensor] = (), **k: Any
) -> ModuleOp:
    """Capture `f` on `inputs`, run it on these, or on `others` where sizes are symbols."""
    module = on_gpu(capture(f, *inputs, **k).module, f"aten,prims,loop,{FROM_LOOP}")
    run = others or inputs
    compare(Program(module, run).results, flat(f(*run)), scale=scale)
    return module


def check_prims(program: Any, results: Any, scale: float = 1.0) -> None:
    module = program.module(results)
    wanted = run_module(module, [x.clone() for x in program.inputs])
    compare(Program(on_gpu(module, f"prims-to-loop,{FROM_LOOP}"), program.inputs).results, wanted, scale=scale)


# Every op


WITH_STEPS = (prims.IgammaOp, prims.IgammacOp, *known.POLYNOMIALS)
"""No code on a GPU: a call there."""

OPS = [op for op in dict.fromkeys(p.values[0] for p in known.CASES) if op not in WITH_STEPS]


@pytest.mark.parametrize("op", OPS, ids=lambda op: op.name)
def test_scalar_ops(op: Any) -> None:
    """In every dtype that has it; functions that CUDA's library knows less well than the CPU's are compared loosely."""
    program, results = known.Program(), []
    for _, dtype in (p.values for p in known.CASES if p.values[0] is op):
        if (op is prims.NextafterOp and dtype in ("bf16", "f16")) or (
            op in (prims.PhiloxOp, prims.Philox32Op) and dtype != "i64"
        ):
            continue
        values = [known.edges(dtype, 3 * k) for k in range(known.arity(op))]
        if op in known.UNDEFINED_FOR_ZERO and dtype not in known.FLOATS:
            values[1] = torch.where((values[1] == 0) | (values[1] == -1), 3, values[1]).to(values[1].dtype)
        args = [program.argument([14], dtype, v) for v in values]
        if op is prims.SelectOp:
            condition = program.argument([14], "i1", known.edges("i1", 0))
            args = [condition, *args, program.argument([14], dtype, known.edges(dtype, 5))]
        results.append(program.add(op.make(*args)))
    check_prims(program, results)


@pytest.mark.parametrize("source", known.CONVERTIBLE)
def test_convert(source: str) -> None:
    program, results = known.Program(), []
    for target in known.CONVERTIBLE:
        values = known.edges(source, 0)
        if source in known.FLOATS and target not in known.FLOATS and target != "i1":  # out of range is undefined
            values = torch.tensor([0.0, -0.0, 1.0, 2.5, 3.5, 100.0, 1e-3, 7.0], dtype=known.torch_dtype(source))
        x = program.argument([len(values)], source, values)
        results.append(program.add(prims.ConvertOp.make(x, TensorType.get([len(values)], target))))
    check_prims(program, results)


@pytest.mark.parametrize("kind", prims.REDUCTIONS)
@pytest.mark.parametrize("dims", [[0], [0, 2], [1], [2]])
def test_reduce(kind: str, dims: list[int]) -> None:
    program, results = known.Program(), []
    for dtype in ("f32", "f64", "bf16", "i32", "i64", "u8", "i1"):
        if (kind in ("any", "all")) != (dtype == "i1") and not (dtype == "i1" and kind in ("max", "min", "argmax")):
            continue
        if kind == "xor" and dtype in ("f32", "f64", "bf16"):
            continue
        shape: list[Any] = [known.S0, 2, known.S1]
        x = program.argument(shape, dtype)
        result = [n for k, n in enumerate(shape) if k not in dims]
        out = TensorType.get(result, "i64" if kind.startswith("arg") else dtype)
        results.append(program.add(prims.ReduceOp.make(x, kind, dims, out)))
    check_prims(program, results)


@pytest.mark.parametrize("kind", ["max", "min", "argmax", "argmin"])
def test_reduce_of_nan(kind: str) -> None:
    program = known.Program()
    nan, inf = float("nan"), float("inf")
    rows = [[1.0, nan, 3.0, nan, 0.0], [2.0, 2.0, -1.0, -1.0, 0.0], [-inf] * 5, [inf, 1.0, inf, -inf, nan]]
    x = program.argument([4, 5], "f32", torch.tensor(rows))
    results = [
        program.add(prims.ReduceOp.make(x, kind, [k], TensorType.get([n], "i64" if kind[:3] == "arg" else "f32")))
        for k, n in ((1, 4), (0, 5))
    ]
    check_prims(program, results)


@pytest.mark.parametrize("kind", prims.SCANS)
def test_scan(kind: str) -> None:
    program, results = known.Program(), []
    for dtype in ("f32", "i64", "u8", "i1"):
        if (dtype == "i1" and kind in ("sum", "prod", "logsumexp")) or (dtype != "f32" and kind == "logsumexp"):
            continue
        x = program.argument([known.S0, known.S1], dtype)
        results += [program.add(prims.ScanOp.make(x, kind, k)) for k in (0, 1)]
    check_prims(program, results)


@pytest.mark.parametrize("combine", ["none", "add", "mul", "max", "min"])
def test_scatter(combine: str) -> None:
    """Updates that the hardware makes at once and others; where one place has several and none wins, any may."""
    for dtype in ("f32", "f64", "bf16", "i64", "i32", "u8", "i1"):
        if dtype == "i1" and combine in ("add", "mul"):
            continue
        program = known.Program()
        x = program.argument([known.S0, 5], dtype)
        rows = (
            torch.stack([torch.randperm(3) for _ in range(5)], 1) if combine == "none" else torch.randint(0, 3, (3, 5))
        )
        i, v = program.argument([3, 5], "i64", rows), program.argument([3, 5], dtype)
        at = [expr.symbol("i0"), expr.symbol("d1")]
        check_prims(program, [program.add(prims.ScatterOp.make(x, [i], v, at, combine, "out of range"))])


@pytest.mark.parametrize("bad", [-1, 7])
def test_index_errors(bad: int) -> None:
    program = known.Program()
    w = program.argument([7, 2], "f32")
    i = program.argument([3, 2], "i64", torch.tensor([[0, 1], [6, bad], [2, 3]]))
    at = [expr.symbol("i0"), expr.symbol("d1")]
    g = program.add(prims.GatherOp.make(w, [i], at, TensorType.get([3, 2], "f32"), "index out of range"))
    module = on_gpu(program.module([g]), f"prims-to-loop,{FROM_LOOP}")
    with pytest.raises(KernelError, match="index out of range"):
        Program(module, program.inputs)


# Random programs


SMALL = {"ROW": 4, "CHUNK": 4, "COLUMNS": 2, "SQUARE": 2, "SMALL": 4}
"""Tiles so small that every loop is one."""


@settings(max_examples=30)
@given(known.programs())
def test_random_programs(drawn: Any) -> None:
    check_prims(*drawn)


@settings(max_examples=40)
@given(known.programs())
def test_random_programs_in_small_tiles(drawn: Any) -> None:
    with pytest.MonkeyPatch.context() as patch:
        for name, value in SMALL.items():
            patch.setattr(tile_choice, name, value)
        check_prims(*drawn)


# Functions


def normal(*shape: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape)))


def below(n: int, *shape: int) -> Tensor:
    return torch.randint(0, n, shape, generator=torch.Generator().manual_seed(n))


FUNCTIONS: dict[str, tuple[Callable[..., Any], Sequence[Tensor]]] = {
    "gelu": (lambda x, a, b: F.gelu(x * a + b), (normal(37, 100), normal(100), normal(100))),
    "softmax": (lambda x: x.softmax(-1), (normal(37, 100),)),
    "long softmax": (lambda x: x.softmax(-1), (normal(2, 60000),)),
    "held softmax": (lambda x: x.softmax(-1), (normal(2, 20000),)),
    "held softmax of halves": (lambda x: x.softmax(-1), (normal(3, 3000).bfloat16(),)),
    "held long softmax": (lambda x: x.softmax(-1), (normal(1, 40000),)),
    "held parts": (lambda x: F.batch_norm(x, None, None, training=True), (normal(40, 2, 28, 28),)),
    "held layer norm": (lambda x, w: F.layer_norm(x, (5120,), w), (normal(3, 5120), normal(5120))),
    "held group norm": (lambda x, w: F.group_norm(x, 2, w), (normal(2, 6, 50, 17), normal(6))),
    "softmax of halves": (lambda x: x.softmax(-1), (normal(7, 300).bfloat16(),)),
    "layer norm": (lambda x, y, w, b: F.layer_norm(x + y, (100,), w, b), (normal(5, 100),) * 2 + (normal(100),) * 2),
    "long layer norm": (lambda x, w: F.layer_norm(x, (60000,), w), (normal(2, 60000), normal(60000))),
    "cross entropy": (lambda x, t: F.cross_entropy(x, t), (normal(37, 100), below(100, 37))),
    "columns": (lambda x: (x.sum(0), x.amax(0)), (normal(300, 70),)),
    "columns in parts": (lambda x: x.sum(0), (normal(1600, 50),)),
    "rows": (lambda x: (x.sum(1), x.amin(1), x.prod(1), x.argmax(1)), (normal(9, 70),)),
    "all": (lambda x: x.sum(), (normal(300, 230),)),
    "middle": (lambda x: x.sum(1), (normal(4, 50, 33),)),
    "any": (lambda x: ((x > 2).any(1), (x > -2).all(0), (x > 0).sum(1)), (normal(9, 70),)),
    "transpose": (lambda x, y: (x.t() + y, x.t().contiguous()), (normal(130, 70), normal(70, 130))),
    "heads": (lambda x: x.permute(0, 2, 1, 3).contiguous(), (normal(3, 5, 7, 9),)),
    "channels last": (lambda x: x.contiguous(memory_format=torch.channels_last), (normal(2, 40, 9, 9),)),
    "running": (lambda x: (x.cumsum(-1), x.cumsum(0), x.cummax(-1)[0], x.logcumsumexp(-1)), (normal(9, 70),)),
    "long running": (lambda x: x.abs().cumsum(-1), (normal(2, 17000),)),
    "embedding": (lambda i, w, p: F.embedding(i, w) + p, (below(50, 4, 9), normal(50, 30), normal(9, 30))),
    "index_add": (lambda x, i, v: x.index_add(0, i, v), (normal(50, 30), below(50, 20), normal(20, 30))),
    "batch norm": (lambda x: F.batch_norm(x, None, None, training=True), (normal(8, 6, 5, 7),)),
    "group norm": (lambda x: F.group_norm(x, 3), (normal(4, 6, 5, 7),)),
    "variance": (lambda x: (*torch.var_mean(x, 1), *torch.var_mean(x, 0), x.std()), (normal(9, 70),)),
    "long variance": (lambda x: torch.var_mean(x, 1), (normal(600, 40000)[:, :20000],)),
    "pooling": (lambda x: F.max_pool2d(x.relu(), 3, 2, 1), (normal(2, 3, 11, 13),)),
    "pooling of halves": (lambda x: F.max_pool2d(x.relu(), 3, 2, 1), (normal(2, 3, 11, 13).bfloat16(),)),
    "pooling in pairs": (lambda x: F.max_pool2d(x.relu(), 3, 2, 1), (normal(2, 3, 12, 14),)),
    "pooling of halves in pairs": (lambda x: F.avg_pool2d(x, 2, 2), (normal(2, 3, 12, 14).bfloat16(),)),
    "means in pairs": (lambda x: F.avg_pool2d(x, (3, 5), (1, 2), (1, 2)), (normal(2, 3, 12, 14),)),
    "pooling in pairs of a part": (lambda x: F.max_pool2d(x[:, :, 1:, 2:], 3, 2), (normal(2, 3, 13, 14),)),
    "joining": (lambda x, y: (torch.cat([x, 2 * y], 1), F.pad(x, (1, 2, 3, -1))), (normal(9, 70), normal(9, 13))),
    "flip": (lambda x: (x.flip(1), x.cumsum(1).flip(1), x.cumsum(1)[:, ::2]), (normal(9, 70),)),
    "twice": (lambda x: x.softmax(-1).sum(-2), (normal(3, 20, 30),)),
    "of a column": (lambda x: x + x.sum(0) + x.logsumexp(1, keepdim=True), (normal(37, 100),)),
    "strides": (lambda x, y: x * 2 + y, (normal(40, 60).t()[::2], normal(30, 80)[:, ::2])),
    "empty": (lambda x: (x.sum(1), x * 2, x.sum(0)), (torch.empty(5, 0),)),
    "rows of nothing": (lambda x: (x.softmax(-1), x.cumsum(1), x.sum(0), x.exp().mean()), (torch.empty(5, 0),)),
    "scalar": (lambda x: x * 2 + x.sum(), (normal(),)),
    "integers": (lambda x: (x // 3, x % 5, x / 2, x << 2, x.abs()), (below(200, 9, 20) - 100,)),
    "bytes": (lambda x: (x + 200, x.float(), x // 3, x.to(torch.int8)), (below(255, 300).to(torch.uint8),)),
}  # fmt: skip


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions(name: str) -> None:
    f, inputs = FUNCTIONS[name]
    check(f, *inputs, scale=10)


sqrt: Callable[[int], float] = vars(torch)["_sym_sqrt"]
"""What TorchDynamo makes of `math.sqrt`."""

DYNAMIC: dict[str, Callable[[Tensor], Any]] = {
    "pointwise": lambda x: x.relu() * 2,
    "softmax": lambda x: x.softmax(-1),
    "layer norm": lambda x: F.layer_norm(x, x.shape[-1:]),
    "sums": lambda x: (x.sum(0), x.sum(1), x.sum()),
    "transpose": lambda x: (x.t() + 1, x.t().contiguous() + 1),
    "running": lambda x: x.cumsum(-1),
    "argmax": lambda x: (x.argmax(-1), x.argmax(0)),
    "cat": lambda x: torch.cat([x, x * 2], 0),
    "variance": lambda x: torch.var_mean(x, 0),
    "of a column": lambda x: x + x.sum(0),
    "square root of a size": lambda x: (x / sqrt(x.shape[1])).softmax(-1) + sqrt(x.shape[0] * x.shape[1] + 1),
    "scores": lambda x: (x @ x.t() / sqrt(x.shape[1])).softmax(-1),
}


@pytest.mark.parametrize("columns_here", [90, 1300])
@pytest.mark.parametrize("name", DYNAMIC)
def test_other_sizes(name: str, columns_here: int) -> None:
    """One kernel for all sizes: captured on one, run on others, whose rows are held or gone through."""
    rows, columns = torch.export.Dim("rows", min=2, max=100_000), torch.export.Dim("columns", min=2, max=100_000)
    shapes = ({0: rows, 1: columns},)
    check(DYNAMIC[name], normal(37, 100), others=[normal(11, columns_here)], scale=100, dynamic_shapes=shapes)


@pytest.mark.parametrize("columns_here", [90, 96])
@pytest.mark.parametrize("name", ["pointwise", "softmax", "transpose", "sums"])
def test_sizes_that_were_multiples(name: str, columns_here: int) -> None:
    """A kernel has a form for multiples of 16, and one for all sizes."""
    rows, columns = torch.export.Dim("rows", min=2, max=100_000), torch.export.Dim("columns", min=2, max=100_000)
    shapes, others = ({0: rows, 1: columns},), [normal(11, columns_here)]
    module = check(DYNAMIC[name], normal(37, 112), others=others, scale=100, dynamic_shapes=shapes)
    assert any(o.name == "scf.if" for o in module.walk())


def test_wide_indices() -> None:
    """Offsets beyond 2**31 are in i64, those of a tile's lanes stay in i32."""
    module = parse_module("""builtin.module {
      loop.kernel @k(%x: !sym.t<[4000000, 1024], f32, device=cuda:0>) outs(%y: !sym.t<[4000000, 1024], f32, device=cuda:0>)
          sizes [] grid [d0 = 4000000, d1 = 1024] {
        %0 = loop.load %x[d0, d1] : !sym.t<[4000000, 1024], f32, device=cuda:0>
        loop.store %0, %y[d0, d1] : !sym.t<[4000000, 1024], f32, device=cuda:0>
        loop.end
      }
    }""")
    run_passes(module, "loop-tile,kernel-to-tt")
    text = print_module(module)
    assert re.search(r"tt\.addptr .* : !tt\.ptr<f32>, i64", text)
    assert re.search(r"tt\.addptr .*, tensor<\d+xi32>", text) and not re.search(r"tensor<\d+xi64>", text)
