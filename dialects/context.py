"""The xDSL context: which dialects there are, each loaded when the first of its names is met."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable
from functools import partial
from typing import cast

from xdsl.context import Context
from xdsl.ir import Dialect, Operation

_LAMELLA = __name__.rpartition(".")[0]

DIALECTS: dict[str, str] = {
    "builtin": "xdsl.dialects.builtin:Builtin",
    "func": "xdsl.dialects.func:Func",
    "arith": f"{_LAMELLA}.arith_tensors:ARITH",
    "math": "xdsl.dialects.math:Math",
    "scf": "xdsl.dialects.scf:Scf",
    "cf": "xdsl.dialects.cf:Cf",
    "ub": "xdsl.dialects.ub:UB",
    "memref": "xdsl.dialects.memref:MemRef",
    "vector": "xdsl.dialects.vector:Vector",
    "test": "xdsl.dialects.test:Test",
    "llvm": f"{_LAMELLA}.llvm_ext:LLVM_EXT",
    "sym": f"{_LAMELLA}.tensor:SYM",
    "aten": f"{_LAMELLA}.aten:ATEN",
    "prims": f"{_LAMELLA}.prims:PRIMS",
    "loop": f"{_LAMELLA}.loop:LOOP",
    "host": f"{_LAMELLA}.host:HOST",
    "flow": f"{_LAMELLA}.flow:FLOW",
    "flex": f"{_LAMELLA}.flex:FLEX",
    "tt": f"{_LAMELLA}.tt:TT",
    "gpu": f"{_LAMELLA}.tt_foreign:GPU",
}
"""Dialect name to `module:object`. A module that does not exist is left out."""


class LamellaContext(Context):
    """Makes the op class of any operator of torch (`aten.add.Tensor`, a custom `mylib.scale`) when its name is met."""

    def clone(self) -> LamellaContext:
        copy = super().clone()
        return LamellaContext(
            copy.allow_unregistered,
            copy._loaded_dialects,
            copy._loaded_ops,
            copy._loaded_attrs,
            copy._loaded_types,
            copy._registered_dialects,
        )

    def _get_known_op(self, name: str) -> type[Operation] | None:
        if (op := super()._get_known_op(name)) is not None:
            return op
        namespace, dot, _ = name.partition(".")
        known = self._registered_dialects
        if not dot or "aten" not in known or (namespace != "aten" and namespace in known):
            return None
        if (op := _torch_lookup()(name)) is not None:
            self._loaded_ops[name] = op
        return op


def make_context() -> LamellaContext:
    """A context that knows every dialect of the table above and every operator of torch, with only `builtin` loaded."""
    context = LamellaContext()
    for name, path in DIALECTS.items():
        if importlib.util.find_spec(path.partition(":")[0]) is not None:
            context.register_dialect(name, partial(_load_dialect, path))
    context.load_registered_dialect("builtin")
    return context


def _load_dialect(path: str) -> Dialect:
    return cast(Dialect, load_object(path))


def load_object(path: str) -> object:
    """The object named by `module:name`. Raises `ImportError` or `AttributeError`."""
    module, _, name = path.partition(":")
    return getattr(importlib.import_module(module), name)


def _torch_lookup() -> Callable[[str], type[Operation] | None]:
    # Imported here: making op classes from schemas needs torch, and most text never names an operator of torch.
    from .aten import lookup

    return lookup
