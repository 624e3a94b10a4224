"""Computation of tasks in one process: run chunks, and write the records of finished work.

Both use one thread in every process, since the rounding of sums depends on the number of threads.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from time import monotonic
from typing import Any

import torch

from farout.interrupts import requested
from farout.processes import torch_threads
from farout.study.cells.cell import Arrays, Cell, Chunk, Job, Progress, Record, Work
from farout.study.cells.errors import format_traceback
from farout.study.engines import activity
from farout.study.engines.outdated import INPUTS, inputs
from farout.study.store import Store, StoreError

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EFBIG)
READY = 2
"""Largest number of prepared jobs that a process keeps."""


@contextmanager
def _full_disk() -> Iterator[None]:
    """Turn the error of a full disk into `StoreError`, since it is not the cell's error."""
    try:
        yield
    except OSError as error:
        if error.errno not in FULL:
            raise
        raise StoreError(
            f"{error}; finished results are kept: free some space and run the same command again to resume"
        ) from error


class Performer:
    """Computes chunks and finishes works in this process."""

    def __init__(self, store: Store, device: torch.device) -> None:
        self.store, self.device = store, device
        self._jobs: dict[tuple[str, ...], Job] = {}

    @_full_disk()
    def compute(self, work: Work, chunk: Chunk, progress: Progress) -> Arrays:
        """Compute one chunk. A full disk raises `StoreError`."""

        def report(images: int) -> None:
            activity.touch()
            progress(images)

        with torch_threads(1), activity.computing(*work.cells):
            return self._job(work).run(chunk, report)

    @_full_disk()
    def finish(self, work: Work, seconds: float) -> dict[str, str]:
        """Collect all stored chunks of a work and write its records; return the tracebacks of the cells that failed."""
        began, failed = monotonic(), {}
        cells = {cell.id: cell for cell in work.cells}
        with torch_threads(1), activity.computing(*work.cells):
            job = self._job(work)
            self._collect(work, job)
            for cell, result in job.finish():
                error = self._write(cells[cell], result, seconds + monotonic() - began)
                if error is not None:
                    failed[cell] = error
        self.store.sync()  # once for all records, before anyone is told that they are written
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
        """Pass every stored chunk to the job once; use one in which a cell failed only if there is no complete one.

        The parts are read twice rather than kept: there may be many.
        """
        missing = {str(chunk): chunk for chunk in work.chunks}
        for failed in (False, True):
            for name, results in self.store.parts(work.id) if missing else ():
                if name in missing and (failed or job.complete(missing[name], results)):
                    job.collect(missing.pop(name), results)
        for name in missing:
            raise RuntimeError(f"{work.cells[0].title}: the stored results of chunk {name} are gone; run again")

    def _write(self, cell: Cell, result: Record | str, seconds: float) -> str | None:
        """Write a record; return the traceback if computing or writing it failed."""
        if isinstance(result, str):
            return result
        try:
            facts = {**result.facts, **provenance(cell, seconds), INPUTS: inputs(cell, self.store)}
            self.store.write(cell.id, facts, result.files, durable=False)
        except OSError as error:  # an error of the disk: nothing more can be stored
            raise StoreError(str(error)) from error
        except BaseException as error:  # the user's detector is serialized here, and may raise anything
            if requested(error):
                raise
            return format_traceback()
        return None


def _key(work: Work) -> tuple[str, ...]:
    return (work.id, *(cell.id for cell in work.cells))


def provenance(cell: Cell, seconds: float | None = None) -> dict[str, Any]:
    """Return the provenance facts of a record: identity, title, time, torch version and duration."""
    facts = {"identity": cell.identity, "title": cell.title, "at": datetime.now(UTC).isoformat(timespec="seconds")}
    return {**facts, "torch": torch.__version__, **({} if seconds is None else {"seconds": round(seconds, 3)})}
