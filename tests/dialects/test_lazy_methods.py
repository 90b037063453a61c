"""Methods of data classes of compilers are written when first called, and are Python's own."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from lamella.dialects import lazy_methods as lazy_methods

pytestmark = pytest.mark.skipif(not hasattr(dataclasses, "_create_fn"), reason="this Python writes methods together")


def _classes(module: str) -> dict[str, Any]:
    """The same classes as a module of that name would define them."""
    found: dict[str, Any] = {}
    for name, given in (("Plain", {}), ("Frozen", {"frozen": True, "order": True})):
        body = {"__module__": module, "__annotations__": {"x": int, "y": int}, "y": 3, "__doc__": "Two numbers."}
        found[name] = dataclasses.dataclass(**given)(type(name, (), body))
    below = {"__module__": module, "__annotations__": {"z": int}, "z": 5}
    found["Below"] = dataclasses.dataclass(frozen=True)(type("Below", (found["Frozen"],), below))
    return found


@pytest.fixture
def lazy(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    module = type(dataclasses)("lamella.some_classes")
    monkeypatch.setitem(__import__("sys").modules, module.__name__, module)
    return _classes(module.__name__)


def test_methods_are_written_when_first_called(lazy: dict[str, Any]) -> None:
    written = lazy["Plain"].__dict__["__init__"].__code__
    first = lazy["Plain"](1)
    assert lazy["Plain"].__dict__["__init__"].__code__ is not written
    assert lazy["Plain"].__dict__["__init__"].__qualname__ == "Plain.__init__"
    assert (first.x, first.y) == (1, 3)
    assert first == lazy["Plain"](1, 3) and first != lazy["Plain"](x=1, y=4)
    first.y = 7  # not frozen
    assert repr(first) == "Plain(x=1, y=7)" and lazy["Plain"].__hash__ is None


def test_they_are_what_python_makes(lazy: dict[str, Any]) -> None:
    eager = _classes(__name__)
    assert eager["Frozen"].__init__.__code__.co_filename == "<string>", "classes of others are left alone"
    for name in ("Frozen", "Below"):
        one, other = lazy[name](1), eager[name](1)
        assert repr(one) == repr(other) and hash(one) == hash(other)
        assert (one == lazy[name](1, 3), one == lazy[name](2), one == 1) == (True, False, False)
        with pytest.raises(dataclasses.FrozenInstanceError, match="cannot assign to field 'x'"):
            one.x = 2
        with pytest.raises(dataclasses.FrozenInstanceError, match="cannot delete field 'y'"):
            del one.y
        with pytest.raises(TypeError, match="missing 1 required positional argument: 'x'"):
            lazy[name]()
        assert dataclasses.replace(one, y=9).y == 9
    assert lazy["Frozen"](1) < lazy["Frozen"](2) and lazy["Below"](1) != lazy["Frozen"](1)


def test_a_method_that_another_class_has_taken_over_works(lazy: dict[str, Any]) -> None:
    class Other:
        __eq__ = lazy["Frozen"].__eq__
        __repr__ = lazy["Frozen"].__repr__
        x, y = 1, 2

    one = Other()
    assert one == one and repr(one).endswith("Other(x=1, y=2)")


@pytest.mark.parametrize(
    ("module", "lazily"),
    [("torch._dynamo.x", True), ("torch._functorch.x", False), ("torch._dynamox", False), ("torch.nn.x", False)],
)
def test_methods_of_torchs_compiler_too(module: str, lazily: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """But not those of classes that a program may use."""
    monkeypatch.setitem(__import__("sys").modules, module, type(dataclasses)(module))
    frozen = _classes(module)["Frozen"]
    assert (frozen.__eq__.__code__.co_filename == lazy_methods.__file__) == lazily
    assert frozen(1) == frozen(1, 3) and frozen(1) != frozen(2)
