"""Who computes chunks: this process, or worker processes with one torch thread each."""

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
from multiprocessing.connection import wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from queue import Empty
from typing import Any, NamedTuple

import torch

from farout.plugins import load_plugin
from farout.study.cell import Arrays, Chunk, Job, Work
from farout.study.store import Store

WORKER_ENVIRONMENT = {
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    # glibc gives large blocks back to the system after every batch and faults them in again; these keep them
    "MALLOC_MMAP_THRESHOLD_": str(1 << 30),
    "MALLOC_TRIM_THRESHOLD_": str(4 << 30),
    "MALLOC_TOP_PAD_": str(256 << 20),
}


PATIENCE = 10.0
"""Seconds that workers have to keep what they are at when a run is stopped."""


class Told(NamedTuple):
    """So many images of a chunk have been scored since the last word."""

    work: str
    chunk: str
    images: int


class Pool(NamedTuple):
    """Worker processes."""

    submit: Callable[[Work, Chunk], Future[Arrays]]
    """Hands over a chunk."""
    told: Callable[[], Iterator[Told]]
    """What workers have said of the chunks they are at."""


@contextmanager
def worker_pool(workers: int, store: Store, device: torch.device, plugins: tuple[str, ...]) -> Iterator[Pool]:
    """A pool of worker processes. Results do not depend on how many there are."""
    context = multiprocessing.get_context("spawn")
    words: Any = context.Queue()
    over = context.RawValue("b", False)  # without a lock, which a worker that is killed might hold
    arguments = (str(store.root), str(device), plugins, words, over)
    others = set(multiprocessing.active_children())
    with _environment(WORKER_ENVIRONMENT):
        pool = ProcessPoolExecutor(workers, mp_context=context, initializer=_start, initargs=arguments)
        packed: dict[str, bytes] = {}

        def pickled(work: Work) -> bytes:
            """The work as it travels to our own workers; never stored."""
            if work.id not in packed:
                packed.clear()
                packed[work.id] = pickle.dumps(work)
            return packed[work.id]

        try:
            yield Pool(lambda work, chunk: pool.submit(_run, work.id, pickled(work), chunk), lambda: _heard(words))
        except BaseException:
            over.value = True
            _stop(pool, others)
            raise
        pool.shutdown()


def _stop(pool: ProcessPoolExecutor, others: set[BaseProcess]) -> None:
    """End the workers: by themselves if they do it soon, else by force; what they had kept until then is enough."""
    workers = [process for process in multiprocessing.active_children() if process not in others]
    try:
        pool.shutdown(wait=False, cancel_futures=True)
        running, deadline = [worker.sentinel for worker in workers], time.monotonic() + PATIENCE
        while running and (left := deadline - time.monotonic()) > 0:
            running = [end for end in running if end not in wait(running, left)]
    finally:  # also when the user has lost patience
        for worker in workers:
            worker.kill()


def _heard(words: Any) -> Iterator[Told]:
    while True:
        try:
            yield words.get_nowait()
        except Empty:
            return


_store: Store
_device: torch.device
_words: Any
_over: Any
_jobs: dict[str, Job] = {}
"""The work this worker has made ready lately."""


def _start(root: str, device: str, plugins: tuple[str, ...], words: Any, over: Any) -> None:
    """Set a worker up: one thread, Ctrl-C left to the parent, an end when the parent ends."""
    global _store, _device, _words, _over
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    assert parent is not None
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()
    torch.set_num_threads(1)
    for plugin in plugins:
        load_plugin(Path(plugin))
    _store, _device, _words, _over = Store(root), torch.device(device), words, over
    words.cancel_join_thread()  # what nobody listens to any more need not be said


def _end_with(parent: BaseProcess) -> None:
    parent.join()
    os._exit(1)


def _run(work_id: str, packed: bytes, chunk: Chunk) -> Arrays:
    if work_id not in _jobs:
        if len(_jobs) >= 2:
            del _jobs[next(iter(_jobs))]
        work: Work = pickle.loads(packed)
        _jobs[work_id] = work.prepare(_store, _device)

    def progress(images: int) -> None:
        if _over.value:
            raise RunIsOver
        _words.put(Told(work_id, str(chunk), images))

    return _jobs[work_id].run(chunk, progress)


class RunIsOver(Exception):
    """The parent has been stopped: nobody waits for this chunk any more."""


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
