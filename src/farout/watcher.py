"""Who is told how long work goes."""

from __future__ import annotations

from typing import Protocol


class Watcher(Protocol):
    """Who is told how a run goes: a progress bar, or nobody."""

    def total(self, images: int) -> None:
        """How many images the run will sweep."""

    def advance(self, images: int, title: str) -> None:
        """So many more are done, in the work of this title."""


class Silent:
    """A watcher that watches nothing."""

    def total(self, images: int) -> None: ...

    def advance(self, images: int, title: str) -> None: ...
