"""Arguments of random programs as callers have them: sizes that change from call to call, any dtype and layout, views
of the memory of other arguments.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from .fuzz_values import Chooser, Value

Sizes = Mapping[str, int]
"""What n and m are in a call."""

DTYPES = (
    *("float32", "float32", "float32", "int64", "int64", "float64", "bfloat16", "bool", "float16", "int32", "uint8"),
    *("int8", "int16", "complex64", "complex64", "complex128", "uint16", "uint32", "uint64"),
    *("float8_e4m3fn", "float8_e5m2"),
)
DIMS = ("n", "m", "3", "4", "n", "2", "1", "m", "7", "n + 1", "16", "17", "2 * m", "33", "0")


def sizes(g: Chooser) -> Sizes:
    return {"n": g.pick((5, 4, 3, 6, 2, 9)), "m": g.pick((3, 4, 7, 2, 8))}


def other_sizes(g: Chooser, base: Sizes) -> Sizes:
    """As a later call may have them: 0 and 1, which no size is that a graph has as a symbol, among them."""
    return {
        "n": g.pick((base["n"] + 3, 2 * base["n"], base["n"] - 1, 1, 33, 0)),
        "m": g.pick((base["m"], base["m"] + 2, base["m"], 1, 19)),
    }


def argument(g: Chooser, known: Sizes, fixed: bool) -> str:
    """A tensor of its own memory; of sizes that no call changes, if `fixed`."""
    dtype = g.pick(DTYPES)
    dims = [g.pick([d for d in DIMS if not fixed or d.isdigit()]) for _ in range(g.pick((2, 3, 1, 2, 4, 0, 3)))]
    while _count(dims, known) > 2048:
        dims[g.below(len(dims))] = "2"
    seed, real = g.below(1000), dtype.startswith(("float32", "float64", "float16", "bfloat"))
    low, high = 0 if dtype.startswith(("u", "bool")) else -4, 2 if dtype == "bool" else 6
    whole = f"torch.randint({low}, {high}, {{}}, generator=seeded({seed})).to(torch.{dtype})"
    if dtype.startswith("complex"):
        whole = f"whole_complex({{}}, seeded({seed})).to(torch.{dtype})"
    elif real and g.below(2):
        whole = f"torch.randn({{}}, generator=seeded({seed})).to(torch.{dtype})"

    def made(*sizes: str) -> str:
        return whole.replace("{}", f"[{', '.join(sizes)}]")

    match g.below(10) if dims else 0:
        case 1 if len(dims) > 1:
            return made(*dims[:-2], dims[-1], dims[-2]) + ".mT"
        case 2:
            return made(*dims[:-1], f"2 * ({dims[-1]})") + "[..., ::2]"
        case 3:
            return made(f"{dims[0]} + 2", *dims[1:]) + "[1:-1]"
        case 4 if dims[0] != "0":
            return made("1", *dims[1:]) + f".expand([{', '.join(dims)}])"
        case 5 if len(dims) == 4:
            return made(*dims) + ".contiguous(memory_format=torch.channels_last)"
        case 6 if real:
            return f"special({made(*dims)})"
        case 7:
            return f"odd({made('1', *dims[1:])})"
        case 8:
            return made(*dims, "3") + "[..., 1]"
        case 9:
            return made(*dims[:-1], f"64 * ({dims[-1]})") + "[..., 5::64]"
        case _:
            return made(*dims)


def wide_argument(g: Chooser, known: Sizes, fixed: bool) -> str:
    """As `argument`, or as a view that overlaps itself, of one element, without dims, or that begins anywhere."""
    text = argument(g, known, fixed)
    forms = ("{}", "{}", "overlapping({})", "inside({})", "single({})", "single({}).reshape(())", "shifted({})")
    return text if fixed else g.pick((*forms, "reversed_order({})")).replace("{}", text)


def _count(dims: Sequence[str], known: Sizes) -> int:
    return torch.Size([eval(d, {}, dict(known)) for d in dims]).numel()


def shared(g: Chooser, earlier: Value) -> str:
    """A view of an earlier argument, or the argument once more."""
    x, t = earlier.name, earlier.tensor
    forms = [x, f"{x}.unsqueeze(0)", f"{x}.detach()"]
    if t.dim():
        forms += [f"{x}[1:]", f"{x}[:-1]", f"{x}[..., ::2]", f"{x}[..., 1:]", f"{x}.transpose(0, -1)"]
        forms += [f"{x}.expand(2, *{x}.shape)"]
        if t.shape[0]:
            forms.append(f"{x}[0]")
        if t.is_contiguous():
            forms += [f"{x}.view(-1)", f"{x}.view(-1)[: {x}.numel() // 2]"]
    if t.dim() > 1:
        forms.append(f"{x}.diagonal()")
    return g.pick(forms)


def whole_complex(sizes: Sequence[int], generator: torch.Generator) -> torch.Tensor:
    parts = torch.randint(-4, 6, [2, *sizes], generator=generator).float()
    return torch.complex(parts[0], parts[1])


def odd(t: torch.Tensor) -> torch.Tensor:
    """With strides along dims of one element that nobody would choose."""
    strides = [17 + 2 * i if n == 1 else s for i, (n, s) in enumerate(zip(t.shape, t.stride(), strict=True))]
    return t.as_strided(t.shape, strides)


def overlapping(t: torch.Tensor) -> torch.Tensor:
    """Windows of its elements, each of which begins within the last."""
    flat = t.reshape(-1)
    return flat.unfold(0, min(3, len(flat)), 1)


def inside(t: torch.Tensor) -> torch.Tensor:
    """Its first elements along the last dim, expanded."""
    return t[..., :1].expand(t.shape) if t.dim() and t.shape[-1] else t


def single(t: torch.Tensor) -> torch.Tensor:
    """One element, of as many dims."""
    return t.reshape(-1)[:1].reshape([1] * t.dim()) if t.numel() else t.new_ones([1] * t.dim())


def shifted(t: torch.Tensor) -> torch.Tensor:
    """From the second element of a memory on."""
    return torch.cat([t.new_zeros(1), t.reshape(-1)])[1:].view(t.shape)


def reversed_order(t: torch.Tensor) -> torch.Tensor:
    """With its dims in the opposite order in memory."""
    order = range(t.dim())[::-1]
    return t.permute(*order).contiguous().permute(*order) if t.dim() else t


LAYOUTS: dict[str, Any] = {f.__name__: f for f in (overlapping, inside, single, shifted, reversed_order)}


def converted(
    tensors: Sequence[torch.Tensor], device: str, dtype_of: Callable[[torch.dtype], torch.dtype] = lambda dtype: dtype
) -> list[torch.Tensor]:
    """Tensors with these values, of other dtypes, in memory of their own that is laid out and shared alike."""
    memory: dict[int, torch.Tensor] = {}
    found: list[torch.Tensor] = []
    for t in tensors:
        whole: Any = t.untyped_storage()
        key = whole.data_ptr() or id(t)
        if key not in memory:
            flat: Any = torch.empty(0, dtype=t.dtype)
            flat.set_(whole, 0, [whole.nbytes() // t.itemsize])
            memory[key] = flat.to(dtype_of(t.dtype), copy=True).to(device)
        same = next((f for f, s in zip(found, tensors, strict=False) if s is t), None)
        made = memory[key].as_strided(t.shape, t.stride(), t.storage_offset()) if same is None else same
        found.append(made)
    return found


def widest(dtype: torch.dtype) -> torch.dtype:
    """Of double precision; but f8, whose rounding is a step of a program."""
    if dtype.is_complex:
        return torch.complex128
    return torch.float64 if dtype.is_floating_point and dtype.itemsize > 1 else dtype
