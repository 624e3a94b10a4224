"""Status of a run: its stored, running and failed results, while another process or machine writes them.

Everything is found by reading. Records, plans and failures exist whole or not at all; activity files and the progress
file belong to a run that holds the store's lock, and are ignored after it has ended.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from farout.files import check_path, files_in, has_file, holders
from farout.study.engines import activity, journal
from farout.study.engines.journal import PROGRESS, Progress
from farout.study.results import PLAN, Plan, read_plan
from farout.study.store import Store

RUNNING, FINISHED, STOPPED, PLANNING = "running", "finished", "stopped", "planning"
"""States: a process holds the store's lock; all results are there; some are missing and no process computes them; a
process holds the lock and has not written the plan yet."""


class Part(NamedTuple):
    """Numbers of results of one protocol, without those that it only requires."""

    name: str
    total: int
    done: int
    failed: int


class Current(NamedTuple):
    """Result that a process is computing."""

    title: str
    detector: str
    seconds: float | None
    """Seconds since its last progress; None if another machine is computing it."""


class Failed(NamedTuple):
    """Results that failed in their last attempt for one reason."""

    titles: list[str]
    reason: str


class Status(NamedTuple):
    """Status of a run. Every result is counted once, those that others are computed from included."""

    name: str
    budget: str
    state: str
    total: int = 0
    done: int = 0
    failed: int = 0
    """Missing results whose last attempt failed; the run tries them again."""
    parts: Sequence[Part] = ()
    current: Sequence[Current] = ()
    failures: Sequence[Failed] = ()
    progress: Progress | None = None

    @property
    def seconds_left(self) -> float | None:
        """Estimate of the seconds until the end, from the images done in the last minutes; None if unknown."""
        one = self.progress
        return (one.total - one.done) / one.rate if one and one.rate > 0 and one.total >= one.done else None


class StatusReader:
    """Reader of the status of a run; it parses the plan again only when its file has changed."""

    def __init__(self, root: Path, elsewhere: Callable[[], bool] | None = None) -> None:
        """elsewhere: for a copy of a folder, says whether a process computes results for the original."""
        self.store, self._elsewhere = Store(root), elsewhere
        self._plan: tuple[tuple[int, int, int], Plan] | None = None

    def read(self) -> Status:
        """Return the current status. Raise OSError or ValueError if the folder is gone or holds no run."""
        root = self.store.root
        owners = [] if self._elsewhere else holders(root / ".lock")
        running = self._elsewhere() if self._elsewhere else bool(owners)
        if not has_file(root / PLAN):
            if not root.is_dir() or not running:
                raise FileNotFoundError(f"{root} holds no run (no {PLAN}); give the folder that `farout run` wrote")
            return Status(root.name, "", PLANNING)
        plan = self._read_plan(root / PLAN)
        cells = set(dict.fromkeys(cell for row in plan.rows for cell in (*row.requires, row.cell)))
        done = cells & (_names(root / "cells", root) | self.store.packs.cells())  # in the order in which they move
        reasons = dict(self._reasons(cells - done))
        state = RUNNING if running else FINISHED if len(done) == len(cells) else STOPPED
        local = any(owner.dead is not None for owner in owners)
        return Status(
            plan.name, plan.budget, state, len(cells), len(done), len(reasons), _parts(plan, done, reasons.keys()),
            list(_current(root, local)) if owners else [], _failures(plan, reasons),
            journal.read(root / "running" / PROGRESS, root) if running else None,
        )  # fmt: skip

    def _read_plan(self, path: Path) -> Plan:
        status = os.lstat(path)
        signature = status.st_size, status.st_mtime_ns, status.st_ino
        if self._plan is None or self._plan[0] != signature:
            self._plan = signature, read_plan(path)
        return self._plan[1]

    def _reasons(self, missing: Collection[str]) -> Iterator[tuple[str, str]]:
        """Yield the cells that failed in their last attempt, with the reason."""
        for name in _names(self.store.root / "failures", self.store.root):
            cell = name.removesuffix(".json")
            if cell in missing and (failure := self.store.failure(cell)):
                yield cell, failure["reason"]


def _names(folder: Path, root: Path) -> set[str]:
    """Return the names in a folder; records and failures are renamed into it once they are complete."""
    check_path(folder, root)
    try:
        return set(os.listdir(folder))  # noqa: PTH208, many times faster than paths
    except FileNotFoundError:
        return set()


def _parts(plan: Plan, done: Collection[str], failed: Collection[str]) -> list[Part]:
    parts = []
    for protocol in plan.protocols:
        cells = {row.cell for row in plan.rows if row.protocol == protocol.name}
        parts.append(Part(protocol.name, len(cells), len(cells & set(done)), len(cells & set(failed))))
    return parts


def _current(root: Path, local: bool) -> Iterator[Current]:
    """Yield the results that processes are computing; `local`: they share this machine's clock."""
    for path in files_in(root / "running", root):
        note = None if path.name.endswith(PROGRESS) else activity.read(path)
        if note and note.title:
            yield Current(note.title, note.suspect, max(0.0, time.monotonic() - note.since) if local else None)


def _failures(plan: Plan, reasons: dict[str, str]) -> list[Failed]:
    """Return the failed results by reason; one that no row of the plan shows has no title."""
    titles = {row.cell: ": ".join(filter(None, (row.title, row.tags.get("detector", "")))) for row in plan.rows}
    grouped: dict[str, list[str]] = {}
    for cell, reason in sorted(reasons.items()):
        grouped.setdefault(reason, []).extend([titles[cell]] if cell in titles else [])
    return [Failed(found, reason) for reason, found in grouped.items()]
