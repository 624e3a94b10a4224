"""Worker processes with one torch thread each, and an orderly end of them."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import contextmanager
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
    # glibc gives large blocks back to the system after every batch and faults them in again; these keep them
    "MALLOC_MMAP_THRESHOLD_": str(1 << 30),
    "MALLOC_TRIM_THRESHOLD_": str(4 << 30),
    "MALLOC_TOP_PAD_": str(256 << 20),
}
PATIENCE = 1.0
"""Seconds that a crew has to finish its tasks when all is stopped; a task must not mind being killed."""

Submit = Callable[..., Future[Any]]
"""`submit(function, *arguments)`: have `function(shared, *arguments)` computed."""


@contextmanager
def process_pool(
    workers: int, start: Callable[..., None], arguments: tuple[Any, ...], plugins: tuple[str, ...], patience: float
) -> Iterator[ProcessPoolExecutor]:
    """Worker processes, each set up by `start(*arguments)` once it knows the plugins.

    When this is left by an error or Ctrl-C, what has not been begun is dropped and the workers end within `patience`
    seconds, by themselves or by force.
    """
    others = set(multiprocessing.active_children())
    pool = ProcessPoolExecutor(workers, SPAWN, _set_up, (plugins, start, arguments))
    try:
        with _starting():
            for _ in range(workers):
                pool.submit(os.getpid)  # processes are started when there is work for them
        yield pool
    except BaseException:
        _stop(pool, others, patience)
        raise
    pool.shutdown()


def start_worker(target: Callable[..., None], arguments: tuple[Any, ...], plugins: tuple[str, ...]) -> SpawnProcess:
    """Start a process that runs `target(*arguments)` once it knows the plugins."""
    process = SPAWN.Process(target=_set_up, args=(plugins, target, arguments))
    try:
        with _starting():
            process.start()
    except BaseException:  # a signal that was held back until it had started
        if process.pid is not None:
            process.kill()
        raise
    return process


@contextmanager
def crew(workers: int, shared: Any, plugins: tuple[str, ...] = ()) -> Iterator[Submit]:
    """Who computes: so many worker processes, or this process where there are none.

    `shared` travels to every worker once.
    """
    if workers < 1:
        yield partial(_at_once, shared)
        return
    with process_pool(workers, _share, (pickle.dumps(shared),), plugins, PATIENCE) as pool:
        yield lambda function, *arguments: pool.submit(_call, function, *arguments)


def _at_once(shared: Any, function: Callable[..., Any], *arguments: Any) -> Future[Any]:
    answer: Future[Any] = Future()
    answer.set_result(function(shared, *arguments))
    return answer


_shared: Any


def _share(packed: bytes) -> None:
    global _shared
    _shared = pickle.loads(packed)  # only now: it may need the plugins' classes


def _call(function: Callable[..., Any], *arguments: Any) -> Any:
    return function(_shared, *arguments)


def _set_up(plugins: tuple[str, ...], start: Callable[..., None], arguments: tuple[Any, ...]) -> None:
    """Set a worker up: one thread, a process group of its own, Ctrl-C left to the parent, an end when that ends."""
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
    """End the workers: by themselves if they do it soon, else by force."""
    workers = [process for process in multiprocessing.active_children() if process not in others]
    try:
        pool.shutdown(wait=False, cancel_futures=True)
        running, deadline = [worker.sentinel for worker in workers], time.monotonic() + patience
        while running and (left := deadline - time.monotonic()) > 0:
            running = [end for end in running if end not in wait(running, left)]
    finally:  # also when the user has lost patience
        for worker in workers:
            worker.kill()


@contextmanager
def _starting() -> Iterator[None]:
    """Start processes in this block: they get the workers' environment, and no Ctrl-C while they import."""
    with _environment(WORKER_ENVIRONMENT), signals_deferred():
        yield


@contextmanager
def signals_deferred() -> Iterator[None]:
    """Defer SIGINT and SIGTERM until the block ends; processes started inside inherit the blocked mask of SIGINT.

    A process that heard Ctrl-C while it imports would say so with a traceback.
    """
    if threading.current_thread() is not threading.main_thread() or not hasattr(signal, "pthread_sigmask"):
        yield
        return
    heard: list[int] = []
    before: dict[int, Any] = {}
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        for number in (signal.SIGINT, signal.SIGTERM):
            before[number] = signal.signal(number, lambda number, frame: heard.append(number))
        yield
    finally:
        for known, handler in before.items():
            signal.signal(known, handler)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    if heard:
        signal.raise_signal(heard[0])


@contextmanager
def torch_threads(count: int) -> Iterator[None]:
    """Have torch compute on so many threads while this lasts."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextmanager
def _environment(changes: dict[str, str]) -> Iterator[None]:
    """These variables while this lasts; processes started meanwhile inherit them."""
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
