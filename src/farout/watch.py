"""A progress bar for runs, on stderr, with the time left."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.errors import LiveError
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn


class Bar:
    """Counts images; what is being done stands in front."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._task = progress.add_task("getting ready", total=None)

    def total(self, images: int) -> None:
        """So many images more will be swept."""
        before = self._progress.tasks[0].total or 0
        self._progress.update(self._task, total=before + images)

    def advance(self, images: int, title: str) -> None:
        """So many are done."""
        self._progress.update(self._task, advance=images, description=title)


@contextmanager
def watching() -> Iterator[Bar]:
    """A bar while this lasts; nothing where nobody would see it move."""
    console = Console(stderr=True)
    hidden = not (console.is_terminal or console.is_jupyter)
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), TaskProgressColumn(), TimeElapsedColumn())
    left = (TextColumn("·"), TimeRemainingColumn(), TextColumn("left"))
    progress = Progress(*columns, *left, console=console, transient=True, disable=hidden)
    try:
        progress.start()
    except LiveError:  # another bar is up already, and tells enough
        progress = Progress(disable=True)
    try:
        yield Bar(progress)
    finally:
        progress.stop()
