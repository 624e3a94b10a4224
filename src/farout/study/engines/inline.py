"""Executor that computes in this process, one task at a time."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection

from farout.study.engines.executor import Context, Executor, Task


class InlineExecutor(Executor):
    """Executor in this process: for work that cannot be sent to another process, and for runs without workers."""

    slots = 1

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._tasks: deque[Task] = deque()
        self._canceled: set[int] = set()

    def submit(self, task: Task) -> None:
        self._tasks.append(task)

    def wait(self, seconds: float) -> None:
        task = self._tasks.popleft()
        if task.number in self._canceled:
            self.context.listener.skipped(task.number)
        else:
            self.perform(task)

    def cancel(self, numbers: Collection[int]) -> None:
        self._canceled |= set(numbers)

    def close(self, stopped: bool) -> None:
        self._tasks.clear()
