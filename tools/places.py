"""Places of a document that tools fill: from `<!-- table: NAME -->` to `<!-- end -->`. All other text is people's."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

_PLACE = re.compile(r"(<!-- table: (?P<name>[^\n]+?) -->\n)(?P<text>.*?)(<!-- end -->)", re.DOTALL)


def places(document: str) -> dict[str, str]:
    """What stands in each place."""
    return {found["name"]: found["text"] for found in _PLACE.finditer(document)}


def filled(document: str, made: Mapping[str, str]) -> str:
    """The document with what was made in its places; a place of which nothing was made stays as it is."""

    def place(found: re.Match[str]) -> str:
        text = made.get(found["name"])
        return found[0] if text is None else f"{found[1]}{text}\n{found[4]}"

    return _PLACE.sub(place, document)


def write(path: Path, template: str, made: Mapping[str, str]) -> None:
    """Fills the places of the file, or of the template where there is no file, or one that has none of these places."""
    kept = path.read_text(encoding="utf-8") if path.exists() else ""
    path.write_text(filled(kept if places(kept).keys() & made.keys() else template, made), encoding="utf-8")
