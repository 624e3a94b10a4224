"""Order and colors of names, the same in the whole page."""

from __future__ import annotations

import colorsys
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

SETS = (
    "#3b7dd8", "#e08a00", "#1f9d73", "#cc5fa0", "#d9480f", "#3fb0d3", "#8a63d2", "#8f9a12", "#c2353f", "#0f8b8d",
    "#a8673a", "#6a7fdb",
)  # fmt: skip
"""Colors of image sets, shifts and methods; readable on white and on black."""
INLIERS = "#8a8f98"
GOLDEN = 0.618034
"""Step on the color circle that keeps neighbors apart."""


@dataclass
class Palette:
    """Colors by name; detectors are given first, best first, and other names get theirs when they first appear."""

    detectors: Sequence[str] = ()
    known: dict[str, str] = field(default_factory=dict)

    def detector(self, name: str) -> str:
        """Return the color of the detector that a name begins with; gray for other names."""
        place = self.rank(name)
        return INLIERS if place is None else _hue(place)

    def rank(self, name: str) -> int | None:
        """Return the place of the detector that a name is, or begins with; None if there is none."""
        found = [one for one in self.detectors if name == one or re.match(rf"{re.escape(one)}( on |, | · )", name)]
        return self.detectors.index(max(found, key=len)) if found else None

    def ordered(self, names: Iterable[str]) -> list[str]:
        """Return names of detectors best first; other names after them, as they come."""
        every = list(names)
        return [every[place] for place in self.places(every)]

    def places(self, names: Sequence[str]) -> list[int]:
        """Return the indices that order the names."""
        ranks = [len(self.detectors) if (rank := self.rank(name)) is None else rank for name in names]
        return sorted(range(len(names)), key=ranks.__getitem__)

    def colors(self, names: Iterable[str]) -> dict[str, str]:
        """Return a color for each name: the one it has elsewhere, unless two of these names would share it."""
        chosen: dict[str, str] = {}
        for name in dict.fromkeys(names):
            color = self.known.setdefault(name, SETS[len(self.known) % len(SETS)])
            free = [one for one in SETS if one not in chosen.values()]
            chosen[name] = color if color in free or not free else free[0]
        return chosen


def _hue(place: int) -> str:
    """Return a color of middle lightness, so that it is visible on white and on black."""
    red, green, blue = colorsys.hls_to_rgb((0.58 + GOLDEN * place) % 1, 0.42 + 0.1 * (place % 2), 0.62)
    return f"#{round(255 * red):02x}{round(255 * green):02x}{round(255 * blue):02x}"
