"""Connection to a Ray cluster, and the number of tasks that it can run at a time."""

from __future__ import annotations

import logging
import os
import signal
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from typing import Any

from farout.processes import WORKER_ENVIRONMENT
from farout.study.engines.ray.options import RayOptions

AGE_SECONDS = 5.0
"""Seconds after which the list of nodes is read again."""
PATIENCE = 10.0
"""Seconds without a node that can take a task, after which the log says so."""
ENVIRONMENT = {
    **WORKER_ENVIRONMENT,
    "MALLOC_ARENA_MAX": "1",  # tasks compute in a thread: its memory must come from where those settings apply
    "RAY_EXPERIMENTAL_NOSET_CUDA_VISIBLE_DEVICES": "1",  # a process may get another GPU with each task, see node.py
}
"""Environment of the processes that compute tasks."""
log = logging.getLogger("farout")


class RayFailure(RuntimeError):
    """The cluster cannot be reached, or cannot compute."""


class Cluster:
    """Connection to a cluster. One that is open already, by the user's own `ray.init`, is used and stays open."""

    def __init__(self, options: RayOptions, device: str) -> None:
        self.ray: Any = import_module("ray")
        self._needed = options.resources(device)
        self._counted_at, self._capacity, self._idle_since, self._warned = -AGE_SECONDS, 0, time.monotonic(), False
        self._connected = not self.ray.is_initialized()
        if self._connected:
            _connect(self.ray, options.address)

    def remote(self, function: Any) -> Any:
        """Return a function as a Ray task that yields its results one by one."""
        amounts = dict(self._needed)
        return self.ray.remote(max_calls=0)(function).options(  # 0: processes with a GPU are used again, too
            num_cpus=amounts.pop("CPU"), num_gpus=amounts.pop("GPU", 0), memory=amounts.pop("memory", None),
            num_returns="streaming", max_retries=0, runtime_env={"env_vars": ENVIRONMENT},
        )  # fmt: skip

    @property
    def capacity(self) -> int:
        """Number of tasks that the nodes can run at a time; it changes as nodes come and go."""
        if time.monotonic() - self._counted_at > AGE_SECONDS:
            nodes = [node["Resources"] for node in self.ray.nodes() if node["Alive"]]
            self._capacity = sum(count_tasks(node, self._needed) for node in nodes)
            self._counted_at = time.monotonic()
            self._warn(nodes)
        return self._capacity

    def _warn(self, nodes: list[Mapping[str, float]]) -> None:
        """Say once that no node can take a task; a cluster that scales by itself may get one."""
        if self._capacity:
            self._idle_since = time.monotonic()
        elif not self._warned and time.monotonic() - self._idle_since > PATIENCE:
            self._warned = True
            here = "; ".join(resources_text(node) for node in nodes) or "none"
            log.warning(
                f"no node of the Ray cluster can take a task of {resources_text(self._needed)}, so the run waits for "
                f"one. Nodes now: {here}. Change --cpus, --gpus or --memory, or add a node"
            )

    def close(self) -> None:
        """Close the connection; a cluster that was started for it ends."""
        if self._connected:
            self.ray.shutdown()


def count_tasks(node: Mapping[str, float], needed: Mapping[str, float]) -> int:
    """Return the number of tasks that a node has the resources for."""
    return min(int(node.get(name, 0.0) / amount + 1e-9) for name, amount in needed.items())


def resources_text(amounts: Mapping[str, float]) -> str:
    """Return amounts of CPU, GPU and memory as text."""
    memory = [f"{amounts['memory'] / (1 << 30):.3g} GiB memory"] if "memory" in amounts else []
    return ", ".join([f"{amounts[name]:g} {name}" for name in ("CPU", "GPU") if name in amounts] + memory)


def _connect(ray: Any, address: str | None) -> None:
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # a cluster that is started here reports to nobody
    try:
        with _handlers_kept():
            ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)
    except Exception as error:
        raise RayFailure(
            f"cannot reach a Ray cluster at {address or 'the default address'}: {type(error).__name__}: "
            f"{str(error).strip().splitlines()[0] if str(error).strip() else 'no message'}; expected the address of a "
            'head node (host:6379), "auto" for the cluster of this machine, or "local" to start one'
        ) from error


@contextmanager
def _handlers_kept() -> Iterator[None]:
    """Restore the handler of SIGTERM at the end, which `ray.init` replaces."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
