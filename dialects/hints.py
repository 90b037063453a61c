"""The sizes seen when a module was captured: the module's attribute `lamella.hints`."""

from __future__ import annotations

from xdsl.dialects.builtin import DictionaryAttr, IntegerAttr, ModuleOp


def size_hints(module: ModuleOp) -> dict[str, int]:
    """Symbol to size; empty where the module has no hints."""
    table = module.attributes.get("lamella.hints")
    if not isinstance(table, DictionaryAttr):
        return {}
    return {name: value.value.data for name, value in table.data.items() if isinstance(value, IntegerAttr)}
