"""Progress of a run in a file of its folder, which other processes and machines can read."""

from __future__ import annotations

import time
from collections import deque
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from farout.files import read_json, write_json
from farout.progress import Clock, Event, Listener

PROGRESS = "progress.json"
"""Name of the file in the folder of activity files."""
WRITE_SECONDS = 3.0
"""Smallest number of seconds between two writes."""
SAMPLES = 100
"""Number of writes that the rate is taken over: about five minutes."""


class Progress(NamedTuple):
    """Content of a progress file."""

    title: str
    """Title of the current work."""
    done: int
    """Images done so far, those of earlier runs included."""
    total: int
    rate: float
    """Images per second over the last minutes; 0 if unknown."""


class Journal:
    """Listener that passes events on, and writes their sums to a file every few seconds."""

    def __init__(self, path: Path, listener: Listener, clock: Clock = time.monotonic) -> None:
        self._path, self._listener, self._clock = path, listener, clock
        self._done = self._total = 0
        self._samples: deque[tuple[float, int]] = deque(maxlen=SAMPLES)

    def __call__(self, event: Event) -> None:
        """Count the images of the event."""
        self._listener(event)
        self._done, self._total = self._done + event.done, self._total + event.total
        now = self._clock()
        if not self._samples or now - self._samples[-1][0] >= WRITE_SECONDS:
            self._samples.append((now, self._done))
            with suppress(OSError):  # for people only: a run does not fail for it
                write_json(
                    self._path, Progress(event.title, self._done, self._total, self._rate())._asdict(), durable=False
                )

    def _rate(self) -> float:
        (began, first), (now, last) = self._samples[0], self._samples[-1]
        return (last - first) / (now - began) if now > began else 0.0

    def close(self) -> None:
        """Remove the file."""
        with suppress(OSError):
            self._path.unlink(missing_ok=True)


def read(path: Path, root: Path) -> Progress | None:
    """Return the progress that a run has written; None if there is no file, or it is not readable."""
    try:
        value: Any = read_json(path, root)
        return Progress(str(value["title"]), int(value["done"]), int(value["total"]), float(value["rate"]))
    except (OSError, ValueError, TypeError, KeyError):
        return None
