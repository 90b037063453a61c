"""How a random program is called: once more with other dtypes or layouts, in another grad mode, or from threads at
once.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, TypeVar

import torch

T = TypeVar("T")
WAYS = ("", "wide", "turned", "inference", "derivatives", "threads")
"""As it is; with dtypes of more bits; with dims in another order in memory; in inference mode; with derivatives; from
several threads at once.
"""
THREADS = 3

_WIDER = {
    torch.float16: torch.float32,
    torch.bfloat16: torch.float32,
    torch.float32: torch.float64,
    torch.uint8: torch.int16,
    torch.int8: torch.int32,
    torch.int16: torch.int32,
    torch.int32: torch.int64,
    torch.complex64: torch.complex128,
}


def wider(dtype: torch.dtype) -> torch.dtype:
    return _WIDER.get(dtype, dtype)


def turned(tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """With dims in another order in memory; as they are, where some share it or lie as no copy would."""
    memories = [t.untyped_storage().data_ptr() for t in tensors if t.numel()]
    if len({*memories}) < len(memories):
        return list(tensors)
    return [t if 0 in t.stride() else t.mT.contiguous().mT if t.dim() > 1 else t for t in tensors]


def mode_of(way: str) -> AbstractContextManager[Any]:
    """Where a call without derivatives is made."""
    return torch.inference_mode() if way == "inference" else nullcontext()


def at_once(call: Callable[[int], T], count: int = THREADS) -> list[T]:
    """What `call` gives for each number, from threads that begin together; raises what the first of them raised."""
    with _same_settings():
        return _at_once(call, count)


def _same_settings() -> AbstractContextManager[Any]:
    """The settings of TorchDynamo that a call sets and puts back are what they were afterwards: with torch 2.11 they
    are the process's, and calls that end in another order than they begin leave some behind.
    """
    config: Any = torch._dynamo.config
    names = ("automatic_dynamic_shapes", "assume_static_by_default")
    return config.patch(**{name: getattr(config, name) for name in names})


def _at_once(call: Callable[[int], T], count: int) -> list[T]:
    found: dict[int, T] = {}
    raised: list[BaseException] = []
    begin = threading.Barrier(count)

    def work(i: int) -> None:
        begin.wait()
        try:
            found[i] = call(i)
        except BaseException as error:  # told by the thread that waits
            raised.append(error)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(count)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    if raised:
        raise raised[0]
    return [found[i] for i in range(count)]
