"""Worker processes with one torch thread each: start, pool and orderly shutdown."""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import pickle
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import contextmanager, suppress
from functools import partial
from multiprocessing.connection import wait
from multiprocessing.context import SpawnContext, SpawnProcess
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import torch

from farout import interrupts
from farout.plugins import load_plugin

SPAWN = SpawnContext()
WORKER_ENVIRONMENT = {
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    # glibc returns large blocks to the system after every batch and faults them in again; these settings keep them
    "MALLOC_MMAP_THRESHOLD_": str(1 << 30),
    "MALLOC_TRIM_THRESHOLD_": str(4 << 30),
    "MALLOC_TOP_PAD_": str(256 << 20),
}
_MALLOPT = {-3: 1 << 30, -1: (1 << 31) - 1, -2: 256 << 20}
"""The same for a process that runs already: numbers of glibc's options in `mallopt`, with their values."""
PATIENCE = 1.0
"""Seconds that workers have to finish their tasks after a stop; tasks must tolerate being killed."""

Submit = Callable[..., Future[Any]]
"""`submit(function, *arguments)`: schedule `function(shared, *arguments)`."""


def keep_freed_memory() -> None:
    """Let this process keep freed memory for its next batch, as workers do; nothing happens without glibc."""
    with suppress(OSError, AttributeError, TypeError):
        mallopt = ctypes.CDLL(None).mallopt
        for option, value in _MALLOPT.items():
            mallopt(option, value)


@contextmanager
def process_pool(
    workers: int, start: Callable[..., None], arguments: tuple[Any, ...], plugins: tuple[str, ...], patience: float
) -> Iterator[ProcessPoolExecutor]:
    """Open a pool of worker processes; each loads the plugins and calls `start(*arguments)`.

    On an error or Ctrl-C, tasks that have not started are dropped and the workers get `patience` seconds to end before
    they are killed.
    """
    others = set(multiprocessing.active_children())
    pool = ProcessPoolExecutor(workers, SPAWN, _set_up, (plugins, start, arguments))
    try:
        with _worker_environment():
            for _ in range(workers):
                pool.submit(os.getpid)  # the pool starts a process only when a task is submitted
        yield pool
    except BaseException:
        _stop(pool, others, patience)
        raise
    pool.shutdown()


def start_worker(target: Callable[..., None], arguments: tuple[Any, ...], plugins: tuple[str, ...]) -> SpawnProcess:
    """Start a process that loads the plugins and runs `target(*arguments)`."""
    process = SPAWN.Process(target=_set_up, args=(plugins, target, arguments))
    try:
        with _worker_environment():
            process.start()
    except BaseException:  # a signal that was deferred until the process had started
        if process.pid is not None:
            process.kill()
        raise
    return process


@contextmanager
def worker_tasks(workers: int, shared: Any, plugins: tuple[str, ...] = ()) -> Iterator[Submit]:
    """Yield a `Submit` that uses this many worker processes, or this process if `workers` is 0.

    `shared` is sent to every worker once.
    """
    if workers < 1:
        yield partial(_run_here, shared)
        return
    with process_pool(workers, _share, (pickle.dumps(shared),), plugins, PATIENCE) as pool:
        yield lambda function, *arguments: pool.submit(_call, function, *arguments)


def _run_here(shared: Any, function: Callable[..., Any], *arguments: Any) -> Future[Any]:
    answer: Future[Any] = Future()
    answer.set_result(function(shared, *arguments))
    return answer


_shared: Any


def _share(packed: bytes) -> None:
    global _shared
    _shared = pickle.loads(packed)  # after loading the plugins, whose classes it may need


def _call(function: Callable[..., Any], *arguments: Any) -> Any:
    return function(_shared, *arguments)


def _set_up(plugins: tuple[str, ...], start: Callable[..., None], arguments: tuple[Any, ...]) -> None:
    """Set up a worker: one thread, its own process group, Ctrl-C ignored, exit when the parent exits."""
    interrupts.ignore()
    if hasattr(os, "setpgrp"):
        os.setpgrp()
    parent = multiprocessing.parent_process()
    assert parent is not None
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()
    torch.set_num_threads(1)
    for plugin in plugins:
        load_plugin(Path(plugin))
    start(*arguments)


def _end_with(parent: BaseProcess) -> None:
    parent.join()
    os._exit(1)


def _stop(pool: ProcessPoolExecutor, others: set[BaseProcess], patience: float) -> None:
    """Wait up to `patience` seconds for the workers to end, then kill them."""
    workers = [process for process in multiprocessing.active_children() if process not in others]
    try:
        pool.shutdown(wait=False, cancel_futures=True)
        running, deadline = [worker.sentinel for worker in workers], time.monotonic() + patience
        while running and (left := deadline - time.monotonic()) > 0:
            running = [end for end in running if end not in wait(running, left)]
    finally:  # also if the user presses Ctrl-C again
        for worker in workers:
            worker.kill()


@contextmanager
def _worker_environment() -> Iterator[None]:
    """Set the workers' environment and defer signals for processes started within the block."""
    with _environment(WORKER_ENVIRONMENT), signals_deferred():
        yield


@contextmanager
def signals_deferred() -> Iterator[None]:
    """Defer SIGINT and SIGTERM until the block ends; processes started inside inherit the blocked mask of SIGINT.

    Ctrl-C during the imports of a child process would print a traceback.
    """
    if threading.current_thread() is not threading.main_thread() or not hasattr(signal, "pthread_sigmask"):
        yield
        return
    received: list[int] = []
    before: dict[int, Any] = {}
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        for number in (signal.SIGINT, signal.SIGTERM):
            before[number] = signal.signal(number, lambda number, frame: received.append(number))
        yield
    finally:
        for deferred, handler in before.items():
            signal.signal(deferred, handler)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    if received:
        signal.raise_signal(received[0])


@contextmanager
def torch_threads(count: int) -> Iterator[None]:
    """Set the number of threads of torch within the block."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextmanager
def _environment(changes: dict[str, str]) -> Iterator[None]:
    """Set these environment variables within the block; processes started inside inherit them."""
    before = {key: os.environ.get(key) for key in changes}
    os.environ.update(changes)
    try:
        yield
    finally:
        for key, value in before.items():
            if value is None:
                del os.environ[key]
            else:
                os.environ[key] = value
