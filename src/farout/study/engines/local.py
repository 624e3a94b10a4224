"""Executor with worker processes on this machine. A worker that dies or hangs does not affect the others."""

from __future__ import annotations

import logging
import os
import pickle
import signal
import threading
import time
from collections import deque
from collections.abc import Collection, Sequence
from contextlib import suppress
from multiprocessing.connection import Connection, wait
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from farout.devices import worker_device
from farout.memory import PROCESS, fit_workers, size_text, worker_share
from farout.processes import signals_deferred
from farout.study.cells.cell import Work
from farout.study.engines import activity
from farout.study.engines.ahead import Started, take_worker
from farout.study.engines.executor import ENGINES, Context, Executor, Task
from farout.study.engines.time_limit import timeout_message
from farout.study.engines.worker import Order, Setup
from farout.study.store import StoreError

SLOW_SECONDS = 10.0
"""Seconds at one chunk after which the progress line names the detector."""
PATIENCE = 10.0
"""Seconds that workers have to save their intermediate state when a run is stopped."""
AHEAD = 2
"""Tasks that a worker holds: the running one and the next."""
STARTS = 3
"""Workers in a row that may die before their first task; then the run ends with an error."""


class WorkersDie(RuntimeError):
    """Several worker processes in a row have died before their first task."""


@ENGINES.register("local")
class LocalExecutor(Executor):
    """Worker processes on this machine, with one torch thread each."""

    name = "local"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        workers = context.workers if context.memory is None else fit_workers(context.memory, context.workers)
        if workers < context.workers:
            logging.getLogger("farout").warning(
                f"{workers} instead of {context.workers} worker processes, since each needs {size_text(PROCESS)} and "
                f"all have {size_text(context.memory or 0)} together (--memory)"
            )
        self._share = None if context.memory is None else worker_share(context.memory, workers)
        self.slots = AHEAD * workers
        self._listener, self._timeout, self._notes = context.listener, context.timeout, context.notes
        self._packed: tuple[Work | None, bytes] = None, b""
        self._failed_starts, self._started = 0, 0
        self._workers: list[_Worker] = []
        self._refused: list[tuple[int, str, str]] = []
        self._waiting: deque[Order] = deque()
        """Orders that have not been sent to a worker yet."""
        self._dropped: list[int] = []
        try:
            for position in range(workers):
                with signals_deferred():
                    self._workers.append(self._start(position))
        except BaseException:
            self.close(stopped=True)
            raise

    def _start(self, position: int) -> _Worker:
        """Start the worker at this position, on a GPU of its own if there are several."""
        note = self._notes / f"worker-{os.getpid()}-{self._started}"
        self._started += 1
        device = worker_device(self.context.device, position)
        setup = Setup(str(self.context.store.root), str(device), str(note), self._share)
        return _Worker(take_worker(self.context.plugins), setup)

    def submit(self, task: Task) -> None:
        if self._packed[0] is not task.work:
            try:
                self._packed = task.work, pickle.dumps(task.work)  # for our own workers; never stored
            except Exception as error:
                reason = f"{type(error).__name__}: {error}; it cannot be sent to a worker process: use --workers 0"
                self._refused.append((task.number, reason, find_unpicklable(task.work)))
                return
        limited, chunk = task.work.limited, task.chunk
        order = Order(
            task.number, self._packed[1], chunk, task.seconds, limited and chunk is not None,
            unbounded=not limited and chunk is not None,
        )  # fmt: skip
        self._waiting.append(order)
        self._distribute()

    def _distribute(self) -> None:
        """Send orders to workers as long as one takes the next."""
        while self._waiting:
            position = select_queue(self._waiting[0], [one.orders for one in self._workers])
            if position is None:
                return
            self._workers[position].give(self._waiting.popleft())

    def wait(self, seconds: float) -> None:
        if self._refused:
            self._listener.died(*self._refused.pop())
            return
        if self._dropped:
            self._listener.skipped(self._dropped.pop())
            return
        wait([end for one in self._workers for end in (one.connection, one.process.sentinel)], seconds)
        for one in list(self._workers):
            dead = one.dead
            while (message := one.receive()) is not None:
                self._handle(one, *message)
            if dead:
                self._replace(one)
            else:
                self._check_time(one)
        self._distribute()

    def _handle(self, one: _Worker, kind: str, number: int, content: Any) -> None:
        """Handle a message of a worker: report task outcomes and progress to the listener."""
        one.heard_at = time.monotonic()
        if kind == "began":
            one.busy = one.served = True
            one.began_at, self._failed_starts = one.heard_at, 0
        elif kind == "logged":
            logging.getLogger("farout").log(number, content)
        elif kind == "unstored":
            raise StoreError(content)
        elif kind == "progressed":
            self._listener.progressed(number, content)
        else:
            one.done(number)
            report = getattr(self._listener, kind)  # computed, finished, failed, skipped
            report(number) if content is None else report(number, content)

    def _replace(self, one: _Worker) -> None:
        """Replace a worker that has died: its running task has failed, its queued tasks go to the new worker."""
        one.end_children()
        one.process.join()
        current = activity.read(one.note)
        one.note.unlink(missing_ok=True)
        queued, running = list(one.orders), None
        if one.busy:
            running = queued.pop(0)
        elif not one.served:
            self._failed_starts += 1
            if self._failed_starts >= STARTS:
                raise WorkersDie(
                    f"{STARTS} worker processes in a row have died before their first task; the last one "
                    f"{exit_text(one.process.exitcode)}"
                )
        position = self._workers.index(one)
        with signals_deferred():
            self._workers[position] = replacement = self._start(position)
        for order in queued:
            replacement.give(order)
            if order.number in one.canceled:
                replacement.cancel(order.number)
        if running is not None:
            reason = one.kill_reason or f"WorkerDied: the process {exit_text(one.process.exitcode)}"
            self._listener.died(running.number, reason, current.cell if current else "")

    def _check_time(self, one: _Worker) -> None:
        """Kill a worker that exceeds the time limit for one chunk; report slow ones to the listener."""
        current = activity.read(one.note) if one.busy else None
        if current is None:
            return
        seconds = time.monotonic() - max(current.since, one.began_at)
        if self._timeout is not None and one.orders[0].limited and seconds > self._timeout:
            one.kill(timeout_message(self._timeout))
        elif seconds > SLOW_SECONDS and time.monotonic() - one.heard_at > SLOW_SECONDS:
            self._listener.slow(one.orders[0].number, seconds, current.cell)

    def cancel(self, numbers: Collection[int]) -> None:
        self._dropped += [order.number for order in self._waiting if order.number in numbers]
        self._waiting = deque(order for order in self._waiting if order.number not in numbers)
        for one in self._workers:
            for order in one.orders:
                if order.number in numbers:
                    one.cancel(order.number)

    def close(self, stopped: bool) -> None:
        self._waiting.clear()
        try:
            for one in self._workers:
                one.request_exit(stopped)
            deadline, alive = time.monotonic() + PATIENCE, list(self._workers)
            while alive and time.monotonic() < deadline:
                for one in alive:
                    while one.receive() is not None:
                        pass  # discard messages, so that the sender does not block on a full pipe
                wait([one.process.sentinel for one in alive], 0.05)
                alive = [one for one in alive if not one.dead]
        finally:  # also after a second Ctrl-C
            for one in self._workers:
                one.kill()
                one.process.join()
                one.note.unlink(missing_ok=True)


class _Worker:
    """One worker process and the orders sent to it."""

    def __init__(self, started: Started, setup: Setup) -> None:
        self.process, self.connection, self._over = started.process, started.connection, started.over
        self.note, self.orders, self.canceled, self.kill_reason = Path(setup.note), deque[Order](), set[int](), ""
        self.busy, self.served = False, False
        """True while its first order is running; True once any order has begun."""
        self.began_at = self.heard_at = time.monotonic()
        self._outbox: SimpleQueue[Setup | Order | int | None] = SimpleQueue()
        self._outbox.put(setup)
        threading.Thread(target=_send, args=(self.connection, self._outbox), daemon=True).start()

    def give(self, order: Order) -> None:
        """Send an order; it is performed after the earlier ones."""
        self.orders.append(order)
        self._outbox.put(order)

    def done(self, number: int) -> None:
        """Remove the first order, which has been performed."""
        assert self.orders[0].number == number
        self.orders.popleft()
        self.busy = False
        self.canceled.discard(number)

    def cancel(self, number: int) -> None:
        """Cancel an order, unless it has begun."""
        self.canceled.add(number)
        self._outbox.put(number)

    @property
    def dead(self) -> bool:
        """True if the process has ended."""
        return bool(wait([self.process.sentinel], 0))

    def receive(self) -> tuple[str, int, Any] | None:
        """Return the next message of the process; None if there is none."""
        with suppress(EOFError, OSError):
            if self.connection.poll():
                message: tuple[str, int, Any] = self.connection.recv()
                return message
        return None

    def request_exit(self, stopped: bool) -> None:
        """Ask the process to end after its running order; if the run was stopped, once its state is saved."""
        self._over.value = stopped
        self.orders.clear()
        self._outbox.put(None)

    def kill(self, reason: str = "") -> None:
        """Kill the process and its children."""
        self.kill_reason = self.kill_reason or reason
        self.end_children()
        self.process.kill()
        self._outbox.put(None)

    def end_children(self) -> None:
        """Kill the processes that a detector may have started; worker and children are one process group."""
        if hasattr(os, "killpg") and self.process.pid is not None:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self.process.pid, signal.SIGKILL)


def select_queue(order: Order, queues: Sequence[Collection[Order]]) -> int | None:
    """Return the position of the shortest queue that takes an order; None if the order must wait.

    An order of unbounded duration is alone in its queue: it goes to an idle worker, and nothing waits behind it.
    """

    def takes(queue: Collection[Order]) -> bool:
        short = not any(queued.unbounded for queued in (*queue, order))
        return not queue or (len(queue) < AHEAD and short)

    free = [position for position, queue in enumerate(queues) if takes(queue)]
    return min(free, key=lambda position: len(queues[position]), default=None)


def find_unpicklable(work: Work) -> str:
    """Return the id of the first cell that cannot be pickled; empty if each cell alone can be."""
    for cell in work.cells:
        try:
            pickle.dumps(cell)
        except Exception:
            cell_id: str = cell.id
            return cell_id
    return ""


def _send(connection: Connection, outbox: SimpleQueue[Setup | Order | int | None]) -> None:
    """Send orders from a separate thread, so that a hanging worker that does not read cannot block the parent."""
    with suppress(OSError, ValueError):
        while (order := outbox.get()) is not None:
            connection.send(order)
        connection.send(None)


def exit_text(code: int | None) -> str:
    """Return a text on how a process ended."""
    if code is None or code >= 0:
        return f"ended with exit code {code}"
    name = signal.Signals(-code).name if -code in set(signal.Signals) else f"signal {-code}"
    advice = ", most often because memory ran out: use fewer workers" if name == "SIGKILL" else ""
    return f"was ended by {name}{advice}"
