"""What happens around a pass: order, verification, hooks, records, and the file a failing pass leaves."""

from __future__ import annotations

import io
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from xdsl.context import Context
from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.test import TestOp as SomeOp
from xdsl.passes import ModulePass
from xdsl.utils.exceptions import PassFailedException

from lamella.dialects.errors import LamellaError, LamellaVerifyError
from lamella.dialects.text import parse_module
from lamella.lowering.pass_manager import (
    IRPrinter,
    PassError,
    PassManager,
    PassRecord,
    statistics_table,
    timing_table,
)

TEXT = 'func.func @f() {\n  "test.op"() : () -> () loc("m.py":1:2)\n  func.return\n}'


@dataclass(frozen=True)
class AddOp(ModulePass):
    """Put one more op at the top of the module."""

    name = "add-op"
    label: str = "new"
    statistics: dict[str, int] = field(default_factory=dict, init=False, compare=False)

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        op.body.block.add_op(SomeOp(regions=[]))
        self.statistics["ops added"] = 1


@dataclass(frozen=True)
class Idle(ModulePass):
    """Do nothing."""

    name = "idle"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        return


@dataclass(frozen=True)
class Crash(ModulePass):
    """Change the module, then fail."""

    name = "crash"
    how: str = "bug"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        op.body.block.add_op(SomeOp())
        match self.how:
            case "bug":
                raise IndexError("list index\nout of range")
            case "recursion":
                raise RecursionError
            case "failed":
                raise PassFailedException("no such loop")
            case _:
                raise LamellaError("op 'x' has no lowering; add a rule")


@dataclass(frozen=True)
class Break(ModulePass):
    """Leave a function without a terminator."""

    name = "break"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        function = next(o for o in op.walk() if isinstance(o, func.FuncOp))
        last = function.body.block.last_op
        assert last is not None
        last.detach()


def test_runs_in_order_and_records() -> None:
    module = parse_module(TEXT)
    records = PassManager([AddOp(), Idle(), AddOp()], verify=True, count_ops=True).run(module)
    assert [(r.name, r.ops_before, r.ops_after) for r in records] == [
        ("add-op", 4, 5),
        ("idle", 5, 5),
        ("add-op", 5, 6),
    ]
    assert records[0].statistics == {"ops added": 1}
    assert all(r.apply_ms >= 0 and r.verify_ms > 0 for r in records)


def test_counts_nothing_unless_asked() -> None:
    (record,) = PassManager([Idle()]).run(parse_module(TEXT))
    assert (record.ops_before, record.ops_after) == (0, 0)


def test_hooks_see_each_pass_with_its_index() -> None:
    seen: list[str] = []
    manager = PassManager(
        [Idle(), AddOp()],
        before=[lambda i, p, m: seen.append(f"before {i} {p.name} {len(list(m.walk()))}")],
        after=[lambda i, p, m: seen.append(f"after {i} {p.name} {len(list(m.walk()))}")],
    )
    manager.run(parse_module(TEXT))
    assert seen == ["before 0 idle 4", "after 0 idle 4", "before 1 add-op 4", "after 1 add-op 5"]


def test_input_is_verified_first() -> None:
    module = parse_module(TEXT)
    Break().apply(Context(), module)
    with pytest.raises(LamellaVerifyError):
        PassManager([Idle()], verify=True).run(module)
    PassManager([Idle()]).run(module)


@pytest.mark.parametrize(
    ("p", "message"),
    [
        (Crash(), "pass 'crash' raised IndexError: list index"),
        (Crash("recursion"), "pass 'crash' raised RecursionError"),
        (Break(), "pass 'break' left a module that does not verify: 'test.op' op is the last of its block"),
    ],
)
def test_bug_in_a_pass_leaves_a_reproducer(tmp_path: Path, p: ModulePass, message: str) -> None:
    path = tmp_path / "sub" / "crash.mlir"
    module = parse_module(TEXT)
    with pytest.raises(PassError) as caught:
        PassManager([AddOp("two words"), p, AddOp("later")], verify=True, reproducer=path).run(module)
    assert str(caught.value).startswith(message)
    assert "\n" not in str(caught.value)
    assert caught.value.reproducer == path
    run, what, *ir = path.read_text().splitlines()
    options = "{how=recursion}" if p == Crash("recursion") else ""
    assert run == f"// RUN: lamella-opt %s -p '{p.name}{options},add-op{{label=later}}'"
    assert what.startswith("// " + message.removeprefix(f"pass '{p.name}' "))
    kept = parse_module("\n".join(ir))
    assert len(list(kept.walk())) == 5, "the module as it was before the failing pass"
    assert 'loc("m.py":1:2)' in "\n".join(ir)
    assert list(path.parent.iterdir()) == [path]


def test_no_reproducer_unless_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(PassError) as caught:
        PassManager([Crash()]).run(parse_module(TEXT))
    assert caught.value.reproducer is None
    assert list(tmp_path.iterdir()) == []


def test_reproducer_that_cannot_be_written_does_not_hide_the_failure(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(PassError, match="raised IndexError: list index") as caught:
        PassManager([Crash()], reproducer=tmp_path / "file" / "below.mlir").run(parse_module(TEXT))
    assert caught.value.reproducer is None


@pytest.mark.parametrize(
    ("how", "message"),
    [("failed", "pass 'crash' cannot go on: no such loop"), ("user", "op 'x' has no lowering; add a rule")],
)
def test_failure_that_the_user_can_mend_is_no_bug(tmp_path: Path, how: str, message: str) -> None:
    with pytest.raises(LamellaError) as caught:
        PassManager([Crash(how)], reproducer=tmp_path / "r.mlir").run(parse_module(TEXT))
    assert str(caught.value) == message
    assert list(tmp_path.iterdir()) == []


def test_printer_prints_around_the_passes_it_is_told() -> None:
    out = io.StringIO()
    printer = IRPrinter(out, frozenset({"add-op"}))
    PassManager([Idle(), AddOp()], before=[printer.before], after=[printer.after]).run(parse_module(TEXT))
    headers = [line for line in out.getvalue().splitlines() if line.startswith("//")]
    assert headers == ["// -----// IR before add-op //----- //", "// -----// IR after add-op //----- //"]


def test_printer_leaves_out_what_did_not_change() -> None:
    out = io.StringIO()
    printer = IRPrinter(out, changed_only=True)
    PassManager([Idle(), AddOp()], before=[printer.remember], after=[printer.after]).run(parse_module(TEXT))
    assert "// -----// IR after idle: no change //----- //\n// -----// IR after add-op //----- //" in out.getvalue()
    assert out.getvalue().count("builtin.module") == 1


def test_tables() -> None:
    records = [PassRecord("a", 1.25, 0.5, 10, 12, {"loops fused": 3}), PassRecord("b", 2.0, 0.25, 12, 12, {})]
    assert timing_table(records).splitlines() == [
        "pass                       apply ms  verify ms  ops before  ops after",
        "a                              1.25       0.50          10         12",
        "b                              2.00       0.25          12         12",
        "total                          3.25       0.75",
    ]
    assert statistics_table(records) == "a                               3  loops fused"
    assert statistics_table([]) == "no pass reported statistics"
