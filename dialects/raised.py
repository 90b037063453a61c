"""What a failed check of a kernel raises. A message may begin with the name of a type, `RuntimeError: text`."""

from __future__ import annotations

_KINDS = {kind.__name__: kind for kind in (IndexError, RuntimeError, ValueError)}


def raised(message: str) -> tuple[type[Exception], str]:
    """The type and the text of what a message raises: an IndexError where it names none."""
    name, colon, text = message.partition(": ")
    return (_KINDS[name], text) if colon and name in _KINDS else (IndexError, message)


def error(message: str) -> Exception:
    """What a message raises."""
    kind, text = raised(message)
    return kind(text)
