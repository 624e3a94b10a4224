"""The node's side: computes the works of one array task, and reports its progress in a file."""

from __future__ import annotations

import itertools
import logging
import os
import signal
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from farout import interrupts
from farout.files import lock, make_folder, remove_tree
from farout.interrupts import Stop
from farout.progress import Event, Listener
from farout.study.cells.cell import Cell, Work
from farout.study.engines import activity
from farout.study.engines.run import Outcome, Settings, compute_works, group_works
from farout.study.engines.slurm.arrays import ArrayFolder, Piece, Pieces, Progress
from farout.study.store import Store

REPORT_SECONDS = 5.0
"""Seconds between two writes of the progress of a task."""
LOCK_SECONDS = 5.0
"""Seconds between two attempts to take the lock of a task."""
TIME_UP = 128 + signal.SIGUSR1
"""Exit code of a command that Slurm has asked to stop."""
log = logging.getLogger("farout")


class TimeUp(Stop):
    """The time limit of a task is near, and Slurm has asked it to stop."""

    def __init__(self, progressed: bool) -> None:
        self.progressed = progressed
        """True if this attempt has gone further than all earlier attempts of the task."""


class Report:
    """Listener that counts the images of every work of a task, and writes them to the progress file."""

    def __init__(self, folder: ArrayFolder, index: int, works: Sequence[Work], listener: Listener) -> None:
        self._folder, self._index, self._listener = folder, index, listener
        self._totals = {work.id: work.total_cost for work in works}
        self._before = folder.progress(index).images
        """Images of earlier attempts."""
        self._there = [piece.work for piece in folder.pieces().tasks[index] if piece.work not in self._totals]
        """Works whose results are all present."""
        self.left: list[str] = []
        self._counts, self._written_at = Counter[str](), time.monotonic()

    def __call__(self, event: Event) -> None:
        """Count an event, and pass it on."""
        self._listener(event)
        self._counts[event.work] += event.done
        if time.monotonic() - self._written_at > REPORT_SECONDS:
            self.write()

    def write(self, ended: bool = False) -> None:
        """Write the progress."""
        images = {
            work: max(self._before.get(work, 0), self._counts[work]) for work in self._before.keys() | self._totals
        }
        over = [work for work, total in self._totals.items() if self._counts[work] >= total]
        progress = Progress(images=images, over=[*self._there, *over], left=self.left, ended=ended)
        self._folder.write_progress(self._index, progress)
        self._written_at = time.monotonic()

    @property
    def progressed(self) -> bool:
        """True if this attempt has gone further than all earlier attempts of the task."""
        return any(self._counts[work] > self._before.get(work, 0) for work in self._totals)


def compute_task(
    folder: ArrayFolder, index: int, pieces: Pieces, cells: Mapping[str, Cell], listener: Listener
) -> Outcome:
    """Compute the missing results of an array task.

    cells: all cells of the study, by id. A work is left out if results that it requires are missing. Raise `TimeUp` if
    Slurm asks the task to stop before its time limit.
    """
    store, outcome = Store(folder.root).open(), Outcome()
    with _locked(folder, index):
        works = _missing_works(pieces.tasks[index], cells, store)
        report = Report(folder, index, works, listener)
        present = {cell.id for work in works for cell in work.requires if store.has(cell.id)}
        works = _leave_out(works, present, store, outcome, report)
        try:
            _compute(works, store, present, outcome, pieces, folder.notes(index), report)
        except KeyboardInterrupt:
            report.write()
            if interrupts.exit_code() == TIME_UP:
                raise TimeUp(report.progressed) from None
            raise
        report.write(ended=True)
    return outcome


def _compute(
    works: Sequence[Work],
    store: Store,
    present: set[str],
    outcome: Outcome,
    pieces: Pieces,
    notes: Path,
    report: Report,
) -> None:
    settings = Settings("local", pieces.workers, pieces.device, tuple(pieces.plugins), pieces.timeout)
    remove_tree(notes, store.root)  # of an attempt that was killed
    make_folder(notes, store.root)
    with activity.recording(notes / f"task-{os.getpid()}"):
        compute_works(works, store, present, outcome, settings, notes, report)
    remove_tree(notes, store.root)


@contextmanager
def _locked(folder: ArrayFolder, index: int) -> Iterator[None]:
    """Hold the lock of a task; wait while another process has it, such as one on a node that Slurm has given up."""
    with ExitStack() as stack:
        for attempt in itertools.count():
            try:
                stack.enter_context(lock(folder.lock(index), folder.root))
                break
            except BlockingIOError:
                if not attempt:
                    log.warning("another process still computes this task; waiting for its end")
                time.sleep(LOCK_SECONDS)
        yield


def _missing_works(pieces: Sequence[Piece], cells: Mapping[str, Cell], store: Store) -> list[Work]:
    """Return the works of a task with those of their cells that have no result yet."""
    unknown = [piece.title for piece in pieces for cell in piece.cells if cell not in cells]
    if unknown:
        raise ValueError(
            f"the study, planned on this node, lacks {len(unknown)} results of this task ({unknown[0]}, …): its "
            "images, its code or farout have changed since it was submitted, so cancel the jobs and run the study "
            "again; or a detector has no identity of its own, which every task needs: give it an identity()"
        )
    return group_works([cells[cell] for piece in pieces for cell in piece.cells if not store.has(cell)])


def _leave_out(works: Sequence[Work], present: set[str], store: Store, outcome: Outcome, report: Report) -> list[Work]:
    """Return the works that can be computed.

    Where a required cell has failed, its failure is added to the outcome, so that the work is recorded as failed too.
    Left out is a work that requires a result which is missing for another reason, or a detector whose fitted state
    cannot be stored: the run that submitted the task decides what to do.
    """
    own, possible = {cell.id for work in works for cell in work.cells}, []
    for work in works:
        missing = [cell for cell in work.requires if cell.id not in present | own]
        failures = {cell.id: failure["reason"] for cell in missing if (failure := store.failure(cell.id))}
        if len(failures) == len(missing) and (missing or not work.stays(store)):
            outcome.failed |= failures
            possible.append(work)
        else:
            lost = "; ".join(dict.fromkeys(cell.title for cell in missing)) or "a detector whose state is not stored"
            log.warning(f"not computed: {work.cells[0].title}, since it requires what is missing: {lost}")
            report.left.append(work.id)
            own -= {cell.id for cell in work.cells}
    return possible
