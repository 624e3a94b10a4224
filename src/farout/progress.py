"""Progress reporting: the event type, the listener interface, and the display.

Work reports events to a listener. `shown` installs one that draws a bar on a terminal, writes a line every 30 seconds
elsewhere, or does nothing if quiet; `task` and `track` report to the installed listener from any depth of calls.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from importlib.util import find_spec
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
"""Seconds before the bar of a single task appears, so that short work shows nothing."""
BYTES = "bytes"


class Event(NamedTuple):
    """Progress event: units of work done and added, and the title of the current work."""

    title: str
    done: int = 0
    """Units of work done since the last event."""
    total: int = 0
    """Units of work added to the total."""
    unit: str = "images"
    work: str = ""
    """Id of the work that the units belong to; empty if unknown."""


Listener = Callable[[Event], None]
Progress = Callable[[int], None]
"""Function that counts the work of one task: called with the number of units done since the last call."""

_listeners: list[Listener] = []
"""Stack of installed listeners; events go to the last one."""


def silent(event: Event) -> None:
    """Listener that ignores all events."""


def current() -> Listener:
    """Return the installed listener; `silent` if there is none."""
    return _listeners[-1] if _listeners else silent


@contextmanager
def listening(listener: Listener) -> Iterator[Listener]:
    """Install a listener for the duration of the block."""
    _listeners.append(listener)
    try:
        yield listener
    finally:
        _listeners.remove(listener)


@contextmanager
def shown(quiet: bool = False, patience: float = 0) -> Iterator[Listener]:
    """Show progress and messages on stderr during the block; if a listener is installed already, use that one.

    quiet: show messages only. patience: seconds before a bar appears.
    """
    if _listeners:
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
    """Report one task to `listener`, by default the installed one, or show it if none is installed.

    total: 0 if unknown. Yields the function that counts the units done.
    """
    with nullcontext(listener) if listener else shown(patience=PATIENCE) as report:
        report(Event(title, total=total, unit=unit))
        yield lambda done: report(Event(title, done, unit=unit))


def track(items: Iterable[T], total: int | None, title: str, unit: str) -> Iterator[T]:
    """Yield the items, and report each as done when the next one is requested."""
    with task(title, total or 0, unit) as count:
        for item in items:
            yield item
            count(1)


class Bar:
    """Listener that draws progress bars on a terminal: one per unit, with the title of the current work."""

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
        except LiveError:  # a live display of the user's is active
            self._bars.disable, self._due = True, float("inf")

    def close(self) -> None:
        """Remove the bars."""
        if self._bars.live.is_started:  # else rich writes an empty line
            self._bars.stop()


class Lines:
    """Listener that summarizes events in a line for a log file: done, total, time left and the current work."""

    def __init__(self, clock: Clock = time.monotonic) -> None:
        self._clock, self._began = clock, clock()
        self._done, self._total, self._latest = dict[str, int](), dict[str, int](), Event("getting ready")

    def __call__(self, event: Event) -> None:
        """Count the units of the event."""
        self._done[event.unit] = self._done.get(event.unit, 0) + event.done
        self._total[event.unit] = self._total.get(event.unit, 0) + event.total
        self._latest = event

    def line(self) -> str:
        """Return the current line."""
        title, unit, seconds = self._latest.title, self._latest.unit, self._clock() - self._began
        done, total = self._done.get(unit, 0), self._total.get(unit, 0)
        left = f", about {_format_time(seconds * (total - done) / done)} left" if 0 < done < total else ""
        return f"{done:,} of {f'{total:,}' if total else '?'} {unit} after {_format_time(seconds)}{left}: {title}"


def _format_time(seconds: float) -> str:
    minutes, seconds = divmod(round(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02}:{seconds:02}"


class _Messages(logging.Handler):
    """Log handler that prints messages above the bar."""

    def __init__(self, console: Console) -> None:
        super().__init__(logging.WARNING)
        self._console = console

    def emit(self, record: logging.LogRecord) -> None:
        _print(self._console, f"note: {record.getMessage()}")


def _print(console: Console, text: str) -> None:
    console.print(text, markup=False, highlight=False, soft_wrap=True)


def _has_bars(console: Console) -> bool:
    """Return True on a terminal, and in a notebook with ipywidgets; without them rich warns in every cell."""
    return console.is_terminal or (console.is_jupyter and find_spec("ipywidgets") is not None)


@contextmanager
def _display(console: Console, quiet: bool, patience: float) -> Iterator[Listener]:
    if quiet:
        yield silent
    elif _has_bars(console):
        bar = Bar(_bars(console), patience)
        try:
            yield bar
        finally:
            bar.close()
    else:
        lines, over = Lines(), threading.Event()
        repeat = threading.Thread(target=_repeat, args=(lambda: _print(console, lines.line()), over.wait), daemon=True)
        repeat.start()
        try:
            yield lines
        finally:
            over.set()
            repeat.join()


def _repeat(act: Callable[[], None], wait: Callable[[float], bool]) -> None:
    """Call `act` every `LINE_SECONDS`, independent of events, until `wait` returns True."""
    while not wait(LINE_SECONDS):
        act()


def _bars(console: Console) -> Bars:
    from rich import progress as rich

    columns = (rich.TextColumn("{task.description}", markup=False), rich.BarColumn(), rich.TaskProgressColumn())
    left = (rich.TimeElapsedColumn(), rich.TextColumn("·"), rich.TimeRemainingColumn(), rich.TextColumn("left"))
    return rich.Progress(*columns, *left, console=console, transient=True)
