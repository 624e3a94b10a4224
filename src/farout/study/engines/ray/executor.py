"""The run's side: submits tasks, reports their progress and outcomes, and submits lost ones again."""

from __future__ import annotations

import logging
import os
import pickle
import time
from collections import deque
from collections.abc import Callable, Collection
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

from farout.files import sha256
from farout.study.cells.cell import Work
from farout.study.engines.executor import ENGINES, Context, Executor, Task
from farout.study.engines.local import AHEAD, PATIENCE, SLOW_SECONDS, find_unpicklable
from farout.study.engines.ray.cluster import Cluster, RayFailure
from farout.study.engines.ray.node import OUTCOMES, Order, Setup, perform, versions
from farout.study.engines.ray.options import RayOptions
from farout.study.engines.ray.running import TRIES, Running, loss
from farout.study.engines.time_limit import timeout_message
from farout.study.store import StoreError

log = logging.getLogger("farout")


@ENGINES.register("ray")
class RayExecutor(Executor):
    """Tasks on the nodes of a Ray cluster, which share the folder of results."""

    name = "ray"
    Options = RayOptions
    remote = True

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        assert isinstance(context.options, RayOptions)
        self._listener, self._timeout = context.listener, context.timeout
        self._run = f"ray-{os.getpid()}-{uuid4().hex[:8]}"
        self._probe = context.notes / self._run
        self._packed: tuple[Work | None, str, Any] = None, "", None
        self._queued: deque[Running] = deque()
        """Tasks that are not submitted yet, since the run uses fewer workers than the cluster has."""
        self._running: dict[Any, Running] = {}
        self._reports: deque[Callable[[], None]] = deque()
        """Outcomes of tasks that were never submitted."""
        self._cluster = Cluster(context.options, context.device.type)
        try:
            self._probe.write_text("a Ray run computes here")
            self._perform = self._cluster.remote(perform)
            self._setup = self._cluster.ray.put(self._describe())
        except BaseException:
            self.close(stopped=True)
            raise

    def _describe(self) -> Setup:
        plugins = tuple((path, sha256(Path(path))) for path in self.context.plugins)
        root, device = str(self.context.store.root), str(self.context.device)
        return Setup(root, str(self._probe), device, plugins, str(Path.cwd()), versions())

    @property
    def slots(self) -> int:  # type: ignore[override]
        """Twice the number of tasks that can run at a time."""
        return AHEAD * max(1, min(self.context.workers or self._cluster.capacity, self._cluster.capacity))

    def submit(self, task: Task) -> None:
        try:
            key, packed = self._pack(task.work)
        except Exception as error:
            reason = f"{type(error).__name__}: {error}; it cannot be sent to a node: use --engine local --workers 0"
            self._reports.append(partial(self._listener.died, task.number, reason, find_unpicklable(task.work)))
            return
        parts: tuple[str, ...] = ()
        if task.chunk is None:
            parts = tuple(path.name for path in self.context.store.scratch(task.work.id).glob("part-*"))
        note = str(self.context.notes / f"{self._run}-{task.number}.0")
        order = Order(task.number, key, task.chunk, task.seconds, note, parts)
        self._queued.append(Running(order, task.work, packed, task.work.limited and task.chunk is not None))
        self._send()

    def _pack(self, work: Work) -> tuple[str, Any]:
        """Return a key of the work and the reference to it, pickled for our own tasks and never stored."""
        if self._packed[0] is not work:
            self._packed = work, uuid4().hex, self._cluster.ray.put(pickle.dumps(work))
        return self._packed[1:]

    def _send(self) -> None:
        """Submit queued tasks; Ray holds those that wait for a node, unless fewer workers are requested."""
        limited = 0 < self.context.workers < self._cluster.capacity
        while self._queued and not (limited and len(self._running) >= self.context.workers):
            self._start(self._queued.popleft())

    def _start(self, one: Running) -> None:
        one.tries += 1
        note = f"{one.order.note.rpartition('.')[0]}.{one.tries}"
        one.order, one.images, one.beat = one.order._replace(note=note), 0, one.beat._replace(host="")
        one.generator = self._perform.remote(self._setup, one.order, [one.packed])
        self._running[one.generator] = one

    def wait(self, seconds: float) -> None:
        if self._reports:
            self._reports.popleft()()
            return
        self._send()
        for one in self._heard(seconds):
            self._receive(one)
        for one in list(self._running.values()):
            self._check_time(one)
        self._send()

    def _heard(self, seconds: float) -> list[Running]:
        """Return the tasks that have a message; wait until one has, at most for so many seconds."""
        if not self._running:
            return []
        generators, wait = list(self._running), self._cluster.ray.wait
        ready, _ = wait(generators, num_returns=1, timeout=seconds, fetch_local=False)
        if ready:
            ready, _ = wait(generators, num_returns=len(generators), timeout=0, fetch_local=False)
        return [self._running[generator] for generator in ready]

    def _receive(self, one: Running) -> None:
        """Handle the next message of a task."""
        try:
            kind, content = self._cluster.ray.get(next(one.generator))
        except StopIteration:
            self._lose(one, "it ended without a result")
        except Exception as error:
            if "TaskCancelledError" in (cls.__name__ for cls in type(error).__mro__):
                self._end(one)
                self._listener.skipped(one.order.number)
            elif reason := loss(error):
                self._lose(one, reason)
            else:
                raise RayFailure(f"a node cannot compute: {type(error).__name__}: {error}") from error
        else:
            self._handle(one, kind, content)

    def _handle(self, one: Running, kind: str, content: Any) -> None:
        """Report a message of a task to the listener."""
        if kind == "beat":
            one.heard(content)
            if content.images:
                self._listener.progressed(one.order.number, content.images)
            return
        if kind == "logged":
            log.log(*content)
            return
        assert kind in OUTCOMES
        self._end(one)
        if kind == "unstored":
            raise StoreError(content)
        if kind == "unfit":
            raise RayFailure(f"a node of the Ray cluster cannot compute this run. {content}")
        report = getattr(self._listener, kind)  # computed, finished, failed, skipped
        report(one.order.number) if content is None else report(one.order.number, content)

    def _end(self, one: Running) -> None:
        del self._running[one.generator]
        one.forget_note()

    def _lose(self, one: Running, reason: str) -> None:
        """Submit a lost task again; after several tries it has failed."""
        number, began = one.order.number, bool(one.beat.host)
        del self._running[one.generator]
        cell = one.take_cell()
        if one.canceled:
            self._listener.skipped(number)
        elif one.tries < TRIES:
            log.warning(f"{one.title}: the task was lost ({reason}); it is submitted again")
            self._listener.progressed(number, -one.images)
            self._start(one)
        elif began:
            self._listener.died(number, f"TaskLost: {TRIES} times in a row; the last time {reason}", cell)
        else:
            raise RayFailure(f"{one.title}: the task was lost {TRIES} times before it began; the last time {reason}")

    def _check_time(self, one: Running) -> None:
        """End a task that exceeds the time limit for one chunk; report slow ones to the listener."""
        if self._timeout is not None and one.limited and one.seconds > self._timeout:
            self._cluster.ray.cancel(one.generator, force=True)
            del self._running[one.generator]
            self._listener.died(one.order.number, timeout_message(self._timeout), one.take_cell())
        elif one.seconds > SLOW_SECONDS:
            self._listener.slow(one.order.number, one.seconds, one.beat.cell)

    def cancel(self, numbers: Collection[int]) -> None:
        for one in [one for one in self._queued if one.order.number in numbers]:
            self._queued.remove(one)
            self._reports.append(partial(self._listener.skipped, one.order.number))
        for one in self._running.values():
            if one.order.number in numbers:
                one.canceled = True
                self._cluster.ray.cancel(one.generator)

    def close(self, stopped: bool) -> None:
        self._queued.clear()
        try:
            self.cancel([one.order.number for one in self._running.values()])
            deadline = time.monotonic() + PATIENCE
            while self._running and time.monotonic() < deadline:
                for one in self._heard(0.2):
                    self._discard(one)
        finally:  # also after a second Ctrl-C
            for one in self._running.values():
                self._cluster.ray.cancel(one.generator, force=True)
                one.forget_note()
            self._probe.unlink(missing_ok=True)
            self._cluster.close()

    def _discard(self, one: Running) -> None:
        """Read the next message of a canceled task; its last one removes the task."""
        try:
            kind, _ = self._cluster.ray.get(next(one.generator))
        except Exception:
            kind = "skipped"
        if kind in OUTCOMES:
            self._end(one)
