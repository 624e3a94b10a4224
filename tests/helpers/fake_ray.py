"""Stand-in for the package ray: tasks run in this process, one message at a time; faults happen when a test says so."""

import pickle
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any


class WorkerCrashedError(Exception):
    """A process has died, as Ray's error of this name says."""


class TaskCancelledError(Exception):
    """A task was canceled, as Ray's error of this name says."""


class Ref:
    def __init__(self, value: Any) -> None:
        self.value = value


class Generator:
    """Messages of one task."""

    def __init__(self, messages: Iterator[Any], title: str, fault: Callable[[str, int], Any]) -> None:
        self.messages, self.title, self.fault, self.count = messages, title, fault, 0
        self.canceled: str | None = None

    def __next__(self) -> Ref:
        other = TaskCancelledError() if self.canceled else self.fault(self.title, self.count)
        self.count += 1
        return Ref(other or next(self.messages))


class FakeRay(ModuleType):
    """The part of ray that the engine uses.

    fault: called with the task and the number of its message; returns the error or message that replaces it, or None.
    """

    def __init__(self, nodes: list[dict[str, float]], fault: Any = lambda task, message: None) -> None:
        super().__init__("ray")
        self.resources, self.fault = nodes, fault
        self.started: list[Generator] = []
        self.options: dict[str, Any] = {}
        self.most = 0
        """Largest number of tasks that were running at a time."""
        self.address: str | None = None
        self.open = False

    def init(self, address: str | None = None, **settings: Any) -> None:
        if address == "nowhere:1":
            raise ConnectionError("no answer")
        self.address, self.open = address, True

    def is_initialized(self) -> bool:
        return self.open

    def shutdown(self) -> None:
        self.open = False

    def nodes(self) -> list[dict[str, Any]]:
        return [{"Alive": True, "Resources": one} for one in self.resources]

    def put(self, value: Any) -> Ref:
        return Ref(value)

    def get(self, reference: Ref) -> Any:
        if isinstance(reference.value, BaseException):
            raise reference.value
        return reference.value

    def get_gpu_ids(self) -> list[int]:
        return []

    def remote(self, **settings: Any) -> Any:
        return lambda function: _Remote(self, function)

    def wait(self, generators: list[Generator], num_returns: int, timeout: float, fetch_local: bool) -> Any:
        self.most = max(self.most, len(generators))
        return generators[:1], generators[1:]  # in one process, tasks must not run side by side

    def cancel(self, generator: Generator, force: bool = False) -> None:
        generator.canceled = "force" if force else "asked"


class _Remote:
    def __init__(self, ray: FakeRay, function: Any) -> None:
        self.ray, self.function = ray, function

    def options(self, **options: Any) -> Any:
        self.ray.options = options
        return self

    def remote(self, setup: Ref, order: Any, packed: Any) -> Generator:
        title = f"{pickle.loads(packed[0].value).cells[0].title}, {order.chunk}"
        self.ray.started.append(Generator(self.function(setup.value, order, packed), title, self.ray.fault))
        return self.ray.started[-1]
