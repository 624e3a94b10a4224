"""A submitted task, and the reasons why one is lost."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from farout.study.cells.cell import Work
from farout.study.engines import activity
from farout.study.engines.ray.node import Beat, Order

TRIES = 3
"""Times that a task is submitted if its node or its process is lost."""
LOST = {
    "WorkerCrashedError": "its process died, or its node was lost",
    "NodeDiedError": "its node was lost",
    "OutOfMemoryError": "its node ran out of memory: reserve more per task with --memory",
    "ObjectLostError": "its result was lost with its node",
    "OwnerDiedError": "its result was lost with its process",
    "ObjectFetchTimedOutError": "its result could not be fetched from its node",
    "ObjectReconstructionFailedError": "its result was lost with its node",
    "RaySystemError": "Ray could not run it",
    "RpcError": "its node could not be reached",
}
"""Errors of Ray after which a task is submitted again, with their meaning."""


@dataclass
class Running:
    """Submitted task of the run."""

    order: Order
    work: Work
    packed: Any
    """Reference to the pickled work."""
    limited: bool
    """True if the time limit applies."""
    generator: Any = None
    """Ray's reference to the messages of the running task."""
    tries: int = 0
    beat: Beat = field(default_factory=Beat)
    """Last report of the task; without a host: it has not begun."""
    heard_at: float = 0.0
    images: int = 0
    """Images of this try that have been reported as progress."""
    canceled: bool = False

    def heard(self, beat: Beat) -> None:
        """Accept a report."""
        self.beat, self.heard_at = beat, time.monotonic()
        self.images += beat.images

    @property
    def seconds(self) -> float:
        """Seconds since its current cell began or made progress; 0 if it has not begun."""
        return self.beat.seconds + time.monotonic() - self.heard_at if self.beat.host else 0.0

    @property
    def title(self) -> str:
        """Name of the task in messages."""
        chunk = f", {self.order.chunk}" if self.order.chunk else ""
        return f"{self.work.cells[0].title}{chunk}"

    def take_cell(self) -> str:
        """Return the cell that it was computing when it ended, and remove its activity file."""
        note = activity.read(Path(self.order.note))
        self.forget_note()
        return (note.cell if note else "") or self.beat.cell

    def forget_note(self) -> None:
        """Remove the activity file."""
        Path(self.order.note).unlink(missing_ok=True)


def loss(error: BaseException) -> str | None:
    """Return why a task is lost; None if the error is another one."""
    names = [cls.__name__ for cls in type(error).__mro__]
    if "RayTaskError" in names:
        return None
    return next((LOST[name] for name in names if name in LOST), None)
