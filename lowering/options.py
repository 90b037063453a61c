"""What a compilation can be asked for."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Options:
    """What a user can ask of a compilation (`options={…}`); every field has an environment variable only where noted.

    `dump` (LAMELLA_DUMP): a folder for one numbered `.mlir` file per stage and `kernels.json`. `numerics`: "fast" keeps
    f32 between fused f16/bf16 operations, "eager" rounds where eager rounds. `random`: "philox" makes random numbers in
    kernels, "eager" has ATen make them, which are eager's own. `target`: "host", or a name that `CpuTarget.from_name`
    or `GpuTarget.from_name` takes. `cache`: use the cache on disk. `verify`: verify the module between passes.
    `threads`: let kernels run on torch's thread pool. `strict` (LAMELLA_STRICT): a bug of this compiler is an error;
    without it and `verify`, the graph that met it runs eagerly, with a warning. `timing` (LAMELLA_TIMING): where the
    time of compiling goes is written to stderr, graph by graph. `activation_memory_budget`: the share,
    between 0 and 1, of the bytes which training would best keep for the backward that it may keep; None is torch's own
    setting of that name. `cuda_graphs`: graphs on a GPU are recorded at their second call and replayed; None records
    graphs whose calls the GPU waits for, where little would be copied. `products`: which matrix products
    become kernels, "auto" those that a measurement or the cost model says, "all" or "none". `autotune`: what can be
    done in several ways is timed on the device when a graph is compiled. `deterministic`: the same bits
    each time and, on a CPU, for any number of threads (products and attention are kernels, calls into ATen that add up
    run with one thread); on a GPU also where kernels update what data says. Operators raise that ATen has no such
    kernel of. None is torch's own setting.
    `tf32`: products of f32 matrices on a GPU, and those of attention that is written out, need not be exacter than with
    tf32; None is torch's own setting, `float32_matmul_precision`.
    `batch_invariant`: a row of a result of elementwise operators, reductions and scans within rows, norms, softmax,
    matrix products, convolutions and attention has the same bits whatever rows are computed beside it, and however
    many. To that end all products are kernels, each element summed in one order, long reductions are not made in parts,
    roundings are eager's, and images are convolved one by one. Attention whose sizes are all symbolic, on a GPU that
    with a gradient, with heads that share keys, or with a mask whose rows do not begin at multiples of eight elements,
    and what else stays a call into ATen are as ATen makes them. On a GPU the rest is so where tensors begin at
    multiples of 16 bytes, as torch's allocator gives them.
    `freezing`: in graphs for inference, what depends on parameters and buffers alone is computed once, batch norms are
    folded into convolutions, and weights are kept in the layout that oneDNN computes in; a parameter that changes is
    noticed at the next call, but where it is written through `Tensor.data`. Such graphs are not recorded; with
    `cuda_graphs=True` none is frozen.
    `traces`: with `cache`, functions for inference that another process has traced are not traced again where guards
    and source say that the trace would come out the same. `profile`: torch.profiler is told of each kernel that is
    launched and each call, by name.
    """

    dump: str | None = None
    numerics: str = "fast"
    random: str = "philox"
    target: str = "host"
    cache: bool = True
    verify: bool = False
    threads: bool = True
    strict: bool = False
    timing: bool = False
    activation_memory_budget: float | None = None
    cuda_graphs: bool | None = None
    products: str = "auto"
    autotune: bool = False
    deterministic: bool | None = None
    tf32: bool | None = None
    freezing: bool = False
    batch_invariant: bool = False
    traces: bool = True
    profile: bool = False

    @property
    def key(self) -> str:
        """What of this changes the code."""
        ways = f"{self.numerics}|{self.random}|{self.products}|{self.autotune}|{self.deterministic is True}"
        return f"{ways}|{self.target}|{self.threads}|{self.batch_invariant}|{self.tf32 is True}|{self.profile}"
