"""`lamella.compile(function, fullgraph=True)` enters compiled code by TorchDynamo's guards alone, and only then."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import nn
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils._python_dispatch import TorchDispatchMode

import lamella


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    torch._dynamo.reset()
    torch.manual_seed(0)
    yield
    torch._dynamo.reset()


def whole(f: Callable[..., Any]) -> Any:
    return lamella.compile(f, fullgraph=True)


def affine(x: torch.Tensor, y: torch.Tensor, *, scale: float = 2.0) -> torch.Tensor:
    return x * scale + y


def test_known_code_is_entered_directly(slow: list[int]) -> None:
    g = whole(affine)
    x, y = torch.randn(3, 4), torch.randn(4)
    for _ in range(5):
        torch.testing.assert_close(g(x, y), affine(x, y))
    assert slow[0] == 1
    for _ in range(3):  # another shape is compiled once, and the first is still known
        torch.testing.assert_close(g(x[:2], y), affine(x[:2], y))
        torch.testing.assert_close(g(x, y), affine(x, y))
    assert slow[0] == 2


def test_arguments_are_bound_as_python_does(slow: list[int]) -> None:
    def f(a: Any, /, b: Any, *rest: Any, k: float = 1.0, **named: Any) -> Any:
        return a + b * k + sum(rest) + named.get("c", 0)

    def h(a: Any, b: float = 2.0, c: float = 3.0) -> Any:
        return a * b - c

    x = torch.randn(3)
    g, e = whole(f), whole(h)
    for _ in range(2):
        calls: list[tuple[Any, dict[str, Any]]] = [((x, x), {}), ((x, x, x, x), {"k": 2.0}), ((x,), {"b": x, "c": 4.0})]
        for args, kwargs in calls:
            torch.testing.assert_close(g(*args, **kwargs), f(*args, **kwargs))
        torch.testing.assert_close([e(x), e(x, 5.0), e(x, c=1.0)], [h(x), h(x, 5.0), h(x, c=1.0)])
    assert slow[0] == 6
    h.__defaults__ = (7.0, 8.0)
    torch.testing.assert_close(e(x), h(x))
    for wrong in ((), (x, x, x, x)):
        with pytest.raises(TypeError, match=r"h\(\)"):
            e(*wrong)
    with pytest.raises(TypeError, match="unexpected keyword"):
        e(x, d=1)


def test_what_the_function_reads(slow: list[int]) -> None:
    class Holder:
        factor = 2.0

    holder, flag, layer = Holder(), True, nn.Dropout(0.5)
    layer.eval()

    def f(x: torch.Tensor) -> torch.Tensor:
        return layer(x * holder.factor) if flag else x

    g, x = whole(f), torch.ones(100)
    torch.testing.assert_close(g(x), x * 2)
    torch.testing.assert_close(g(x), x * 2)
    holder.factor = 3.0
    torch.testing.assert_close(g(x), x * 3)
    layer.train()
    assert (g(x) == 0).any()
    flag = False
    assert torch.equal(g(x), x)
    flag = True
    layer.eval()
    torch.testing.assert_close(g(x), x * 3)
    assert slow[0] == 4


def test_replaced_objects(slow: list[int]) -> None:
    """An object that is gone may have left its address to another."""
    layer = nn.Linear(2, 2)

    def f(x: torch.Tensor) -> torch.Tensor:
        return layer(x)

    g, x = whole(f), torch.randn(3, 2)
    with torch.no_grad():
        for _ in range(4):
            torch.testing.assert_close(g(x), layer(x))
            torch.testing.assert_close(g(x), layer(x))
            layer = nn.Linear(2, 2)
            gc.collect()
        layer.weight = nn.Parameter(torch.zeros(2, 2))
        torch.testing.assert_close(g(x), layer(x))


def test_gradients(slow: list[int]) -> None:
    g = whole(affine)
    x, y = torch.randn(3, 4, requires_grad=True), torch.randn(4)
    for _ in range(3):
        with torch.no_grad():
            assert not g(x, y).requires_grad
        x.grad = None
        g(x, y).sum().backward()
        torch.testing.assert_close(x.grad, torch.full_like(x, 2.0))
        assert not g(x.detach(), y).requires_grad
        with torch.inference_mode():
            assert g(x.detach(), y).is_inference()
    assert slow[0] <= 5


def test_autocast() -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        return x @ x

    g, x = whole(f), torch.randn(4, 4)
    for _ in range(3):
        assert g(x).dtype == torch.float32
        with torch.autocast("cpu", dtype=torch.bfloat16):
            assert g(x).dtype == torch.bfloat16


def test_effects() -> None:
    seen: list[int] = []

    def f(x: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
        seen.append(len(seen))
        out.add_(x)
        return out.view(-1)

    g = whole(f)
    x, out = torch.ones(2, 2), torch.zeros(2, 2)
    for i in range(1, 4):
        version = out._version
        assert g(x, out)._base is out
        assert out._version > version
        torch.testing.assert_close(out, x * i)
    assert seen == [0, 1, 2]


def compiling(x: torch.Tensor) -> torch.Tensor:
    return x + 1 if torch.compiler.is_compiling() else x + 2


class Mode(TorchDispatchMode):
    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*args, **(kwargs or {}))


def test_stances_modes_and_traces(slow: list[int]) -> None:
    g, x = whole(compiling), torch.randn(3)
    for _ in range(2):
        torch.testing.assert_close(g(x), x + 1)
    assert slow[0] == 1
    with torch.compiler.set_stance("force_eager"):
        torch.testing.assert_close(g(x), x + 2)
    torch.testing.assert_close(g(x), x + 1)
    before = slow[0]
    with torch.profiler.profile():
        g(x)
    assert slow[0] == before + 1
    with pytest.raises(RuntimeError, match="symbolically trace"):
        make_fx(lambda x: g(x) * 2)(x)
    with pytest.raises(RuntimeError, match=r"jit\.trace"):
        torch.jit.trace(lambda x: g(x), (x,))
    with Mode():  # torch 2.11 runs what was not compiled, later versions raise
        found = said(g, x)
        assert found == said(torch.compile(compiling, backend="eager", fullgraph=True), x)
        assert found in ((x + 2).tolist(), "torch.compile with fullgraph=True found no compiled ")


def said(function: Callable[..., torch.Tensor], x: torch.Tensor) -> Any:
    try:
        return function(x).tolist()
    except RuntimeError as error:
        return str(error).partition("frames")[0]  # and why, at the first call


def test_inside_another_compiled_function() -> None:
    g, x = whole(affine), torch.randn(3)
    g(x, x)

    def outer(x: torch.Tensor) -> torch.Tensor:
        return g(x, x).relu()

    torch.testing.assert_close(torch.compile(outer, backend="eager", fullgraph=True)(x), affine(x, x).relu())


def test_reset_and_new_code(slow: list[int]) -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        return x + 1

    g, x = whole(f), torch.randn(3)
    for _ in range(2):
        torch.testing.assert_close(g(x), x + 1)
    torch._dynamo.reset()
    torch.testing.assert_close(g(x), x + 1)
    torch.testing.assert_close(g(x), x + 1)
    assert slow[0] == 2
    f.__code__ = (lambda x: x - 1).__code__
    torch.testing.assert_close(g(x), x - 1)


def test_another_backends_code_is_not_taken(slow: list[int]) -> None:
    torch.compile(compiling, backend="eager")(torch.randn(3))
    g, x = whole(compiling), torch.randn(3)
    torch.testing.assert_close(g(x), x + 1)
    assert slow[0] == 1


def test_threads(slow: list[int], traces_at_once: Callable[[], None]) -> None:
    g = whole(affine)
    errors: list[BaseException] = []

    def work(n: int) -> None:
        traces_at_once()
        try:
            for k in range(200):
                x, y = torch.full((n,), float(k)), torch.ones(n)
                assert torch.equal(g(x, y), affine(x, y))
        except BaseException as e:  # a failing thread must fail the test
            errors.append(e)

    threads = [threading.Thread(target=work, args=(2 + i % 2,)) for i in range(6)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not errors, errors


def test_decorator() -> None:
    @lamella.compile(fullgraph=True)
    def f(x: torch.Tensor) -> torch.Tensor:
        """Twice."""
        return x * 2

    assert f.__name__ == "f"
    assert f.__doc__ == "Twice."
    for _ in range(2):
        torch.testing.assert_close(f(torch.ones(3)), torch.full((3,), 2.0))


def test_errors(slow: list[int]) -> None:
    def f(x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
        return x[i]

    g, x = whole(f), torch.arange(4.0)
    for _ in range(2):
        assert g(x, torch.tensor([1])).item() == 1
        with pytest.raises(IndexError):
            g(x, torch.tensor([9]))
