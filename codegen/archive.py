"""Several object files as one: the `ar` format that linkers read."""

from collections.abc import Sequence

from .errors import CodegenError

_MAGIC = b"!<arch>\n"
_HEADER = 60


def pack(objects: Sequence[bytes]) -> bytes:
    """One object as it is, several as an archive (without a symbol index: link it with `--whole-archive`)."""
    if len(objects) == 1:
        return objects[0]
    members = [
        f"{f'part{i}.o/':<16}{0:<12}{0:<6}{0:<6}{644:<8}{len(data):<10}`\n".encode() + data + b"\n" * (len(data) % 2)
        for i, data in enumerate(objects)
    ]
    return _MAGIC + b"".join(members)


def unpack(data: bytes) -> list[bytes]:
    """The object files of what `pack` made. Raises CodegenError for a damaged archive."""
    if not data.startswith(_MAGIC):
        return [data]
    objects: list[bytes] = []
    at = len(_MAGIC)
    while at < len(data):
        header = data[at : at + _HEADER]
        if header[58:] != b"`\n" or not header[48:58].strip().isdigit():
            raise CodegenError("damaged archive of object files")
        size = int(header[48:58])
        if at + _HEADER + size > len(data):
            raise CodegenError("damaged archive of object files: cut short")
        objects.append(data[at + _HEADER : at + _HEADER + size])
        at += _HEADER + size + size % 2
    return objects
