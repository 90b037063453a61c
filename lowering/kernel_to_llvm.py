"""kernel-to-llvm: scheduled `loop.kernel`s to `llvm.func`s.

In: a module with `loop.kernel`s in any schedule (none at all gives scalar loops) beside functions of any level. Out:
each kernel for the CPU replaced by `llvm.func @name(ptr per buffer: ins then outs, i64 per size) -> i32` and internal
functions; where launches of it stand in a `host.together`, by `@name.prepare` (beside or instead).
The function returns 0, or k + 1 when the k-th message of its attribute `lamella.messages` is to be raised, or -1 when
memory ran out. Buffers are aligned to their elements; an out may be an in if each point writes only what it has read.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from xdsl.context import Context
from xdsl.dialects import llvm
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from ..dialects.host import LaunchOp, TogetherOp
from ..dialects.loop import KernelOp
from .host_devices import on_gpu
from .llvm_builder import Shared
from .llvm_properties import code_of
from .parallel import kernel_functions
from .target import CpuTarget
from .vector_math import undeclared_callees

Made = Callable[[Sequence[llvm.FuncOp]], None]


@dataclass(frozen=True)
class KernelToLlvm(ModulePass):
    """Turn scheduled kernels into LLVM functions with explicit vectors, serial or on torch's thread pool.

    `target`: `host` or a name of `CpuTarget.from_name`. `threads`: kernels may run in parallel. `contract`: a product
    and a sum may become one fused multiply-add.
    """

    name = "kernel-to-llvm"

    target: str = "host"
    threads: bool = True
    contract: bool = True
    statistics: dict[str, int] = field(default_factory=dict, init=False, compare=False)
    made: list[Made] = field(default_factory=list[Made], init=False, compare=False)
    """What is to be told of functions that are not changed any more, kernel by kernel: each one's, and those that they
    are the first to call. Where there are functions before, which may be called too, nothing is told.
    """

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        target = CpuTarget.host() if self.target == "host" else CpuTarget.from_name(self.target)
        block = op.body.block
        kernels = [k for k in block.ops if isinstance(k, KernelOp) and not on_gpu(k)]
        before = [f for f in block.ops if isinstance(f, llvm.FuncOp)]
        known = {f.sym_name.data for f in before}
        shared = Shared(set(known))
        launches_of = [o for o in op.walk() if isinstance(o, LaunchOp)]
        inside = {o.callee for o in launches_of if isinstance(o.parent_op(), TogetherOp)}
        alone = {o.callee for o in launches_of if not isinstance(o.parent_op(), TogetherOp)}
        for kernel in kernels:
            name = kernel.sym_name.data
            forms = {"alone": name in alone or name not in inside, "together": name in inside}
            with code_of(kernel):
                functions = kernel_functions(kernel, target, self.threads, self.contract, shared, **forms)
            functions = [*shared.taken(), *functions]
            block.insert_ops_before(functions, kernel)
            block.add_ops(declared := undeclared_callees(functions, known))
            kernel.detach()
            kernel.erase()
            for tell in self.made if not before else ():
                tell([*declared, *functions])
        if kernels:
            block.add_ops(undeclared_callees(before, known))
        self.statistics["kernels"] = len(kernels)
