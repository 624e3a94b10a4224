"""Progress display: a bar on a terminal, a line now and then elsewhere; messages appear above the bar."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.errors import LiveError
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from farout.watcher import Watcher

LINE_SECONDS = 30.0
"""Seconds between two lines in a log file."""


class Bar:
    """Progress bar that counts images; the work under way stands in front."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._task = progress.add_task("getting ready", total=None)

    def total(self, images: int) -> None:
        """Add to the number of images to come."""
        before = self._progress.tasks[0].total or 0
        self._progress.update(self._task, total=before + images)

    def advance(self, images: int, title: str) -> None:
        """Count images that are done."""
        self._progress.update(self._task, advance=images, description=title)


class Lines:
    """Progress lines for a log file: done, total, time left and the work under way."""

    def __init__(self, console: Console) -> None:
        self._console, self._total, self._done = console, 0, 0
        self._began = self._said = time.monotonic()

    def total(self, images: int) -> None:
        """Add to the number of images to come."""
        self._total += images

    def advance(self, images: int, title: str) -> None:
        """Count images that are done."""
        self._done += images
        now = time.monotonic()
        if now - self._said >= LINE_SECONDS:
            self._said = now
            self._console.print(self._line(now - self._began, title), markup=False, highlight=False, soft_wrap=True)

    def _line(self, seconds: float, title: str) -> str:
        left = seconds * (self._total - self._done) / self._done if self._done > 0 else None
        eta = "" if left is None else f", about {_clock(left)} left"
        return f"{self._done:,} of {self._total:,} images after {_clock(seconds)}{eta}: {title}"


def _clock(seconds: float) -> str:
    minutes, seconds = divmod(round(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02}:{seconds:02}"


class _Messages(logging.Handler):
    """Prints log messages above the bar."""

    def __init__(self, console: Console) -> None:
        super().__init__(logging.WARNING)
        self._console = console

    def emit(self, record: logging.LogRecord) -> None:
        self._console.print(f"note: {record.getMessage()}", markup=False, highlight=False, soft_wrap=True)


@contextmanager
def watching() -> Iterator[Watcher]:
    """Show progress and messages on stderr while this lasts."""
    console = Console(stderr=True)
    messages, logger = _Messages(console), logging.getLogger("farout")
    logger.addHandler(messages)
    try:
        with _display(console) as watcher:
            yield watcher
    finally:
        logger.removeHandler(messages)


@contextmanager
def _display(console: Console) -> Iterator[Watcher]:
    if not (console.is_terminal or console.is_jupyter):
        yield Lines(console)
        return
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), TaskProgressColumn(), TimeElapsedColumn())
    left = (TextColumn("·"), TimeRemainingColumn(), TextColumn("left"))
    progress = Progress(*columns, *left, console=console, transient=True)
    try:
        progress.start()
    except LiveError:  # another bar is up already, and tells enough
        progress = Progress(disable=True)
    try:
        yield Bar(progress)
    finally:
        progress.stop()
