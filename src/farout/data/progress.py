"""Progress bars on stderr that appear only when there is something to wait for."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from typing import TypeVar

from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)

T = TypeVar("T")

PATIENCE = 2.0
"""Seconds of work before a bar appears."""


def track(items: Iterable[T], total: int | None, what: str) -> Iterator[T]:
    """The items, with a bar and the time left once `PATIENCE` has run out."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    bar = Progress(*columns, TimeRemainingColumn(), console=Console(stderr=True), transient=True)
    task, start = bar.add_task(what, total=total), time.monotonic()
    try:
        for done, item in enumerate(items, 1):
            yield item
            if not bar.live.is_started and time.monotonic() - start > PATIENCE:
                bar.start()
            bar.update(task, completed=done)
    finally:
        _stop(bar)


class DownloadBar:
    """A rich bar in the form `pooch.HTTPDownloader` takes: `total`, `update`, `reset`, `close`."""

    def __init__(self, what: str) -> None:
        columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
        self._bar = Progress(*columns, TimeRemainingColumn(), console=Console(stderr=True))
        self._task = self._bar.add_task(what, total=None)

    @property
    def total(self) -> int:
        """Bytes to come."""
        return int(self._bar.tasks[0].total or 0)

    @total.setter
    def total(self, size: int) -> None:
        self._bar.update(self._task, total=size or None)
        self._bar.start()

    def update(self, size: int) -> None:
        """`size` more bytes have come."""
        self._bar.advance(self._task, size)

    def reset(self) -> None:
        """Back to none."""
        self._bar.reset(self._task)

    def close(self) -> None:
        """End the bar; a second time, or without a start, nothing happens."""
        _stop(self._bar)


def _stop(bar: Progress) -> None:
    if bar.live.is_started:  # else rich writes an empty line
        bar.stop()
