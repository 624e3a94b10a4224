"""Progress reporting: the event type, the listener interface, and who shows it.

Work reports events to a listener. `shown` puts one into effect that draws a bar on a terminal, writes a line every
30 seconds elsewhere, or does nothing when quiet; `task` and `track` report to it from anywhere below.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, NamedTuple, TypeVar

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress as Bars
    from rich.progress import TaskID

T = TypeVar("T")
Clock = Callable[[], float]

LINE_SECONDS = 30.0
"""Seconds between two lines in a log file."""
PATIENCE = 2.0
"""Seconds before the bar of a single task appears: short work shows nothing."""
BYTES = "bytes"


class Event(NamedTuple):
    """Progress event: work that is done, work that is to come, and what is under way."""

    title: str
    done: int = 0
    """Units of work done since the last event."""
    total: int = 0
    """Units of work that are to come in addition."""
    unit: str = "images"


Listener = Callable[[Event], None]
Progress = Callable[[int], None]
"""Counts the work of one task: called with the number of units done since the last call."""

_in_effect: list[Listener] = []
"""Listeners that work reports to, the latest last."""


def silent(event: Event) -> None:
    """Listener that ignores all events."""


def current() -> Listener:
    """Return the listener in effect; one that ignores all events where there is none."""
    return _in_effect[-1] if _in_effect else silent


@contextmanager
def listening(listener: Listener) -> Iterator[Listener]:
    """Report to this listener while the block lasts."""
    _in_effect.append(listener)
    try:
        yield listener
    finally:
        _in_effect.remove(listener)


@contextmanager
def shown(quiet: bool = False, patience: float = 0) -> Iterator[Listener]:
    """Show progress and messages on stderr while the block lasts; where something listens already, report to that.

    quiet: show messages only. patience: seconds before a bar appears.
    """
    if _in_effect:
        yield current()
        return
    from rich.console import Console

    console = Console(stderr=True)
    messages, logger = _Messages(console), logging.getLogger("farout")
    logger.addHandler(messages)
    try:
        with _display(console, quiet, patience) as listener, listening(listener):
            yield listener
    finally:
        logger.removeHandler(messages)


@contextmanager
def task(title: str, total: int, unit: str = "images", listener: Listener | None = None) -> Iterator[Progress]:
    """Report one piece of work, to the listener in effect if none is given; show it where there is none.

    total: 0 where it is not known. Yields the function that counts what is done.
    """
    with nullcontext(listener) if listener else shown(patience=PATIENCE) as told:
        told(Event(title, total=total, unit=unit))
        yield lambda done: told(Event(title, done, unit=unit))


def track(items: Iterable[T], total: int | None, title: str, unit: str) -> Iterator[T]:
    """Yield the items, and report each one that was worked on."""
    with task(title, total or 0, unit) as count:
        for item in items:
            yield item
            count(1)


class Bar:
    """Listener that draws progress bars on a terminal: one per unit, with the work under way in front."""

    def __init__(self, bars: Bars, patience: float = 0, clock: Clock = time.monotonic) -> None:
        self._rows: dict[str, TaskID] = {}
        self._bars, self._totals = bars, dict[str, int]()
        self._clock, self._due = clock, clock() + patience
        if not patience:
            self(Event("getting ready"))

    def __call__(self, event: Event) -> None:
        """Update the bar of the event's unit."""
        if event.unit not in self._rows:
            self._rows[event.unit] = self._bars.add_task(event.title, total=None)
        self._totals[event.unit] = self._totals.get(event.unit, 0) + event.total
        total = self._totals[event.unit] or None
        self._bars.update(self._rows[event.unit], advance=event.done, total=total, description=event.title)
        if self._clock() >= self._due and not self._bars.live.is_started:
            self._start()

    def _start(self) -> None:
        from rich.errors import LiveError

        try:
            self._bars.start()
        except LiveError:  # the user's own bar is up already
            self._bars.disable, self._due = True, float("inf")

    def close(self) -> None:
        """Remove the bars."""
        if self._bars.live.is_started:  # else rich writes an empty line
            self._bars.stop()


class Lines:
    """Listener that sums up what it heard in a line for a log file: done, total, time left and the work under way."""

    def __init__(self, clock: Clock = time.monotonic) -> None:
        self._clock, self._began = clock, clock()
        self._done, self._total, self._latest = dict[str, int](), dict[str, int](), Event("getting ready")

    def __call__(self, event: Event) -> None:
        """Count what the event reports."""
        self._done[event.unit] = self._done.get(event.unit, 0) + event.done
        self._total[event.unit] = self._total.get(event.unit, 0) + event.total
        self._latest = event

    def line(self) -> str:
        """Return the line as of now."""
        title, unit, seconds = self._latest.title, self._latest.unit, self._clock() - self._began
        done, total = self._done.get(unit, 0), self._total.get(unit, 0)
        left = f", about {_clock(seconds * (total - done) / done)} left" if 0 < done < total else ""
        return f"{done:,} of {f'{total:,}' if total else '?'} {unit} after {_clock(seconds)}{left}: {title}"


def _clock(seconds: float) -> str:
    minutes, seconds = divmod(round(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02}:{seconds:02}"


class _Messages(logging.Handler):
    """Prints log messages above the bar."""

    def __init__(self, console: Console) -> None:
        super().__init__(logging.WARNING)
        self._console = console

    def emit(self, record: logging.LogRecord) -> None:
        _say(self._console, f"note: {record.getMessage()}")


def _say(console: Console, text: str) -> None:
    console.print(text, markup=False, highlight=False, soft_wrap=True)


@contextmanager
def _display(console: Console, quiet: bool, patience: float) -> Iterator[Listener]:
    if quiet:
        yield silent
    elif console.is_terminal or console.is_jupyter:
        bar = Bar(_bars(console), patience)
        try:
            yield bar
        finally:
            bar.close()
    else:
        lines, over = Lines(), threading.Event()
        repeat = threading.Thread(target=_repeat, args=(lambda: _say(console, lines.line()), over.wait), daemon=True)
        repeat.start()
        try:
            yield lines
        finally:
            over.set()
            repeat.join()


def _repeat(act: Callable[[], None], wait: Callable[[float], bool]) -> None:
    """Act every `LINE_SECONDS`, also while one piece of work takes longer, until `wait` says that it is over."""
    while not wait(LINE_SECONDS):
        act()


def _bars(console: Console) -> Bars:
    from rich import progress as rich

    columns = (rich.TextColumn("{task.description}", markup=False), rich.BarColumn(), rich.TaskProgressColumn())
    left = (rich.TimeElapsedColumn(), rich.TextColumn("·"), rich.TimeRemainingColumn(), rich.TextColumn("left"))
    return rich.Progress(*columns, *left, console=console, transient=True)
