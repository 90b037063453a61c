"""Where attention is a kernel, by what was measured."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lamella.dialects.text import parse_module
from lamella.lowering.attention_call import FLASH, MOST_KEYS, attention_of, reason_to_generate
from lamella.lowering.target import CpuTarget

PLAIN = CpuTarget.from_name("avx512")
PAIRS = replace(PLAIN, has_avx512_bf16=True)
MATRIX = CpuTarget.from_name("amx")


@pytest.mark.parametrize(
    ("target", "dtype", "keys", "generated"),
    [
        (PAIRS, "bf16", 77, True),
        (PAIRS, "bf16", MOST_KEYS, True),
        (PAIRS, "bf16", MOST_KEYS + 1, False),
        (PAIRS, "f32", 77, True),
        (PAIRS, "f16", 77, False),  # it is widened
        (PLAIN, "bf16", 77, False),
        (MATRIX, "bf16", 77, False),  # the units take whole blocks of keys
        (MATRIX, "bf16", 64, True),
    ],
)
def test_on_a_cpu(target: CpuTarget, dtype: str, keys: int, generated: bool) -> None:
    query, key = f"!sym.t<[1, 8, 33, 64], {dtype}>", f"!sym.t<[1, 8, {keys}, 64], {dtype}>"
    module = parse_module(f"""
func.func @main(%q: {query}, %k: {key}) -> {query} {{
  %0, %1 = {FLASH}(%q, %k, %k) : ({query}, {key}, {key}) -> ({query}, !sym.t<[1, 8, 33], f32>)
  func.return %0 : {query}
}}""")
    (call,) = filter(None, map(attention_of, module.walk()))
    assert (reason_to_generate(call, target, int) is not None) == generated
