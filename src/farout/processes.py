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
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import torch

from farout.plugins import load_plugin
from farout.study.workers import WORKER_ENVIRONMENT

PATIENCE = 1.0
"""Seconds that workers have to finish their task when all is stopped; a task must not mind being killed."""

Submit = Callable[..., Future[Any]]
"""`submit(function, *arguments)`: have `function(shared, *arguments)` computed."""


@contextmanager
def crew(workers: int, shared: Any, plugins: tuple[str, ...] = ()) -> Iterator[Submit]:
    """Who computes: so many worker processes, or this process where there are none.

    `shared` travels to every worker once. When this is left by an error or Ctrl-C, what has not been begun is dropped
    and the workers end.
    """
    if workers < 1:
        yield partial(_at_once, shared)
        return
    others = set(multiprocessing.active_children())
    context, arguments = multiprocessing.get_context("spawn"), (plugins, pickle.dumps(shared))
    pool = ProcessPoolExecutor(workers, mp_context=context, initializer=_start, initargs=arguments)
    try:
        with _environment(WORKER_ENVIRONMENT), _deaf():
            for _ in range(workers):
                pool.submit(os.getpid)  # processes are started when there is work for them
        yield lambda function, *arguments: pool.submit(_call, function, *arguments)
    except BaseException:
        _stop(pool, others)
        raise
    pool.shutdown()


def _at_once(shared: Any, function: Callable[..., Any], *arguments: Any) -> Future[Any]:
    answer: Future[Any] = Future()
    answer.set_result(function(shared, *arguments))
    return answer


_shared: Any


def _start(plugins: tuple[str, ...], packed: bytes) -> None:
    """Set a worker up: one thread, Ctrl-C left to the parent, an end when the parent ends."""
    global _shared
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    assert parent is not None
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()
    torch.set_num_threads(1)
    for plugin in plugins:
        load_plugin(Path(plugin))
    _shared = pickle.loads(packed)  # after the plugins, whose classes it may need


def _call(function: Callable[..., Any], *arguments: Any) -> Any:
    return function(_shared, *arguments)


def _end_with(parent: BaseProcess) -> None:
    parent.join()
    os._exit(1)


def _stop(pool: ProcessPoolExecutor, others: set[BaseProcess]) -> None:
    """End the workers: by themselves if they do it soon, else by force."""
    workers = [process for process in multiprocessing.active_children() if process not in others]
    try:
        pool.shutdown(wait=False, cancel_futures=True)
        running, deadline = [worker.sentinel for worker in workers], time.monotonic() + PATIENCE
        while running and (left := deadline - time.monotonic()) > 0:
            running = [end for end in running if end not in wait(running, left)]
    finally:  # also when the user has lost patience
        for worker in workers:
            worker.kill()


@contextmanager
def _deaf() -> Iterator[None]:
    """Ctrl-C is not heard by processes that are started meanwhile, not even while they import."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


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
