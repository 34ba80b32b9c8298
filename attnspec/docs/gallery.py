"""The table of all pictures."""

from __future__ import annotations

from collections.abc import Iterable

from attnspec.docs import (
    attention_pictures,
    memory_pictures,
    position_pictures,
    rope_pictures,
)
from attnspec.docs.picture import Drawing, Picture

DRAWINGS: tuple[Drawing, ...] = (
    *attention_pictures.DRAWINGS,
    *rope_pictures.DRAWINGS,
    *position_pictures.DRAWINGS,
    *memory_pictures.DRAWINGS,
)


def drawings_of(pages: Iterable[str]) -> dict[str, list[Drawing]]:
    """The drawings of each page, for the pages that there are."""
    found: dict[str, list[Drawing]] = {name: [] for name in pages}
    for drawing in DRAWINGS:
        place = next((name for name in drawing.components if name in found), None)
        if place is not None:
            found[place].append(drawing)
    return found


def pictures(drawings: Iterable[Drawing]) -> list[Picture]:
    """What the drawings show."""
    return [drawing.made() for drawing in drawings]
