"""Steps of random programs of the widest kind: functions, reductions, moves and layers that the others leave out."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from .fuzz_steps import along, binary, unary
from .fuzz_used import looked_up, ranked
from .fuzz_values import MOVES, ROUGH, ROUNDS, Chooser, Line, Maker, Numbers, Value, choose
from .fuzz_writes import view

WITHIN = "({x} / ({x}.abs() + 1))"
"""Between -1 and 1."""


def sharp(text: str, kinds: str) -> Maker:
    """`text` of `{x}` and `{y}`, which jumps; not of halves, which are rounded on the way in eager alone."""

    def make(g: Chooser, values: Sequence[Value]) -> Line | None:
        x = choose(g, values, lambda v: v.kind in kinds and v.exact and not _half(v.tensor))
        if x is None:
            return None
        y = choose(g, values, lambda v: v.tensor.dtype == x.tensor.dtype and v.exact and _broadcast(x.tensor, v.tensor))
        return None if y is None else Line(text.replace("{x}", x.name).replace("{y}", y.name), (x, y))

    return make


def _half(t: torch.Tensor) -> bool:
    return t.is_floating_point() and t.itemsize == 2


def _broadcast(x: torch.Tensor, y: torch.Tensor) -> bool:
    try:
        return torch.broadcast_shapes(x.shape, y.shape).numel() <= 4096
    except RuntimeError:
        return False


def alike(text: str, kinds: str, rank: int = 1, numbers: Numbers = MOVES) -> Maker:
    """`text` of `{x}` and `{y}` of one shape and dtype, along `{d}`."""

    def make(g: Chooser, values: Sequence[Value]) -> Line | None:
        x = choose(g, values, lambda v: v.kind in kinds and v.tensor.dim() >= rank and v.tensor.numel() > 0)
        if x is None:
            return None
        y = choose(g, values, lambda v: v.tensor.shape == x.tensor.shape and v.tensor.dtype == x.tensor.dtype)
        assert y is not None
        d = g.below(max(x.tensor.dim(), 1))
        return Line(text.replace("{x}", x.name).replace("{y}", y.name).replace("{d}", str(d)), (x, y), numbers)

    return make


FUNCTIONS: tuple[Maker, ...] = (
    *(unary(f"{{x}}.{f}()", "f") for f in ("asinh", "erfc", "sinc", "deg2rad", "tan", "sgn")),
    *(unary(f"({{x}} / 4).{f}()", "f") for f in ("sinh", "cosh", "exp2", "i0")),
    *(unary(f"({{x}}.abs() + 1).{f}()", "f") for f in ("log10", "digamma", "acosh")),
    *(unary(f"{WITHIN}.{f}()", "f") for f in ("asin", "acos", "atanh", "erfinv")),
    *(unary(f"F.{f}({{x}})", "f") for f in ("hardsigmoid", "selu", "logsigmoid", "softsign", "tanhshrink")),
    unary("F.celu({x}, 0.5)", "f"),
    unary("F.elu({x}, 0.5)", "f"),
    unary("F.softplus({x}, 2.0)", "f"),
    unary("F.gelu({x}, approximate='tanh')", "f"),
    unary("F.hardtanh({x})", "f", MOVES),
    unary("F.relu6({x})", "f", MOVES),
    unary("F.threshold({x}, 1, -2)", "fi", jumps=True),
    unary("F.hardshrink({x})", "f", jumps=True),
    unary("F.softshrink({x})", "f", ROUNDS),
    unary("F.prelu({x}, {x}.new_full((1,), 0.25))", "f", ROUNDS),
    unary("+{x}", "fic", MOVES),
    unary("{x}.frac()", "f", jumps=True),
    unary("{x}.round(decimals=1)", "f"),
    *(unary(f"{{x}}.{f}()", "fi", jumps=True) for f in ("isfinite", "isposinf", "isneginf", "logical_not", "sgn")),
    *(unary(f"{{x}}.{f}()", "i") for f in ("sin", "sqrt", "exp", "sigmoid", "rsqrt", "atan")),
    unary("{x}.pow(-1)", "f"),
    unary("{x}.abs().pow(2.5)", "f"),
    unary("{x}.abs().float_power(0.5)", "fi"),
    unary("{x} / 3", "fib"),
    unary("7 - {x}", "fi", ROUNDS),
    unary("torch.rsub({x}, 2, alpha=3)", "fi"),
    unary("torch.true_divide({x}, 2)", "fib"),
    unary("{x} + 2j", "fi"),
    unary("{x}.clip(max=2)", "fi", MOVES),
    unary("torch.angle({x})", "ic"),
    unary("torch.logit({x}.sigmoid(), 1e-3)", "f"),
    binary("torch.fmin({x}, {y})", "fi", MOVES),
    binary("torch.logaddexp({x}, {y})", "f", mixed=False),
    binary("torch.logaddexp2({x}, {y})", "f", mixed=False),
    binary("torch.xlogy({x}, {y}.abs() + 1)", "fi"),
    binary("torch.special.xlog1py({x}, {y}.abs())", "fi"),
    binary("torch.pow({x}.abs() + 0.5, {y} / 4)", "f"),
    binary("torch.addcmul({x}, {x}, {y}, value=0.5)", "f"),
    binary("torch.addcmul({x}, {x}, {y}, value=2)", "i", jumps=True),
    binary("torch.addcdiv({x}, {x}, {y}.abs() + 1)", "f"),
    binary("torch.lerp({x}, {y}, {y}.sigmoid())", "f", mixed=False),
    binary("torch.sub({x}, {y}, alpha=2)", "fi"),
    binary("torch.ldexp({x}, {y} % 5)", "i"),
    binary("torch.true_divide({x}, {y}.abs() + 1)", "ib"),
    binary("torch.complex({x}.float(), {y}.float())", "fib"),
    binary("torch.polar({x}.abs().float(), {y}.float())", "f"),
    binary("torch.lcm({x} % 7, {y} % 5 + 1)", "i", jumps=True, mixed=False),
    binary("torch.clamp({x}, {y} - 1, {y} + 1)", "fi", ROUNDS),
    *(binary(f"torch.logical_{op}({{x}}, {{y}})", "fib", jumps=True) for op in ("and", "or")),
    *(sharp(f"torch.{f}({{x}}, {{y}})", "f") for f in ("copysign", "nextafter", "heaviside", "isclose")),
    sharp("torch.fmod({x}, {y} * 2 + 1)", "f"),
    sharp("torch.remainder({x}, {y}.abs() + 0.75)", "f"),
    sharp("torch.where({x} > {y}, {x}, {y} - 1)", "fi"),
    sharp("({x} - {y}).sign() * 3", "fi"),
    sharp("torch.bucketize({x}, torch.tensor([-2, 0, 1, 3], device={x}.device))", "i"),
    sharp("torch.searchsorted({x}.sort(-1)[0].contiguous(), {x}.contiguous(), right=True)", "i"),
)
REDUCTIONS: tuple[Maker, ...] = (
    along("{x}.nanmean({d}, keepdim={k})", "f"),
    *(along(f"{{x}}.{f}({{d}}, keepdim={{k}})[0]", "fi", MOVES, empty=False) for f in ("median", "min", "max")),
    along("{x}.nanmedian({d})[0]", "f", MOVES, empty=False),
    along("{x}.mode({d})[0]", "i", jumps=True, empty=False),
    along("{x}.kthvalue(1, {d}, keepdim={k})[0]", "fi", MOVES, empty=False),
    along("{x}.topk(1, {d})[0]", "fi", MOVES, empty=False),
    along("{x}.topk(1, {d}, largest=False)[0]", "fi", MOVES, empty=False),
    along("{x}.float().quantile(0.3, {d})", "fi", empty=False),
    along("{x}.count_nonzero({d})", "fib", jumps=True),
    *(
        along(f"torch.{f}({{x}}, {{d}}, correction=0)[{i}]", "f", empty=False)
        for f in ("var_mean", "std_mean")
        for i in (0, 1)
    ),
    along("{x}.logcumsumexp({d})", "f"),
    along("{x}.cummin({d})[0]", "fi", MOVES, empty=False),
    along("{x}.cumprod({d})", "f"),
    along("torch.trapezoid({x}, dim={d})", "f", empty=False),
    along("torch.cumulative_trapezoid({x}, dim={d})", "f", empty=False),
    along("torch.linalg.vector_norm({x}, 1, {d}, keepdim={k})", "f"),
    along("torch.linalg.vector_norm({x}, float('inf'), {d})", "f", empty=False),
    along("torch.linalg.vector_norm({x}, 0, {d})", "f", jumps=True),
    along("{x}.sum({d}, dtype=torch.float64)", "fib"),
    along("{x}.sum({d}, dtype=torch.int32)", "ib", jumps=True),
    along("{x}.mean({d}, dtype=torch.float32, keepdim={k})", "fi"),
    along("{x}.prod({d}, keepdim={k})", "f"),
    along("{x}.argsort(dim={d}, stable=True)", "fi", jumps=True),
    along("{x}.argsort(dim={d}, descending=True, stable=True)", "fib", jumps=True),
    along("{x}.sort({d}, descending=True)[0]", "fi", MOVES),
    along("torch.renorm({x}, 2, {d}, 1.5)", "f"),
    along("F.softmin({x}, {d})", "f"),
    along("F.normalize({x}, p=1, dim={d})", "f"),
    along("{x}.diff(n=2, dim={d})", "fi"),
    along("torch.gradient({x}, dim={d})[0]", "f"),
    *(unary(f"{{x}}.{f}()", "f") for f in ("mean", "prod", "norm", "nansum")),
    unary("{x}.var(correction=0)", "f"),
    unary("{x}.sum((0, -1))", "fi"),
    unary("{x}.amax((0, 1), keepdim=True)", "fi", MOVES),
    unary("{x}.mean((-1, -2))", "f"),
    *(unary(f"{{x}}.{f}()", "fi", jumps=True) for f in ("argmax", "argmin", "count_nonzero", "all")),
    *(unary(f"{{x}}.{f}()", "fi", MOVES) for f in ("max", "min", "median")),
    unary("{x}.trace()", "fi"),
    unary("torch.histc({x}.float(), 4, -4, 4)", "i", jumps=True),
    unary("torch.cov({x})", "f"),
    alike("torch.dist({x}, {y})", "f", 1, ROUGH),
    alike(
        "torch.linalg.cross({x}[..., :1].expand(*{x}.shape[:-1], 3), {y}[..., :1].expand(*{y}.shape[:-1], 3))",
        "f",
        1,
        ROUGH,
    ),
)
MOVED: tuple[Maker, ...] = (
    view("{x}.unfold({d}, 2, 2)"),
    view("{x}.unfold({d}, 3, 1)"),
    view("{x}.rot90(1, ({d}, {e}))", rank=2),
    *(view(f"{{x}}.{f}()", rank=2) for f in ("fliplr", "flipud", "adjoint", "t", "diag_embed", "mH.clone")),
    *(view(f"{{x}}.{f}()", rank=0) for f in ("ravel", "clone", "diag_embed", "contiguous")),
    *(view(f"torch.{f}({{x}})", rank=0) for f in ("atleast_1d", "atleast_3d", "diagflat")),
    view("torch.diag({x}, 1)"),
    view("{x}.diagonal(-1, {d}, {e})", rank=2),
    view("{x}.tensor_split(2, {d})[1]"),
    view("{x}.tensor_split((1, 2), {d})[-1]"),
    view("{x}.broadcast_to((2, *{x}.shape))", rank=0),
    view("{x}.unsqueeze({d}).expand(*{x}.shape[:{d}], 3, *{x}.shape[{d}:])"),
    view("{x}.squeeze({d})"),
    view("{x}.squeeze((0, -1))", rank=2),
    view("{x}.repeat(2, *[1] * ({x}.dim() - 1))"),
    view("{x}.roll((1, -2), (0, -1))"),
    view("{x}.roll(3)"),
    view("{x}.flip((0, -1))", rank=2),
    view("{x}.narrow_copy({d}, 0, 1)"),
    view("{x}.mT.contiguous().mT", rank=2),
    view("{x}.to(memory_format=torch.channels_last)", rank=4),
    view("{x}[..., [0, -1]]"),
    view("{x}[[-1, 0, 0]]"),
    view("{x}[torch.tensor(0, device={x}.device)]"),
    view("{x}[None, ..., 0]"),
    view("{x}[:, [0]]", rank=2),
    view("{x}[[0, -1], ..., [0, -1]]", rank=2),
    view("{x}[torch.tensor([[0], [-1]]), torch.tensor([0, -1, 0])]", rank=2),
    view("{x}[:, None, [0, 0]]", rank=2),
    view("{x}[torch.tensor([True, False, True])[: {x}.shape[0]]]"),
    view("{x}.take(torch.tensor([0, -1, 0]))"),
    view("{x}.index_select({d}, torch.tensor([], dtype=torch.int64))"),
    view("{x}.index_select({d}, torch.tensor(0))"),
    view("torch.meshgrid({x}.flatten(), {x}.flatten()[:3], indexing='xy')[0]"),
    view("torch.cartesian_prod({x}.flatten()[:4], {x}.flatten()[:3])", "fi"),
    view("torch.block_diag({x}, {x})", rank=2),
    view("F.pad({x}, (-1, 2))"),
    view("F.pad({x}, (1, 0, -1, 1), value=2)", "fi", 2),
    view("{x}.view(torch.float32)", "i"),
    view("torch.movedim({x}, (0, 1), (1, 0))", rank=2),
    alike("torch.hstack([{x}, {y}])", "fibc"),
    alike("torch.vstack([{x}, {y}])", "fibc", 0),
    alike("torch.dstack([{x}, {y}])", "fibc", 0),
    alike("torch.column_stack([{x}, {y}])", "fibc", 0),
    alike("torch.stack([{x}, {y}], -1).flatten(-2)", "fibc"),
    alike("torch.take_along_dim({x}, {y}.argsort(dim={d}, stable=True), {d})", "i"),
    alike("{x}.select_scatter({y}.select({d}, 0), {d}, -1)", "fibc"),
    alike("{x}.slice_scatter({y}[::2], 0, 0, None, 2)", "fibc"),
    alike("{x}.diagonal_scatter({y}.diagonal(0, 0, -1), 0, 0, -1)", "fibc", 2),
    alike("torch.where({x} > 0, {x}, {y})", "i"),
    alike("torch.stack([{x}, {y}]).amin({d})", "fi"),
)
LAYERS: tuple[Maker, ...] = (
    ranked("F.pixel_shuffle({x}.repeat(1, 4, 1, 1), 2)", (4,), "fi", MOVES),
    ranked("F.pixel_unshuffle({x}.repeat(1, 1, 2, 2), 2)", (4,), "fi", MOVES),
    ranked("F.channel_shuffle({x}.repeat(1, 2, 1, 1), 2)", (4,), "f", MOVES),
    ranked("F.pad({x}, (1, 1), mode='circular')", (2, 3), "fi", MOVES),
    ranked("F.pad({x}, (1, 1, 1, 0), mode='replicate')", (3, 4), "f", MOVES),
    ranked("F.unfold({x}, 2)", (4,), numbers=MOVES),
    ranked("F.fold(F.unfold({x}, 2), {x}.shape[-2:], 2)", (4,)),
    ranked("F.interpolate({x}, size=7)", (3,), numbers=MOVES),
    ranked("F.interpolate({x}, size=(5, 6), mode='bilinear', align_corners=True)", (4,)),
    ranked("F.interpolate({x}, scale_factor=0.5, mode='area')", (4,)),
    ranked("F.adaptive_avg_pool2d({x}, (2, 3))", (3, 4)),
    ranked("F.adaptive_max_pool2d({x}, 2)", (3, 4), numbers=MOVES),
    ranked("F.avg_pool2d({x}, 3, 2, 1, count_include_pad=False)", (3, 4)),
    ranked("F.max_pool1d({x}, 2, 1)", (2, 3), numbers=MOVES),
    ranked("F.max_pool2d({x}, 2, dilation=2)", (4,), numbers=MOVES),
    ranked("F.lp_pool2d({x}.abs() + 1, 2.0, 2)", (4,)),
    ranked("F.conv_transpose2d({x}, {x}.reshape(-1)[:1].expand({x}.shape[1], 2, 2, 2), stride=2)", (4,)),
    ranked("F.conv2d({x}, {x}.reshape(-1)[:1].expand({x}.shape[1], 1, 2, 2), groups={x}.shape[1])", (4,)),
    ranked("F.conv1d({x}, {x}.reshape(-1)[:1].expand(3, {x}.shape[1], 3), padding='same', dilation=2)", (3,)),
    ranked("F.layer_norm({x}, {x}.shape[1:])", (2, 3, 4)),
    ranked("F.local_response_norm({x}, 2)", (3, 4)),
    ranked("F.huber_loss({x}, {x} * 0.5)", (1, 2, 3)),
    ranked("F.smooth_l1_loss({x}, {x}.flip(0), reduction='none')", (1, 2, 3)),
    ranked("F.l1_loss({x}, {x}.flip(-1), reduction='sum')", (1, 2, 3)),
    ranked("F.binary_cross_entropy_with_logits({x}, {x}.sigmoid(), reduction='none')", (1, 2, 3)),
    ranked("F.kl_div({x}.log_softmax(-1), {x}.softmax(-1), reduction='batchmean')", (2, 3)),
    ranked("F.cross_entropy({x}, {x}.softmax(1), label_smoothing=0.1)", (2,)),
    ranked("F.cross_entropy({x}, torch.arange({x}.shape[0]) % {x}.shape[1], reduction='none', ignore_index=1)", (2,)),
    ranked("F.softmax({x}, 0, dtype=torch.float64)", (1, 2, 3)),
    ranked("{x} @ {x}.reshape(-1)[: {x}.shape[-1]]", (1, 2, 3)),
    ranked("torch.addmm({x}[:1], {x}, {x}.mT @ {x}, beta=0.5, alpha=2)", (2,)),
    ranked("torch.baddbmm({x}, {x} @ {x}.mT, {x}, beta=2)", (3,)),
    ranked("torch.einsum('bij,bkj->bik', {x}, {x})", (3,)),
    ranked("torch.tensordot({x}, {x}, ([0], [0]))", (1, 2)),
    ranked("torch.kron({x}[:3], {x}[:2])", (1, 2)),
    ranked("torch.vander({x}[:5] / 4)", (1,)),
    ranked("{x}.mT.matmul({x}.sin())", (2, 3)),
    looked_up("F.embedding_bag({i}.reshape(-1)[None] % {x}.shape[0], {x}, mode='mean')"),
    looked_up("{x}.index_copy(0, {i}.flatten()[:1] % {x}.shape[0], {x}[:1] * 2)"),
)
WIDE: tuple[Maker, ...] = (*FUNCTIONS, *REDUCTIONS, *MOVED, *LAYERS)
