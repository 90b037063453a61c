"""The machine that code is generated for; the record lives with the passes, which choose by it too."""

from ..lowering.target import CpuTarget as CpuTarget
from ..lowering.target import cpu_of as cpu_of
