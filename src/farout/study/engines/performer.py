"""Performs tasks in one process: runs chunks, and writes the records of finished work."""

from __future__ import annotations

import errno
from datetime import UTC, datetime
from time import monotonic
from typing import Any

import torch

from farout.interrupts import requested
from farout.processes import torch_threads
from farout.study.cells.cell import Arrays, Cell, Chunk, Job, Progress, Record, Work, formatted
from farout.study.engines import activity
from farout.study.store import Store, StoreError

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EROFS)
READY = 2
"""Jobs that a process keeps ready."""


class Performer:
    """Runs chunks and finishes works in this process."""

    def __init__(self, store: Store, device: torch.device) -> None:
        self.store, self.device = store, device
        self._jobs: dict[tuple[str, ...], Job] = {}

    def compute(self, work: Work, chunk: Chunk, progress: Progress) -> Arrays:
        """Compute one chunk; a full disk is an error of the store, not of the cell."""

        def moved(images: int) -> None:
            activity.touch()
            progress(images)

        try:
            with activity.of(_only(work)):
                return self._job(work).run(chunk, moved)
        except OSError as error:
            if error.errno in FULL:
                raise StoreError(
                    f"{error}; what was finished is kept, and the same command goes on from there"
                ) from error
            raise

    def finish(self, work: Work, seconds: float) -> dict[str, str]:
        """Collect all kept chunks of a work and write its records; return the traceback of each cell that failed.

        On one thread, since sums may depend on how many there are.
        """
        began, failed = monotonic(), {}
        cells = {cell.id: cell for cell in work.cells}
        with torch_threads(1), activity.of(_only(work)):
            job = self._job(work)
            self._collect(work, job)
            for cell, result in job.finish():
                why = self._write(cells[cell], result, seconds + monotonic() - began)
                if why is not None:
                    failed[cell] = why
        self._jobs.pop(_key(work), None)
        return failed

    def _job(self, work: Work) -> Job:
        key = _key(work)
        if key not in self._jobs:
            while len(self._jobs) >= READY:
                del self._jobs[next(iter(self._jobs))]
            self._jobs[key] = work.prepare(self.store, self.device)
        return self._jobs[key]

    def _collect(self, work: Work, job: Job) -> None:
        """Hand every kept chunk to the job, once; one that some cell failed in serves where there is no better."""
        missing, flawed = {str(chunk): chunk for chunk in work.chunks}, dict[str, Arrays]()
        for name, results in self.store.parts(work.id):
            if name not in missing:
                continue
            if job.complete(missing[name], results):
                job.collect(missing.pop(name), results)
            else:
                flawed[name] = results
        for name, chunk in missing.items():
            if name not in flawed:
                raise RuntimeError(f"{work.cells[0].title}: chunk {name} was computed and is gone; run again")
            job.collect(chunk, flawed[name])

    def _write(self, cell: Cell, result: Record | str, seconds: float) -> str | None:
        """Store a record; return the traceback where there is none, or where it cannot be written for a reason of its
        own."""
        if isinstance(result, str):
            return result
        try:
            self.store.write(cell.id, {**result.facts, **provenance(cell, seconds)}, result.files)
        except OSError as error:  # the disk, not the record: nothing more can be stored
            raise StoreError(str(error)) from error
        except BaseException as error:  # what a detector holds is read only now
            if requested(error):
                raise
            return formatted()
        return None


def _key(work: Work) -> tuple[str, ...]:
    return (work.id, *(cell.id for cell in work.cells))


def _only(work: Work) -> Cell | None:
    """The work's only cell; None where it has several."""
    return work.cells[0] if len(work.cells) == 1 else None


def provenance(cell: Cell, seconds: float | None = None) -> dict[str, Any]:
    """Return what a record says of its making; none of it is part of the result's identity."""
    made = {"identity": cell.identity, "title": cell.title, "at": datetime.now(UTC).isoformat(timespec="seconds")}
    return {**made, "torch": torch.__version__, **({} if seconds is None else {"seconds": round(seconds, 3)})}
