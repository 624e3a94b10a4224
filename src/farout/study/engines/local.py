"""Executor with worker processes on this machine. A worker that dies or hangs takes nobody along."""

from __future__ import annotations

import logging
import os
import pickle
import signal
import threading
import time
from collections import deque
from collections.abc import Collection
from contextlib import suppress
from multiprocessing.connection import Connection, wait
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from farout.processes import SPAWN, signals_deferred, start_worker
from farout.study.cells.cell import Work
from farout.study.engines import activity, worker
from farout.study.engines.executor import ENGINES, Context, Executor, Task
from farout.study.engines.inline import late
from farout.study.engines.worker import Order
from farout.study.store import StoreError

LISTEN_SECONDS = 0.5
"""Longest duration of a call of `wait`."""
SLOW_SECONDS = 10.0
"""After so long at one chunk, the progress line names the detector."""
PATIENCE = 10.0
"""Seconds that workers have to keep what they are at when a run is stopped."""
AHEAD = 2
"""Tasks that a worker holds: the one it is at, and the next."""
STARTS = 3
"""Workers in a row that may die before they have begun anything."""


class WorkersDie(RuntimeError):
    """Worker processes end before they have begun a task."""


@ENGINES.register("local")
class LocalExecutor(Executor):
    """Worker processes on this machine, with one torch thread each."""

    name = "local"

    def __init__(self, context: Context) -> None:
        self.slots = AHEAD * context.workers
        self._listener, self._timeout, self._notes = context.listener, context.timeout, context.notes
        self._over = SPAWN.RawValue("b", False)  # without a lock, which a worker that is killed might hold
        self._setup = (str(context.store.root), str(context.device)), context.plugins
        self._packed: tuple[Work | None, bytes] = None, b""
        self._stillborn, self._started = 0, 0
        self._workers: list[_Worker] = []
        self._refused: list[tuple[int, str, str]] = []
        self._waiting: deque[Order] = deque()
        """Orders that no worker has been given yet."""
        self._dropped: list[int] = []
        try:
            for _ in range(context.workers):
                with signals_deferred():
                    self._workers.append(self._start())
        except BaseException:
            self.close(stopped=True)
            raise

    def _start(self) -> _Worker:
        note = self._notes / f"worker-{os.getpid()}-{self._started}"
        self._started += 1
        return _Worker(*self._setup, note, self._over)

    def submit(self, task: Task) -> None:
        if self._packed[0] is not task.work:
            try:
                self._packed = task.work, pickle.dumps(task.work)  # for our own workers; never stored
            except Exception as error:
                why = f"{type(error).__name__}: {error}; it cannot be sent to a worker process: use --workers 0"
                self._refused.append((task.number, why, _unpicklable(task.work)))
                return
        limited, chunk = task.work.limited, task.chunk
        order = Order(
            task.number, self._packed[1], chunk, task.seconds, limited and chunk is not None,
            endless=not limited and chunk is not None,
        )  # fmt: skip
        self._waiting.append(order)
        self._distribute()

    def _distribute(self) -> None:
        """Give orders to workers; none is to wait behind one that may take any time while another worker is idle."""
        while self._waiting and (free := [one for one in self._workers if one.takes(self._waiting[0])]):
            min(free, key=lambda one: len(one.orders)).give(self._waiting.popleft())

    def wait(self) -> None:
        if self._refused:
            self._listener.died(*self._refused.pop())
            return
        if self._dropped:
            self._listener.skipped(self._dropped.pop())
            return
        wait([end for one in self._workers for end in (one.connection, one.process.sentinel)], LISTEN_SECONDS)
        for one in list(self._workers):
            dead = one.dead
            while (message := one.message()) is not None:
                self._pass_on(one, *message)
            if dead:
                self._bury(one)
            else:
                self._watch(one)
        self._distribute()

    def _pass_on(self, one: _Worker, kind: str, number: int, content: Any) -> None:
        one.heard_at = time.monotonic()
        if kind == "began":
            one.at_work = one.served = True
            one.began_at, self._stillborn = one.heard_at, 0
        elif kind == "logged":
            logging.getLogger("farout").log(number, content)
        elif kind == "unstored":
            raise StoreError(content)
        elif kind == "progressed":
            self._listener.progressed(number, content)
        else:
            one.done(number)
            told = getattr(self._listener, kind)  # computed, finished, failed, skipped
            told(number) if content is None else told(number, content)

    def _bury(self, one: _Worker) -> None:
        """Replace a worker that has died; the task it was at has failed, those that waited go to others."""
        one.end_children()
        one.process.join()
        doing = activity.read(one.note)
        one.note.unlink(missing_ok=True)
        waiting, at = list(one.orders), None
        if one.at_work:
            at = waiting.pop(0)
        elif not one.served:
            self._stillborn += 1
            if self._stillborn >= STARTS:
                raise WorkersDie(f"a worker process {ended(one.process.exitcode)} before it had begun any work, again")
        with signals_deferred():
            self._workers[self._workers.index(one)] = fresh = self._start()
        for order in waiting:
            fresh.give(order)
            if order.number in one.canceled:
                fresh.cancel(order.number)
        if at is not None:
            why = one.sentence or f"WorkerDied: the process {ended(one.process.exitcode)}"
            self._listener.died(at.number, why, doing.cell if doing else "")

    def _watch(self, one: _Worker) -> None:
        """End a worker that takes too long for one chunk; say who is slow."""
        doing = activity.read(one.note) if one.at_work else None
        if doing is None:
            return
        seconds = time.monotonic() - max(doing.since, one.began_at)
        if self._timeout is not None and one.orders[0].limited and seconds > self._timeout:
            one.kill(late(self._timeout))
        elif seconds > SLOW_SECONDS and time.monotonic() - one.heard_at > SLOW_SECONDS:
            self._listener.slow(one.orders[0].number, seconds, doing.cell)

    def cancel(self, numbers: Collection[int]) -> None:
        self._dropped += [order.number for order in self._waiting if order.number in numbers]
        self._waiting = deque(order for order in self._waiting if order.number not in numbers)
        for one in self._workers:
            for order in one.orders:
                if order.number in numbers:
                    one.cancel(order.number)

    def close(self, stopped: bool) -> None:
        self._over.value = stopped
        self._waiting.clear()
        try:
            for one in self._workers:
                one.end()
            deadline, alive = time.monotonic() + PATIENCE, list(self._workers)
            while alive and time.monotonic() < deadline:
                for one in alive:
                    while one.message() is not None:
                        pass  # nobody waits for it any more, but its sender must not hang
                wait([one.process.sentinel for one in alive], 0.05)
                alive = [one for one in alive if not one.dead]
        finally:  # also when the user has lost patience
            for one in self._workers:
                one.kill()
                one.process.join()
                one.note.unlink(missing_ok=True)


class _Worker:
    """One worker process and what it has been given."""

    def __init__(self, setup: tuple[str, str], plugins: tuple[str, ...], note: Path, over: Any) -> None:
        self.note, self.orders, self.canceled, self.sentence = note, deque[Order](), set[int](), ""
        self.at_work, self.served = False, False
        """Is it performing its first order? Has it ever begun one?"""
        self.began_at = self.heard_at = time.monotonic()
        self.connection, theirs = SPAWN.Pipe()
        self.process = start_worker(worker.work, (theirs, *setup, str(note), over), plugins)
        theirs.close()
        self._outbox: SimpleQueue[Order | int | None] = SimpleQueue()
        threading.Thread(target=_send, args=(self.connection, self._outbox), daemon=True).start()

    def takes(self, order: Order) -> bool:
        """Is it idle, or may the order wait here for what it is at?"""
        short = not any(one.endless for one in (*self.orders, order))
        return not self.orders or (len(self.orders) < AHEAD and short)

    def give(self, order: Order) -> None:
        """Hand over an order; it is performed after those before it."""
        self.orders.append(order)
        self._outbox.put(order)

    def done(self, number: int) -> None:
        """The first order has been performed."""
        assert self.orders[0].number == number
        self.orders.popleft()
        self.at_work = False
        self.canceled.discard(number)

    def cancel(self, number: int) -> None:
        """Have an order left out, unless it has begun."""
        self.canceled.add(number)
        self._outbox.put(number)

    @property
    def dead(self) -> bool:
        """Has the process ended?"""
        return bool(wait([self.process.sentinel], 0))

    def message(self) -> tuple[str, int, Any] | None:
        """The next thing that the process has said, if there is any."""
        with suppress(EOFError, OSError):
            if self.connection.poll():
                said: tuple[str, int, Any] = self.connection.recv()
                return said
        return None

    def end(self) -> None:
        """Ask the process to end after what it is at."""
        self.orders.clear()
        self._outbox.put(None)

    def kill(self, sentence: str = "") -> None:
        """End the process and its children by force."""
        self.sentence = self.sentence or sentence
        self.end_children()
        self.process.kill()
        self._outbox.put(None)

    def end_children(self) -> None:
        """End what a detector may have started; worker and children are a group of their own."""
        if hasattr(os, "killpg") and self.process.pid is not None:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self.process.pid, signal.SIGKILL)


def _unpicklable(work: Work) -> str:
    """The id of the first cell that cannot be sent; empty where it is not a single one."""
    for cell in work.cells:
        try:
            pickle.dumps(cell)
        except Exception:
            found: str = cell.id
            return found
    return ""


def _send(connection: Connection, outbox: SimpleQueue[Order | int | None]) -> None:
    """Send orders from a thread of its own: a worker that hangs does not read, and must not hang its parent."""
    with suppress(OSError, ValueError):
        while (order := outbox.get()) is not None:
            connection.send(order)
        connection.send(None)


def ended(code: int | None) -> str:
    """Return how a process ended, in words."""
    if code is None or code >= 0:
        return f"ended with exit code {code}"
    name = signal.Signals(-code).name if -code in set(signal.Signals) else f"signal {-code}"
    why = ", most often for want of memory: use fewer workers" if name == "SIGKILL" else ""
    return f"was ended by {name}{why}"
