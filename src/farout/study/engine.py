"""Runs cells: groups them into work, computes what is missing chunk by chunk, stores whole results."""

from __future__ import annotations

import time
import traceback
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import Any

import torch

from farout.core import as_device
from farout.study.cell import Arrays, Cell, Chunk, Job, Record, Work, reason
from farout.study.store import Store
from farout.study.workers import Pool, worker_pool
from farout.watcher import Silent, Watcher

FLUSH_SECONDS = 5.0
"""Finished chunks are kept on disk at least this often."""
LISTEN_SECONDS = 0.5
"""How often workers are listened to."""


@dataclass
class Outcome:
    """How a run went."""

    reused: int = 0
    done: list[str] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)
    """Why, by cell: the line of the traceback that names the error."""
    damaged: list[str] = field(default_factory=list)
    """Which files of earlier results were damaged, and why; those results are computed anew."""


class WorkerDied(RuntimeError):
    """A worker process ended without an answer."""


def run(
    cells: Sequence[Cell],
    store: Store,
    *,
    workers: int = 0,
    device: str = "cpu",
    plugins: tuple[str, ...] = (),
    watcher: Watcher | None = None,
) -> Outcome:
    """Compute the cells that the store does not hold, and those they require.

    workers: worker processes; with 0, and for work that cannot travel, everything runs in this process.
    A cell that fails is recorded and the rest goes on; a run that is stopped goes on from the chunks it has kept.
    The caller holds the store's lock.
    """
    everything = closure(cells)
    present = {cell.id for cell in everything if store.has(cell.id)}
    outcome = Outcome(reused=len(present), damaged=[w for cell in everything if (w := store.damaged(cell.id))])
    works = grouped([cell for cell in everything if cell.id not in present])
    watcher = watcher or Silent()
    watcher.total(sum(work.total_cost for work in works))
    target = as_device(device)
    use_pool = workers > 0 and any(work.portable for work in works)
    with worker_pool(workers, store, target, plugins) if use_pool else nullcontext() as pool:
        _Run(works, store, target, watcher, outcome, pool, 2 * workers + 2, present).go()
    return outcome


def closure(cells: Sequence[Cell]) -> list[Cell]:
    """The cells and all they require, each once, what is required first."""
    found: dict[str, Cell] = {}

    def visit(cell: Cell) -> None:
        if cell.id not in found:
            for need in cell.requires:
                visit(need)
            found.setdefault(cell.id, cell)

    for cell in cells:
        visit(cell)
    return list(found.values())


def grouped(cells: Sequence[Cell]) -> list[Work]:
    """Cells of one group as one piece of work, in the order given."""
    groups: dict[str, list[Cell]] = {}
    for cell in cells:
        groups.setdefault(cell.group, []).append(cell)
    return [members[0].work(members) for members in groups.values()]


class _Active:
    """Work under way: its job, what is missing, what is not yet on disk."""

    def __init__(self, work: Work, store: Store, device: torch.device) -> None:
        self.work, self.store = work, store
        self.job: Job = work.prepare(store, device)
        self.missing = {str(chunk): chunk for chunk in work.chunks}
        self.unsaved: dict[str, Arrays] = {}
        self.saved_at = self.started_at = time.monotonic()

    def resume(self) -> int:
        """Take in the chunks an earlier run has kept; how many images they are."""
        images = 0
        for name, results in self.store.parts(self.work.id):
            chunk = self.missing.get(name)
            if chunk is not None and self.job.complete(chunk, results):
                del self.missing[name]
                self.job.collect(chunk, results)
                images += self.work.cost(chunk)
        return images

    def take(self, name: str, results: Arrays) -> None:
        """Take in a finished chunk."""
        self.job.collect(self.missing.pop(name), results)
        if results:
            self.unsaved[name] = results
        if time.monotonic() - self.saved_at > FLUSH_SECONDS:
            self.flush()

    def flush(self) -> None:
        """Put finished chunks on disk."""
        if self.unsaved:
            self.store.put_part(self.work.id, self.unsaved)
        self.unsaved, self.saved_at = {}, time.monotonic()


class _Run:
    """One run of the engine."""

    def __init__(
        self,
        works: list[Work],
        store: Store,
        device: torch.device,
        watcher: Watcher,
        outcome: Outcome,
        pool: Pool | None,
        window: int,
        present: set[str],
    ) -> None:
        self.waiting, self.active, self.present = list(works), dict[str, _Active](), present
        self.store, self.device, self.watcher, self.outcome = store, device, watcher, outcome
        self.pool, self.window = pool, window
        self.pending: dict[Future[Arrays], tuple[_Active, str]] = {}
        self.told: dict[tuple[str, str], int] = {}
        """Per chunk at a worker, how many of its images the watcher has heard of."""
        self.swept: Counter[str] = Counter()
        """The same per work."""

    def go(self) -> None:
        """Keep the window full of chunks until all work is finished; whatever happens, keep what is done."""
        with ExitStack() as stack:
            stack.callback(self._flush)
            for active, name in self._chunks():
                if not (self.pool and active.work.portable):
                    self._here(active, name)
                else:
                    self.pending[self.pool.submit(active.work, active.missing[name])] = active, name
                    self.told[active.work.id, name] = 0
                while len(self.pending) >= self.window:
                    self._await()
            while self.pending:
                self._await()

    def _flush(self) -> None:
        for active in self.active.values():
            active.flush()

    def _chunks(self) -> Iterator[tuple[_Active, str]]:
        """The missing chunks of all work, each work as soon as what it requires is there."""
        while self.waiting:
            work = next((w for w in self.waiting if self._settled(w)), None)
            if work is None:
                if not self.pending:
                    raise RuntimeError(f"{self.waiting[0].cells[0].title} waits for a result that is gone; run again")
                self._await()
                continue
            self.waiting.remove(work)
            active = self._start(work)
            if active is not None:
                yield from ((active, name) for name in list(active.missing) if work.id in self.active)

    def _settled(self, work: Work) -> bool:
        return all(need.id in self.present or need.id in self.outcome.failed for need in work.requires)

    def _start(self, work: Work) -> _Active | None:
        broken = [need for need in work.requires if need.id in self.outcome.failed]
        if broken:
            self._drop(work, broken)
            return None
        try:
            active = self.active[work.id] = _Active(work, self.store, self.device)
        except Exception:
            self._fail(work, traceback.format_exc())
            return None
        self._advance(work, active.resume())
        if not active.missing:
            self._finish(active)
        return active

    def _drop(self, work: Work, broken: list[Cell]) -> None:
        """Fail the cells whose own requirements failed; the others of the group go on."""
        lost = {need.id: need for need in broken}
        hit = [cell for cell in work.cells if any(need.id in lost for need in cell.requires)]
        for cell in hit:
            need = next(need for need in cell.requires if need.id in lost)
            self._record_failure(cell, f"{need.title} failed: {self.outcome.failed[need.id]}")
        rest = [cell for cell in work.cells if cell.id not in {other.id for other in hit}]
        left = [rest[0].work(rest)] if rest else []
        self.waiting[:0] = left
        self.watcher.advance(work.total_cost - sum(other.total_cost for other in left), work.cells[0].title)

    def _advance(self, work: Work, images: int) -> None:
        """Tell the watcher."""
        self.swept[work.id] += images
        self.watcher.advance(images, work.cells[0].title)

    def _here(self, active: _Active, name: str) -> None:
        """Compute a chunk in this process."""
        try:
            results = active.job.run(active.missing[name], partial(self._advance, active.work))
        except Exception:
            self._fail(active.work, traceback.format_exc())
            return
        self._take(active, name, results)

    def _await(self) -> None:
        """Take in the chunks that workers have finished."""
        ready: set[Future[Arrays]] = set()
        while not ready:
            ready, _ = wait(self.pending, LISTEN_SECONDS, FIRST_COMPLETED)
            self._listen()
        for future in ready:
            active, name = self.pending.pop(future)
            if active.work.id not in self.active:
                continue
            try:
                results = future.result()
            except BrokenProcessPool as error:
                raise WorkerDied(
                    "a worker process died, most often for want of memory: use fewer workers. What was finished is "
                    "kept; the same command goes on from there"
                ) from error
            except Exception:
                self._fail(active.work, traceback.format_exc())
                continue
            chunk: Chunk = active.missing[name]
            rest = active.work.cost(chunk) - self.told.pop((active.work.id, name))
            self._advance(active.work, rest)
            self._take(active, name, results)

    def _listen(self) -> None:
        """Pass on what workers say of the chunks they are at; what comes after its chunk was taken in is old news."""
        assert self.pool is not None
        for work, chunk, images in self.pool.told():
            if (work, chunk) in self.told and work in self.active:
                self.told[work, chunk] += images
                self._advance(self.active[work].work, images)

    def _take(self, active: _Active, name: str, results: Arrays) -> None:
        active.take(name, results)
        if not active.missing:
            self._finish(active)

    def _finish(self, active: _Active) -> None:
        """Store the records of finished work, one cell at a time."""
        cells = {cell.id: cell for cell in active.work.cells}
        for cell, result in active.job.finish():
            if isinstance(result, Record):
                result = self._write(cells[cell], result, time.monotonic() - active.started_at)
            if isinstance(result, str):
                self._record_failure(cells[cell], result)
        del self.active[active.work.id]
        self.store.forget(active.work.id)

    def _write(self, cell: Cell, record: Record, seconds: float) -> Record | str:
        """Store a record; a traceback where it cannot be written for a reason of its own."""
        try:
            self.store.write(cell.id, {**record.facts, **_provenance(cell, seconds)}, record.files)
        except OSError:  # the disk, not the record: nothing more can be stored
            raise
        except Exception:
            return traceback.format_exc()
        self.present.add(cell.id)
        self.outcome.done.append(cell.id)
        return record

    def _fail(self, work: Work, why: str) -> None:
        """All of the work failed; its finished chunks are kept for the next try, those not yet begun are left."""
        active = self.active.pop(work.id, None)
        if active is not None:
            active.flush()
        for future, (of, _) in self.pending.items():
            if of is active:
                future.cancel()
        self._advance(work, work.total_cost - self.swept[work.id])
        for cell in work.cells:
            self._record_failure(cell, why)

    def _record_failure(self, cell: Cell, why: str) -> None:
        self.outcome.failed[cell.id] = reason(why)
        self.store.fail(cell.id, {**_provenance(cell), "traceback": why})


def _provenance(cell: Cell, seconds: float | None = None) -> dict[str, Any]:
    """What the record says of its making; none of it is part of the result's identity."""
    made = {"identity": cell.identity, "title": cell.title, "at": datetime.now(UTC).isoformat(timespec="seconds")}
    return {**made, "torch": torch.__version__, **({} if seconds is None else {"seconds": round(seconds, 3)})}
