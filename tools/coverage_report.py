"""What `lamella.tools.coverage` writes of its outcomes: tables in Markdown, for the places of docs/coverage.md."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from textwrap import wrap

from .op_check import STATUSES, Outcome

DTYPES = (
    *("float32", "bfloat16", "float16", "float64", "int64", "int32", "int16", "int8", "uint8", "bool", "complex64"),
    *("complex128", "complex32", "uint16", "uint32", "uint64"),
    *("float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz"),
)
"""Each that an entry of the database supports on a CPU."""

ALL = (
    *((dtype, "forward") for dtype in DTYPES),
    ("float32", "fused"),
    *((dtype, "inplace") for dtype in ("float32", "bfloat16", "int64", "complex64")),
    *((dtype, "gradient") for dtype in ("float32", "bfloat16", "complex64")),
    *((dtype, "dynamic") for dtype in ("float32", "bfloat16", "int64")),
)
"""The columns of docs/coverage.md, dtype and mode."""

WITHOUT_FAULT = ("native", "calls", "eager", "torch", "refused")
"""Statuses that are no fault of the compiler."""

TEMPLATE = """# torch's operators through Lamella

<!-- table: run -->
<!-- end -->

- **native**: kernels only. **calls**: right, with calls into ATen among the kernels or instead of them.
- **eager**: right, but the frontend gave the graph back to torch.
- **torch**: torch's own capture fails, or the graph that it makes differs from eager when torch runs it.
- **refused**: eager takes no sample.
- **wrong**: another result than eager's. **error**: our exception, a crash or a hang.

## By dtype and mode

<!-- table: dtype and mode -->
<!-- end -->

## By class of operator

<!-- table: operators -->
<!-- end -->

## Wrong results and errors

<!-- table: faults -->
<!-- end -->

## Run eagerly, or torch's own faults

<!-- table: others -->
<!-- end -->

## Each operator

<!-- table: each operator -->
<!-- end -->
"""
"""The document where there is none: places, and what its words mean."""


def kinds() -> dict[str, str]:
    """The class of each operator of the database, in its order."""
    from .op_check import name_of, operators
    from .op_classes import class_of

    return {name_of(op): class_of(op, name_of(op)) for op in operators()}


def parts(outcomes: Iterable[Outcome], samples: int) -> dict[str, str]:
    """The text of each place."""
    from .op_classes import CLASSES

    kind = defaultdict(lambda: "other", kinds())  # another release's database may have more
    order = {name: i for i, name in enumerate(kind)}
    found = sorted(outcomes, key=lambda o: order.get(o.operator, len(order)))
    columns = list(dict.fromkeys(o.column for o in sorted(found, key=_place)))
    return {
        "run": _run(found, samples, kind),
        "dtype and mode": _totals("dtype and mode", [(c, [o for o in found if o.column == c]) for c in columns], True),
        "operators": _totals("operators", [(k, [o for o in found if kind[o.operator] == k]) for k in CLASSES], False),
        "faults": reasons([o for o in found if o.status not in WITHOUT_FAULT]),
        "others": reasons([o for o in found if o.status in ("eager", "torch", "refused")]),
        "each operator": _operators(found, columns),
    }


def _run(found: Sequence[Outcome], samples: int, kind: Mapping[str, str]) -> str:
    places = {"cpu": "CPU", "cuda": "GPU", "interpreted": "GPU, interpreted"}
    devices = ", ".join(places[device] for device in dict.fromkeys(o.device for o in found))
    versions = " and ".join(sorted({o.torch for o in found}))
    counts = Counter(o.status for o in found)
    totals = ", ".join(f"{counts[s]:,} {s}" for s in STATUSES)
    ran = [o for o in found if o.status in ("native", "calls") and kind[o.operator] != "other"]
    native = sum(o.status == "native" for o in ran)
    share = f" ({native / len(ran):.1%})" if ran else ""
    return (
        f"torch {versions}, {devices}: {len(found):,} outcomes, {samples} samples of an entry and one that is not "
        f"contiguous: {totals}. Of pointwise, reduction, view, indexing and scan operators, {native:,} of "
        f"{len(ran):,} outcomes{share} are native."
    )


def _place(outcome: Outcome) -> int:
    """Of its column in the table."""
    key = (outcome.dtype, outcome.mode)
    return ALL.index(key) if key in ALL else len(ALL)


def _totals(first: str, groups: Sequence[tuple[str, list[Outcome]]], with_core: bool) -> str:
    """A line for each group; with how many of ATen's core operators are no call in any of its outcomes."""
    from .op_classes import core_operators

    core = core_operators()
    header = [first, "total", *STATUSES, *["core ATen without a call"] * with_core]
    lines = [f"| {' | '.join(header)} |", "|---" * len(header) + "|"]
    for name, outcomes in groups:
        counts = Counter(o.status for o in outcomes)
        cells = [name, len(outcomes), *(counts[s] for s in STATUSES)]
        if with_core:
            left = core & {c for o in outcomes for c in o.calls}
            cells.append(f"{len(core) - len(left)} of {len(core)}")
        lines.append(f"| {' | '.join(map(str, cells))} |")
    return "\n".join(lines)


def readable(reason: str) -> str:
    """One short line of it: no sample, no addresses, no printed tensors."""
    text = " ".join(reason.split())
    text = re.sub(r" for \[.*", "", text)
    text = re.sub(r"^\w+: (\w+: )", r"\1", text)  # an exception around an exception
    text = re.sub(r"FakeTensor\(.*", "a fake tensor", text)
    text = text.removesuffix(".").replace("`", "'")
    return text if len(text) <= 120 else f"{text[:119].rstrip()}…"


def reasons(outcomes: Sequence[Outcome]) -> str:
    """A line for each status and reason, with the operators that have it and where; `_operators` names all columns."""
    groups: dict[tuple[str, str], dict[str, list[str]]] = {}
    for o in outcomes:
        groups.setdefault((o.status, readable(o.reason)), {}).setdefault(o.operator, []).append(o.column)
    lines: list[str] = []
    for (status, reason), found in sorted(groups.items(), key=lambda item: STATUSES.index(item[0][0])):
        by_columns: dict[str, list[str]] = {}
        for operator, columns in found.items():
            rest = f" and {len(columns) - 4} more" if len(columns) > 5 else ""
            by_columns.setdefault(f"{', '.join(columns[: 4 if rest else 5])}{rest}", []).append(operator)
        told = "; ".join(f"{', '.join(names)} ({columns})" for columns, names in by_columns.items())
        lines.append(f"- {status}, `{reason}`: {told}")
    return "\n".join(lines) or "None."


def _operators(found: Sequence[Outcome], columns: Sequence[str]) -> str:
    """Names of what is native wherever eager takes it, and a line for each other operator."""
    rows: dict[str, dict[str, Outcome]] = {}
    for o in found:
        rows.setdefault(o.operator, {})[o.column] = o
    native = [name for name, row in rows.items() if {o.status for o in row.values()} <= {"native", "refused"}]
    names = ", ".join(sorted(native, key=str.lower))
    text = f"Native in all columns that eager takes, {len(native)} of {len(rows)}: {names}."
    lines = [*wrap(text, 120, break_on_hyphens=False), ""]
    if rest := [name for name in rows if name not in native]:
        lines += ["| operator | native | with calls | other | calls into ATen |", "|---" * 5 + "|"]
    for name in rest:
        of: dict[str, list[str]] = {}
        for c in columns:
            if c in rows[name]:
                of.setdefault(rows[name][c].status, []).append(c)
        calls = ", ".join(dict.fromkeys(c for o in rows[name].values() for c in o.calls))
        where = {s: "all" if len(of[s]) == len(rows[name]) else ", ".join(of[s]) for s in of}
        others = "; ".join(f"{s}: {where[s]}" for s in of if s not in ("native", "calls"))
        native_in = f"{len(of.get('native', []))} of {len(rows[name])}"
        lines.append(f"| {name} | {native_in} | {where.get('calls', '')} | {others} | {calls} |")
    return "\n".join(lines).rstrip("\n")
