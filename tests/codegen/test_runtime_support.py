"""The support functions are loaded while a backend is at work; what fails there is reported by whoever needs them."""

from __future__ import annotations

import threading
from functools import cache
from typing import Any

import pytest

from lamella.codegen import runtime_support
from lamella.codegen.errors import CodegenError


def test_the_functions_are_there_afterwards(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []

    @cache
    def load() -> Any:
        calls.append("load")

    monkeypatch.setattr(runtime_support, "_load_support", load)
    for _ in range(2):
        with runtime_support.loading_support():
            pass
    assert calls == ["load"]


def test_what_fails_is_tried_again_where_it_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []

    @cache
    def load() -> Any:
        calls.append("load")
        raise CodegenError("no such place")

    monkeypatch.setattr(runtime_support, "_load_support", load)
    with runtime_support.loading_support():
        pass
    with pytest.raises(CodegenError, match="no such place"):
        runtime_support.load_support()
    assert calls == ["load", "load"]


def test_a_bug_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[type[BaseException]] = []

    @cache
    def load() -> Any:
        raise ZeroDivisionError

    monkeypatch.setattr(runtime_support, "_load_support", load)
    monkeypatch.setattr(threading, "excepthook", lambda args: shown.append(args.exc_type))  # pyright: ignore
    with runtime_support.loading_support():
        pass
    assert shown == [ZeroDivisionError]
