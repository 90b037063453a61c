"""What is checked: the text of a kernel for each version of Triton, and what is refused on the way.

That Triton takes it is tested in tests/codegen/test_ttir.py.
"""

import pytest

from lamella.dialects.errors import LamellaVerifyError
from lamella.dialects.text import parse_module, print_module
from lamella.dialects.tt import FuncOp
from lamella.dialects.tt_text import kernel_text
from lamella.dialects.tt_versions import VERSIONS, version_of

TEXT = """
tt.func private @twice(%x: f32) -> f32 attributes {noinline = true} {
  %y = arith.addf %x, %x : f32
  tt.return %y : f32
}
tt.func private @unused(%x: f32) {
  tt.return
}
tt.func public @kernel(%p: !tt.ptr<f32>, %d: !tt.tensordesc<tensor<16x8xf32>>, %n: i32) attributes {noinline = false, lamella.grid = #loop.index<[s0]>, lamella.warps = 4 : i64} {
  %x = tt.load %p cacheModifier = cg evictionPolicy = evict_last : !tt.ptr<f32>
  %y = tt.call @twice(%x) : (f32) -> f32
  %z = tt.descriptor_load %d[%n, %n] evictionPolicy = evict_first : !tt.tensordesc<tensor<16x8xf32>> -> tensor<16x8xf32>
  tt.descriptor_store %d[%n, %n], %z : !tt.tensordesc<tensor<16x8xf32>>, tensor<16x8xf32>
  tt.store %p, %y : !tt.ptr<f32>
  tt.return
}
"""


def _kernel(text: str = TEXT) -> FuncOp:
    functions = [op for op in parse_module(text).ops if isinstance(op, FuncOp)]
    return next(f for f in functions if f.sym_name.data == "kernel")


@pytest.mark.parametrize("version", VERSIONS)
def test_versions(version: tuple[int, int]) -> None:
    text = kernel_text(_kernel(), VERSIONS[version])
    new_descriptor, policy = version >= (3, 8), version >= (3, 9)
    assert ("!tt.tensordesc<16x8xf32>" in text) == new_descriptor
    assert ("!tt.tensordesc<tensor<16x8xf32>>" in text) == (not new_descriptor)
    assert ("#tt.cache_policy<cache_modifier = cg, eviction_policy = evict_last>" in text) == policy
    assert ("cache = 3 : i32, evict = 3 : i32" in text) == (not policy)
    assert ("evict = " in text) == (not policy), "the hints that say nothing are left out"


def test_only_what_is_called() -> None:
    text = kernel_text(_kernel())
    assert '"kernel"' in text and '"twice"' in text and '"unused"' not in text


def test_attributes_of_ours_are_left_out() -> None:
    kernel = _kernel()
    assert "lamella" not in kernel_text(kernel)
    assert "lamella.grid" in print_module(kernel)


def test_text_of_a_later_version_reads_back() -> None:
    text = kernel_text(_kernel(), version_of("3.8.0"))
    assert kernel_text(_kernel(text)) == kernel_text(_kernel())


def test_pretty_text_of_the_newest_version_reads_back() -> None:
    load = (
        "tt.load %p {cachePolicy = #tt.cache_policy<cache_modifier = cg, eviction_policy = evict_last>} : !tt.ptr<f32>"
    )
    old = "tt.load %p cacheModifier = cg evictionPolicy = evict_last : !tt.ptr<f32>"
    assert kernel_text(_kernel(TEXT.replace(old, load))) == kernel_text(_kernel())


def test_locations() -> None:
    text = TEXT.replace("evict_last : !tt.ptr<f32>", 'evict_last : !tt.ptr<f32> loc("model.py":3:4)')
    assert 'loc("model.py":3:4)' in kernel_text(_kernel(text), locations=True)
    assert "loc(" not in kernel_text(_kernel(text))


def test_version_numbers() -> None:
    assert version_of("3.9.1+git0123") is VERSIONS[3, 9]
    with pytest.raises(KeyError):
        version_of("4.0.0")


def test_private_kernel() -> None:
    with pytest.raises(LamellaVerifyError, match="a kernel is public: Triton aborts if there is none"):
        kernel_text(_kernel("tt.func private @kernel() {\n  tt.return\n}"))


def test_missing_callee() -> None:
    text = "tt.func public @kernel() {\n  tt.call @nobody() : () -> ()\n  tt.return\n}"
    with pytest.raises(LamellaVerifyError, match="calls @nobody, which is no function of its module"):
        kernel_text(_kernel(text))
