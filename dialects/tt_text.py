"""A kernel as text that Triton's own parser takes: MLIR's generic form, in the words of one version of Triton."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Attribute

from .errors import LamellaVerifyError
from .printer import FastPrinter
from .tt_enums import CACHE, EVICT, CachePolicyAttr
from .tt_function import CallOp, FuncOp
from .tt_types import TensorDescType
from .tt_versions import OLDEST, TritonVersion

OURS = "lamella."
"""What an attribute of ours starts with; Triton has no parser for their values."""


def kernel_text(kernel: FuncOp, version: TritonVersion = OLDEST, *, locations: bool = False) -> str:
    """A module of `kernel` and the functions that it calls. Attributes named `lamella.…` are left out.

    Raises `LamellaVerifyError` for a private kernel, on which Triton aborts, and for a call of what is not there.
    """
    if not kernel.is_kernel:
        raise LamellaVerifyError(kernel, "a kernel is public: Triton aborts if there is none")
    printer = _Printer(version, locations)
    printer.print_string('"builtin.module"() ({')
    for func in called_from(kernel):
        printer.print_string("\n")
        printer.print_op(func)
    printer.print_string("\n}) : () -> ()\n")
    return printer.text()


def called_from(kernel: FuncOp) -> list[FuncOp]:
    """`kernel` and all functions of its module that it calls, one by one or through others."""
    module = kernel.parent_op()
    known: dict[str, FuncOp] = {}
    if isinstance(module, ModuleOp):
        known = {op.sym_name.data: op for op in module.ops if isinstance(op, FuncOp)}
    found, todo = {kernel.sym_name.data: kernel}, [kernel]
    while todo:
        for op in todo.pop().walk():
            if isinstance(op, CallOp) and (name := op.callee.string_value()) not in found:
                if name not in known:
                    raise LamellaVerifyError(op, f"calls @{name}, which is no function of its module")
                found[name] = known[name]
                todo.append(known[name])
    return list(found.values())


class _Printer(FastPrinter):
    def __init__(self, version: TritonVersion, locations: bool) -> None:
        super().__init__(print_generic_format=True, print_debuginfo=locations)
        self._version = version

    def print_attribute(self, attribute: Attribute) -> None:
        if self._version.descriptor_of_shape and isinstance(attribute, TensorDescType):
            block = attribute.block
            sizes = "".join(f"{size}x" for size in block.get_shape())
            self.print_string(f"!tt.tensordesc<{sizes}")
            self.print_attribute(block.element_type)
            self.print_string(">")
        else:
            super().print_attribute(attribute)

    def print_op_attributes(self, attributes: Mapping[str, Attribute], **options: Any) -> bool:
        kept = {name: value for name, value in attributes.items() if not name.startswith(OURS)}
        return super().print_op_attributes(kept, **options)

    def _print_op_properties(self, properties: dict[str, Attribute]) -> None:
        if self._version.cache_policy and ("cache" in properties or "evict" in properties):
            kept = {name: value for name, value in properties.items() if name not in ("cache", "evict")}
            cache = properties.get("cache", CACHE["none"])
            evict = properties.get("evict", EVICT["evict_normal"])
            if (cache, evict) != (CACHE["none"], EVICT["evict_normal"]):
                kept["cachePolicy"] = CachePolicyAttr.new([cache, evict])
            properties = kept
        super()._print_op_properties(properties)
