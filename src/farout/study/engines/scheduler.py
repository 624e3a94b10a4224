"""Scheduler: decides what is computed next, keeps finished chunks, and follows up failures."""

from __future__ import annotations

import itertools
import time
from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence

import torch

from farout.interrupts import requested
from farout.progress import Event, Listener
from farout.study.cells.cell import Arrays, Cell, Work, formatted, reason
from farout.study.engines.executor import Executor, Task
from farout.study.engines.performer import provenance
from farout.study.store import Store

FLUSH_SECONDS = 5.0
"""Finished chunks are kept on disk at least this often."""


class _Active:
    """Work under way: the chunks nobody has been given yet, those that somebody is at, those not yet on disk."""

    def __init__(self, work: Work, store: Store, executor: Executor) -> None:
        self.work, self.store, self.executor = work, store, executor
        self.chunks = {str(chunk): chunk for chunk in work.chunks}
        self.todo = deque(self.chunks)
        self.missing = set(self.chunks)
        self.unsaved: dict[str, Arrays] = {}
        self.finishing = False
        self.saved_at = self.started_at = time.monotonic()

    def resume(self, device: torch.device) -> int:
        """Leave out the chunks that an earlier run has kept; return how many images they are."""
        if not self.store.has_parts(self.work.id):
            return 0
        job, images = self.work.prepare(self.store, device), 0
        for name, results in self.store.parts(self.work.id):
            if name in self.missing and job.complete(self.chunks[name], results):
                self.missing.remove(name)
                images += self.work.cost(self.chunks[name])
        self.todo = deque(name for name in self.chunks if name in self.missing)
        return images

    def take(self, name: str, results: Arrays) -> None:
        """Take in a finished chunk."""
        self.missing.discard(name)
        self.unsaved[name] = results
        if not self.missing or time.monotonic() - self.saved_at > FLUSH_SECONDS:
            self.flush()

    def flush(self) -> None:
        """Put finished chunks on disk."""
        if self.unsaved:
            self.store.put_part(self.work.id, self.unsaved)
        self.unsaved, self.saved_at = {}, time.monotonic()


class Scheduler:
    """One run: hands tasks to executors and listens to what becomes of them."""

    def __init__(
        self, works: Sequence[Work], store: Store, device: torch.device, progress: Listener, present: set[str]
    ) -> None:
        self.waiting, self.active, self.present = list(works), dict[str, _Active](), present
        self.store, self.device, self.progress = store, device, progress
        self.done: list[str] = []
        self.failures: dict[str, str] = {}
        """Why, by cell: the line of the traceback that names the error."""
        self.blamed: dict[str, str] = {}
        """Detectors that have ended a process or hung, and how."""
        self.tasks: dict[int, tuple[_Active, str]] = {}
        """Tasks that executors have: the work, and the chunk's name (empty: its records)."""
        self.counted: Counter[int] = Counter()
        """Per task, the images that the listener has heard of."""
        self.swept: Counter[str] = Counter()
        """The same per work."""
        self.numbers = itertools.count()
        self.executors: tuple[Executor, ...] = ()
        progress(Event("starting", total=sum(work.total_cost for work in works)))

    def go(self, here: Executor, travelling: Executor) -> None:
        """Keep the executors busy until all work is finished; whatever happens, keep what is done.

        here: computes work that cannot leave this process; travelling: all other work.
        """
        self.executors, stopped = (here, travelling), True
        try:
            while self._hand_out(here, travelling):
                for executor in dict.fromkeys((travelling, here)):
                    if self._held(executor):
                        executor.wait()
            stopped = False
        finally:
            try:
                for executor in dict.fromkeys(self.executors):
                    executor.close(stopped)
            finally:
                for active in self.active.values():
                    active.flush()

    def _held(self, executor: Executor) -> int:
        return sum(active.executor is executor for active, _ in self.tasks.values())

    def _executor(self, work: Work) -> Executor:
        """Return the executor of a work whose requirements are there."""
        here, travelling = self.executors
        return travelling if work.portable and not work.stays(self.store) else here

    def _hand_out(self, here: Executor, travelling: Executor) -> bool:
        """Fill the executors with tasks; return whether there is anything to wait for."""
        room = {executor: executor.slots - self._held(executor) for executor in (here, travelling)}
        for executor, task in self._tasks(room):
            executor.submit(task)
            room[executor] -= 1
        if not self.tasks and self.waiting:
            raise RuntimeError(f"{self.waiting[0].cells[0].title} waits for a result that is gone; run again")
        return bool(self.tasks)

    def _tasks(self, room: Mapping[Executor, int]) -> Iterator[tuple[Executor, Task]]:
        """Yield tasks while there is room: of work under way, then of work whose requirements are there."""
        for active in list(self.active.values()):
            yield from self._tasks_of(active, room)
        while any(room.values()) and (work := self._next(room)) is not None:
            self.waiting = [other for other in self.waiting if other is not work]
            for active in self._start(work):
                yield from self._tasks_of(active, room)

    def _next(self, room: Mapping[Executor, int]) -> Work | None:
        """Return the first work that can begin now."""
        ready = (work for work in self.waiting if self._settled(work))
        return next((work for work in ready if self._broken(work) or room[self._executor(work)]), None)

    def _broken(self, work: Work) -> bool:
        """Does it require a failed cell? Then nobody computes it."""
        return any(need.id in self.failures for need in work.requires)

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

    def _settled(self, work: Work) -> bool:
        return all(need.id in self.present or need.id in self.failures for need in work.requires)

    def _start(self, work: Work) -> Iterator[_Active]:
        """Begin a work, without the cells that cannot be computed: they require a failed one, or a culprit."""
        lost = {cell.id: why for cell in work.cells if (why := self._hopeless(cell))}
        if lost:
            for cell in work.cells:
                if cell.id in lost:
                    self._record_failure(cell, lost[cell.id])
            self._restart(work, [cell for cell in work.cells if cell.id not in lost])
            return
        try:
            active = _Active(work, self.store, self._executor(work))
            self._advance(work, active.resume(self.device))
        except BaseException as error:
            if requested(error):
                raise
            self._fail(work, formatted())
            return
        self.active[work.id] = active
        yield active

    def _hopeless(self, cell: Cell) -> str | None:
        """Return why a cell cannot be computed; None where it can."""
        for need in cell.requires:
            if need.id in self.failures:
                return f"{need.title} failed: {self.failures[need.id].removeprefix(f'{cell.suspect}: ')}"
        return self.blamed.get(cell.suspect)

    def _restart(self, work: Work, rest: list[Cell]) -> None:
        """Put the work back with these cells alone; its progress is counted anew."""
        again = [rest[0].work(rest)] if rest else []
        self.waiting[:0] = again
        cost = sum(other.total_cost for other in again)
        self.progress(Event(work.cells[0].title, work.total_cost - cost - self.swept.pop(work.id, 0)))

    def _advance(self, work: Work, images: int) -> None:
        self.swept[work.id] += images
        self.progress(Event(work.cells[0].title, images))

    # The executors' listener

    def _task(self, number: int) -> tuple[_Active, str] | None:
        """Take a task off the list; None where its work has failed meanwhile."""
        active, name = self.tasks.pop(number)
        self.counted.pop(number, None)
        return (active, name) if self.active.get(active.work.id) is active else None

    def progressed(self, number: int, images: int) -> None:
        active, _ = self.tasks[number]
        if self.active.get(active.work.id) is active:
            self.counted[number] += images
            self._advance(active.work, images)

    def computed(self, number: int, results: Arrays) -> None:
        counted = self.counted[number]
        if task := self._task(number):
            active, name = task
            self._advance(active.work, active.work.cost(active.chunks[name]) - counted)
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
            del self.active[active.work.id]
            self.store.forget(active.work.id)

    def failed(self, number: int, why: str) -> None:
        if task := self._task(number):
            self._fail(task[0].work, why)

    def died(self, number: int, why: str, cell: str) -> None:
        if task := self._task(number):
            active, name = task
            at = f"{why} ({active.work.cells[0].title}{', ' if name else ''}{name})"
            culprits = [one for one in active.work.cells if one.id == cell] or list(active.work.cells)
            for culprit in culprits:
                if culprit.suspect and len(culprits) == 1:
                    self.blamed[culprit.suspect] = at
            self._lose(active, culprits, at)
            for other in list(self.active.values()):
                if blamed := [one for one in other.work.cells if one.suspect in self.blamed]:
                    self._lose(other, blamed, self.blamed[blamed[0].suspect])

    def skipped(self, number: int) -> None:
        self._task(number)

    def slow(self, number: int, seconds: float, cell: str) -> None:
        active, _ = self.tasks[number]
        found = next((one for one in active.work.cells if one.id == cell), active.work.cells[0])
        self.progress(Event(f"{found.title}: {found.suspect or 'one chunk'} takes {seconds:.0f} s so far"))

    # Failures

    def _lose(self, active: _Active, cells: Sequence[Cell], why: str) -> None:
        """Some cells of a work have failed; the others go on from the chunks that are finished."""
        lost = {cell.id for cell in cells}
        self._withdraw(active)
        for cell in cells:
            self._record_failure(cell, why)
        written = {cell.id for cell in active.work.cells if active.finishing and self.store.has(cell.id)}
        self.present |= written
        self.done += sorted(written - lost)
        self._restart(active.work, [cell for cell in active.work.cells if cell.id not in lost | written])

    def _fail(self, work: Work, why: str) -> None:
        """All of the work has failed; its finished chunks are kept for the next try, those not yet begun are left."""
        active = self.active.get(work.id)
        if active is not None:
            self._withdraw(active)
        for cell in work.cells:
            self._record_failure(cell, why)
        self._restart(work, [])

    def _withdraw(self, active: _Active) -> None:
        """Keep the finished chunks of a work and take it off the list."""
        active.flush()
        del self.active[active.work.id]
        active.executor.cancel({number for number, (of, _) in self.tasks.items() if of is active})

    def _record_failure(self, cell: Cell, why: str) -> None:
        self.failures[cell.id] = told = f"{cell.suspect}: {reason(why)}" if cell.suspect else reason(why)
        self.store.fail(cell.id, {**provenance(cell), "traceback": why, "reason": told})
