"""`lamella`: what it shows, and its answers to wrong command lines."""

from __future__ import annotations

from pathlib import Path

import pytest

from lamella.tools import coverage, fuzz
from lamella.tools.cli import main


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["cache", "nope"], "lamella: error: argument action: invalid choice: 'nope'"),
        (["chache"], "lamella: error: argument command: invalid choice: 'chache'"),
        (["cache", "--now"], "lamella: error: unrecognized arguments: --now"),
    ],
)
def test_errors(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 1
    out, err = capsys.readouterr()
    assert err.startswith(message) and not out and len(err.splitlines()) == 1


def test_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Shown, checked, cleared; a size that is none is an error."""
    from lamella.codegen.cache import default_cache

    monkeypatch.setenv("LAMELLA_CACHE_DIR", str(tmp_path))
    default_cache().put("graph", "abcd", b"entry")
    assert main(["cache"]) == 0 and "graph         1 entries" in capsys.readouterr().out
    (entry,) = (p for p in tmp_path.rglob("*") if p.is_file())
    entry.write_bytes(b"damaged")
    assert main(["cache", "verify"]) == 1 and f"damaged, removed: {entry}" in capsys.readouterr().out
    assert main(["cache", "clear"]) == 0 and "removed 0 entries" in capsys.readouterr().out
    monkeypatch.setenv("LAMELLA_CACHE_SIZE", "much")
    assert main(["cache"]) == 1 and "LAMELLA_CACHE_SIZE is 'much'" in capsys.readouterr().err


@pytest.mark.parametrize("action", ["show", "verify", "clear"])
def test_a_cache_that_is_no_folder(
    action: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("LAMELLA_CACHE_DIR", str(tmp_path / "file"))
    assert main(["cache", action]) == 1
    out, err = capsys.readouterr()
    said = "Not a directory; LAMELLA_CACHE_DIR says which folder it is"
    assert not out and err == f"lamella: error: the cache in {tmp_path / 'file'}: {said}\n"


@pytest.mark.parametrize("action", ["show", "verify", "clear"])
def test_a_cache_that_is_not_there(
    action: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is said, and no folder is made."""
    monkeypatch.setenv("LAMELLA_CACHE_DIR", str(tmp_path / "none"))
    assert main(["cache", action]) == 0 and not (tmp_path / "none").exists()
    assert capsys.readouterr().out.startswith(f"{tmp_path / 'none'}: no such folder, so there is nothing in it")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--ops", "sinn"], "argument --ops: no operator of this shard matches 'sinn'"),
        (["--ops", "("], "argument --ops: '(' is no regular expression: "),
        (["--dtypes", "float32,f32"], "argument --dtypes: unknown 'f32'; choose from float32, "),
        (["--modes", "backward"], "argument --modes: unknown 'backward'; choose from forward, "),
        (["--shard", "4/4"], "argument --shard: '4/4' is not i/n with i from 0 to n - 1"),
    ],
)
def test_coverage_errors(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        coverage.main(arguments)
    assert message in capsys.readouterr().err


def test_fuzz_errors(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        fuzz.main(["--shard", "1"])
    assert "argument --shard: '1' is not i/n" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "usage: lamella [-h] {opt,run,cache,target}"),
        (["-h"], "usage: lamella [-h] {opt,run,cache,target}"),
        (["cache", "--help"], "usage: lamella cache [-h] [{show,verify,clear}]"),
        (["target", "-h"], "usage: lamella target [-h]"),
        (["opt", "--list-passes"], "aten-to-prims"),
    ],
)
def test_help(arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    """That of the command that is asked about."""
    assert main(arguments) == 0
    out, err = capsys.readouterr()
    assert said in out and not err
