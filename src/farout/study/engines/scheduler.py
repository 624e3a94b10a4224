"""Scheduler: selects the next tasks, stores finished chunks, and handles failures."""

from __future__ import annotations

import itertools
import time
from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence

import torch

from farout.interrupts import requested
from farout.progress import Event, Listener
from farout.study import packing
from farout.study.cells.cell import Arrays, Cell, Work, closure
from farout.study.cells.errors import error_line, format_traceback
from farout.study.engines.executor import Executor, Task
from farout.study.engines.performer import provenance
from farout.study.store import Store

WAIT_SECONDS = 0.5
"""Largest number of seconds that an executor may block while this process has nothing to compute."""
FLUSH_BYTES = 1 << 26
"""Bytes of finished chunks above which they are written at once."""
FLUSH_SECONDS = 5.0
"""Largest number of seconds between two writes of finished chunks to disk."""


class _Active:
    """Work in progress: the chunks that are not submitted yet, not computed yet, or not on disk yet."""

    def __init__(self, work: Work, store: Store, executor: Executor) -> None:
        self.work, self.store, self.executor = work, store, executor
        self.chunks = {} if executor.whole else {str(chunk): chunk for chunk in work.chunks}
        self.todo = deque(self.chunks)
        self.missing = set(self.chunks)
        self.unsaved: dict[str, Arrays] = {}
        self.size = 0
        """Bytes of the results that are not on disk yet."""
        self.finishing = False
        self.saved_at = self.started_at = time.monotonic()

    def resume(self, device: torch.device) -> int:
        """Skip the chunks that an earlier run has stored; return the number of their images."""
        if not self.chunks or not self.store.has_parts(self.work.id):
            return 0
        job, images = self.work.prepare(self.store, device), 0
        for name, results in self.store.parts(self.work.id):
            if name in self.missing and job.complete(self.chunks[name], results):
                self.missing.remove(name)
                images += self.work.cost(self.chunks[name])
        self.todo = deque(name for name in self.chunks if name in self.missing)
        return images

    def take(self, name: str, results: Arrays) -> None:
        """Accept the results of a finished chunk."""
        self.missing.discard(name)
        self.unsaved[name] = results
        self.size += sum(array.nbytes for array in results.values())
        late, large = time.monotonic() - self.saved_at > FLUSH_SECONDS, self.size > FLUSH_BYTES
        if late or large or not self.missing:
            self.flush(durable=late or large)  # else it holds seconds of work, and is collected at once

    def flush(self, *, durable: bool = True) -> None:
        """Write finished chunks to disk."""
        if self.unsaved:
            self.store.put_part(self.work.id, self.unsaved, durable=durable)
        self.unsaved, self.size, self.saved_at = {}, 0, time.monotonic()


class Scheduler:
    """Scheduler of one run: submits tasks to executors, and is the listener to which they report."""

    def __init__(
        self, works: Sequence[Work], store: Store, device: torch.device, progress: Listener, present: set[str]
    ) -> None:
        self.waiting, self.active, self.present = list(works), dict[str, _Active](), present
        self.store, self.device, self.progress = store, device, progress
        self.done: list[str] = []
        self.failures: dict[str, str] = {}
        """Reason by cell: the line of the traceback that names the error."""
        self.blamed: dict[str, str] = {}
        """Detectors that have ended a process or exceeded the time limit, with the reason."""
        self.tasks: dict[int, tuple[_Active, str]] = {}
        """Submitted tasks by number: the work, and the name of the chunk (empty: write its records)."""
        self.task_images: Counter[int] = Counter()
        """Images of each task that have been reported as progress."""
        self.work_images: Counter[str] = Counter()
        """Images of each work that have been reported as progress."""
        self.numbers = itertools.count()
        self.executors: tuple[Executor, ...] = ()
        self.elsewhere: set[str] = set()
        """Cells that an executor of whole works is computing."""
        self.packing = False
        """True if records are packed during the run."""
        self._unpacked = 0
        progress(Event("starting", total=sum(work.total_cost for work in works)))

    def run(self, inline: Executor, engine: Executor) -> None:
        """Keep the executors busy until all work is finished; store finished chunks also if an error ends the run.

        inline: computes work that cannot leave this process; engine: computes all other work.
        """
        self.executors, stopped = (inline, engine), True
        try:
            while self._submit_tasks(inline, engine):
                for executor in dict.fromkeys((engine, inline)):
                    if self._count_tasks(executor):
                        busy = executor is not inline and self._count_tasks(inline)
                        executor.wait(0.0 if busy else WAIT_SECONDS)
            stopped = False
        finally:
            try:
                for executor in dict.fromkeys(self.executors):
                    executor.close(stopped)
            finally:
                for active in self.active.values():
                    active.flush()

    def _count_tasks(self, executor: Executor) -> int:
        return sum(active.executor is executor for active, _ in self.tasks.values())

    def _executor(self, work: Work) -> Executor:
        """Return the executor of a work that is ready."""
        inline, engine = self.executors
        ahead = any(required.id in self.elsewhere for required in work.requires)
        return engine if work.portable and (ahead or not work.stays(self.store)) else inline

    def _submit_tasks(self, inline: Executor, engine: Executor) -> bool:
        """Submit tasks up to the slots of the executors; return True if any task is unfinished."""
        room = {executor: executor.slots - self._count_tasks(executor) for executor in (inline, engine)}
        for executor, task in self._tasks(room):
            executor.submit(task)
            room[executor] -= 1
        if not self.tasks and self.waiting:
            raise RuntimeError(f"{self.waiting[0].cells[0].title} requires a result that is gone; run again")
        return bool(self.tasks)

    def _tasks(self, room: Mapping[Executor, int]) -> Iterator[tuple[Executor, Task]]:
        """Yield tasks while there is room: first of work in progress, then of work whose required cells are present."""
        for active in list(self.active.values()):
            yield from self._tasks_of(active, room)
        while any(room.values()) and (work := self._next(room)) is not None:
            self.waiting = [other for other in self.waiting if other is not work]
            for active in self._start(work):
                yield from self._tasks_of(active, room)

    def _next(self, room: Mapping[Executor, int]) -> Work | None:
        """Return the first work that can begin now."""
        ready = (work for work in self.waiting if self._is_ready(work))
        return next((work for work in ready if self._requires_failed(work) or room[self._executor(work)]), None)

    def _requires_failed(self, work: Work) -> bool:
        """Return True if the work requires a failed cell, so that it cannot be computed."""
        return any(required.id in self.failures for required in work.requires)

    def _tasks_of(self, active: _Active, room: Mapping[Executor, int]) -> Iterator[tuple[Executor, Task]]:
        executor = active.executor
        while active.todo and room[executor]:
            name = active.todo.popleft()
            yield executor, Task(self._number(active, name), active.work, active.chunks[name])
        if not active.missing and not active.finishing and room[executor]:
            active.finishing = True
            seconds = time.monotonic() - active.started_at
            yield executor, Task(self._number(active, ""), active.work, None, seconds)

    def _number(self, active: _Active, name: str) -> int:
        number = next(self.numbers)
        self.tasks[number] = active, name
        return number

    def _is_ready(self, work: Work) -> bool:
        """Return True if no required cell is pending: each is present or has failed.

        An executor of whole works also takes a work whose required cells it is computing already.
        """
        pending = {cell.id for cell in work.requires} - self.present - self.failures.keys()
        return not pending or (work.portable and pending <= self.elsewhere)

    def _start(self, work: Work) -> Iterator[_Active]:
        """Begin a work, without the cells that cannot be computed."""
        impossible = {cell.id: reason for cell in work.cells if (reason := self._obstacle(cell))}
        if impossible:
            for cell in work.cells:
                if cell.id in impossible:
                    self._record_failure(cell, impossible[cell.id])
            self._restart(work, [cell for cell in work.cells if cell.id not in impossible])
            return
        try:
            active = _Active(work, self.store, self._executor(work))
            self._advance(work, active.resume(self.device))
        except BaseException as error:
            if requested(error):
                raise
            self._fail(work, format_traceback())
            return
        self.active[work.id] = active
        if active.executor.whole:
            self.elsewhere |= {cell.id for cell in work.cells}
        yield active

    def _obstacle(self, cell: Cell) -> str | None:
        """Return why a cell cannot be computed: a required cell has failed, or its detector is blamed; else None."""
        for required in reversed(closure(cell.requires)):  # the nearest first
            if required.id in self.failures:
                return f"{required.title} failed: {self.failures[required.id].removeprefix(f'{cell.suspect}: ')}"
        return self.blamed.get(cell.suspect)

    def _restart(self, work: Work, rest: list[Cell]) -> None:
        """Queue the work again with only these cells, and reset its progress."""
        remaining = [rest[0].work(rest)] if rest else []
        self.waiting[:0] = remaining
        cost = sum(other.total_cost for other in remaining)
        images = work.total_cost - cost - self.work_images.pop(work.id, 0)
        self.progress(Event(work.cells[0].title, images, work=work.id))

    def _advance(self, work: Work, images: int) -> None:
        self.work_images[work.id] += images
        self.progress(Event(work.cells[0].title, images, work=work.id))

    # Callbacks of executors

    def _task(self, number: int) -> tuple[_Active, str] | None:
        """Remove a task from the list and return it; None if its work has failed in the meantime."""
        active, name = self.tasks.pop(number)
        self.task_images.pop(number, None)
        return (active, name) if self.active.get(active.work.id) is active else None

    def progressed(self, number: int, images: int) -> None:
        active, _ = self.tasks[number]
        if self.active.get(active.work.id) is active:
            self.task_images[number] += images
            self._advance(active.work, images)

    def computed(self, number: int, results: Arrays) -> None:
        reported = self.task_images[number]
        if task := self._task(number):
            active, name = task
            self._advance(active.work, active.work.cost(active.chunks[name]) - reported)
            active.take(name, results)

    def finished(self, number: int, failed: Mapping[str, str]) -> None:
        if task := self._task(number):
            active, _ = task
            for cell in active.work.cells:
                if cell.id in failed:
                    self._record_failure(cell, failed[cell.id])
                else:
                    self.present.add(cell.id)
                    self.done.append(cell.id)
            if rest := active.work.total_cost - self.work_images[active.work.id]:  # it was computed elsewhere
                self._advance(active.work, rest)
            self._remove(active)
            self.store.forget(active.work.id)
            self._pack(len(active.work.cells))

    def _pack(self, written: int) -> None:
        """Count the records that have been written; pack them when there are enough."""
        self._unpacked += written
        if self.packing and self._unpacked >= packing.RECORDS:
            self._unpacked = 0
            self.store.pack()

    def failed(self, number: int, traceback: str) -> None:
        if task := self._task(number):
            self._fail(task[0].work, traceback)

    def died(self, number: int, reason: str, cell: str) -> None:
        if task := self._task(number):
            active, name = task
            message = f"{reason} ({active.work.cells[0].title}{', ' if name else ''}{name})"
            culprits = [one for one in active.work.cells if one.id == cell] or list(active.work.cells)
            for culprit in culprits:
                if culprit.suspect and len(culprits) == 1:
                    self.blamed[culprit.suspect] = message
            self._fail_cells(active, culprits, message)
            for other in list(self.active.values()):
                if blamed := [one for one in other.work.cells if one.suspect in self.blamed]:
                    self._fail_cells(other, blamed, self.blamed[blamed[0].suspect])

    def skipped(self, number: int) -> None:
        self._task(number)

    def returned(self, number: int) -> None:
        if task := self._task(number):
            self._remove(task[0])
            self._restart(task[0].work, list(task[0].work.cells))

    def noted(self, state: str) -> None:
        self.progress(Event(state))

    def slow(self, number: int, seconds: float, cell: str) -> None:
        active, _ = self.tasks[number]
        current = next((one for one in active.work.cells if one.id == cell), active.work.cells[0])
        self.progress(Event(f"{current.title}: {current.suspect or 'one chunk'} has taken {seconds:.0f} s so far"))

    # Failures

    def _fail_cells(self, active: _Active, cells: Sequence[Cell], traceback: str) -> None:
        """Record that these cells of a work have failed; restart the others from the finished chunks."""
        failed = {cell.id for cell in cells}
        self._withdraw(active)
        for cell in cells:
            self._record_failure(cell, traceback)
        written = {cell.id for cell in active.work.cells if active.finishing and self.store.has(cell.id)}
        if written:
            self.store.sync()  # the process that wrote them may have died before it did
        self.present |= written
        self.done += sorted(written - failed)
        self._restart(active.work, [cell for cell in active.work.cells if cell.id not in failed | written])

    def _fail(self, work: Work, traceback: str) -> None:
        """Record that all cells of a work have failed; keep its finished chunks for the next run, cancel the others."""
        active = self.active.get(work.id)
        if active is not None:
            self._withdraw(active)
        for cell in work.cells:
            self._record_failure(cell, traceback)
        self._restart(work, [])

    def _withdraw(self, active: _Active) -> None:
        """Write the finished chunks of a work, remove it from the active ones, and cancel its tasks."""
        active.flush()
        self._remove(active)
        active.executor.cancel({number for number, (of, _) in self.tasks.items() if of is active})

    def _remove(self, active: _Active) -> None:
        """Remove a work from the active ones."""
        del self.active[active.work.id]
        self.elsewhere -= {cell.id for cell in active.work.cells}

    def _record_failure(self, cell: Cell, traceback: str) -> None:
        error = error_line(traceback)
        self.failures[cell.id] = reason = f"{cell.suspect}: {error}" if cell.suspect else error
        self.store.fail(cell.id, {**provenance(cell), "traceback": traceback, "reason": reason})
