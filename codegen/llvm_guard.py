"""What in LLVM text would end the process inside LLVM, found before LLVM sees it.

LLVM's verifier is not enough: instruction selection aborts on intrinsics of another machine, on scalable vectors, and
on other things that our own lowering never writes. What is not known to be safe is refused by name.
"""

import re

from .errors import CodegenError
from .target import CpuTarget

_FORBIDDEN = (
    *(r"\basm\ +(?:sideeffect|alignstack|inteldialect|unwind|\")", r"\bgc\ +\"", r"\bva_arg\ ", r"\bvscale\ +x\b"),
    *(r"\bx86_fp80\b", r"\"target-features\"=\"[^\"]*-[^\"]*\"", r"\bdatalayout\ += ", r"\btriple\ += ", "\0"),
)
# Whether a word is there at all is fifty times as fast to find out as where.
_WORDS = ("asm ", "gc ", "va_arg", "vscale", "x86_fp80", "target-features", "datalayout", "triple", "\0")
_INTRINSIC = re.compile(r"@llvm\.([a-z0-9_.]+)")

_SAFE = re.compile(
    "("
    + "|".join(
        (
            *("fma", "fmuladd", "fabs", "sqrt", "floor", "ceil", "trunc", "rint", "nearbyint", "round", "roundeven"),
            *("copysign", "minnum", "maxnum", "minimum", "maximum", "minimumnum", "maximumnum", "ldexp", "frexp"),
            *("exp", "exp2", "exp10", "log", "log2", "log10", "pow", "powi", "sin", "cos", "tan", "asin", "acos"),
            *("atan", "atan2", "sinh", "cosh", "tanh", "is[.]fpclass", "canonicalize", "fptosi[.]sat", "fptoui[.]sat"),
            *("abs", "smin", "smax", "umin", "umax", "ctpop", "ctlz", "cttz", "bswap", "bitreverse", "fshl", "fshr"),
            *("[su](?:add|sub|shl)[.]sat", "[su](?:add|sub|mul)[.]with[.]overflow", "lrint", "llrint", "lround"),
            *("masked", "vector[.]reduce", "vector[.]insert", "vector[.]extract", "prefetch", "assume", "expect"),
            *("memcpy", "memmove", "memset", "lifetime", "stacksave", "stackrestore", "readcyclecounter", "trap"),
            *("donothing", "get[.]active[.]lane[.]mask", "invariant", "experimental[.]noalias[.]scope[.]decl"),
        )
    )
    + ")([.]|$)"
)

# Prefix of `llvm.x86.`, and the flag of the target that has it.
_X86 = (
    *(("avx512bf16", "has_avx512_bf16"), ("avx512.permvar.qi", "has_avx512_vbmi")),
    *(("avx512.vpdp", "has_avx512_vnni"), ("avx512", "has_avx512")),
    *(("tile", "has_amx"), ("tdp", "has_amx"), ("sse", "has_pairs")),
)


def check_text(text: str, target: CpuTarget) -> None:
    """Raises CodegenError for text that LLVM would not survive on `target`."""
    for word, pattern in zip(_WORDS, _FORBIDDEN, strict=True):
        if word in text and (found := re.search(pattern, text)) is not None:
            line = text.count("\n", 0, found.start()) + 1
            raise CodegenError(f"line {line}: {found[0].strip()!r} is not supported in LLVM text here")
    for name in dict.fromkeys(_INTRINSIC.findall(text)):
        if not name.startswith("x86."):
            if not _SAFE.match(name):
                raise CodegenError(f"the intrinsic llvm.{name} is not supported")
        elif not target.triple.startswith("x86_64"):
            raise CodegenError(f"the intrinsic llvm.{name} in code for {target.triple}")
        else:
            flag = next((flag for prefix, flag in _X86 if name.startswith(f"x86.{prefix}")), "has_fma")
            if not getattr(target, flag):
                raise CodegenError(f"the intrinsic llvm.{name} in code for the target {target.name}, which lacks it")
