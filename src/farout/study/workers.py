"""Who computes chunks: this process, or worker processes with one torch thread each."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from queue import Empty
from typing import Any, NamedTuple

import torch

from farout.processes import SPAWN, process_pool
from farout.study.cell import Arrays, Chunk, Job, Work
from farout.study.store import Store

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
    words: Any = SPAWN.Queue()
    over = SPAWN.RawValue("b", False)  # without a lock, which a worker that is killed might hold
    packed: dict[str, bytes] = {}

    def pickled(work: Work) -> bytes:
        """The work as it travels to our own workers; never stored."""
        if work.id not in packed:
            packed.clear()
            packed[work.id] = pickle.dumps(work)
        return packed[work.id]

    with process_pool(workers, _start, (str(store.root), str(device), words, over), plugins, PATIENCE) as pool:
        try:
            yield Pool(lambda work, chunk: pool.submit(_run, work.id, pickled(work), chunk), lambda: _heard(words))
        except BaseException:
            over.value = True
            raise


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


def _start(root: str, device: str, words: Any, over: Any) -> None:
    global _store, _device, _words, _over
    _store, _device, _words, _over = Store(root), torch.device(device), words, over
    words.cancel_join_thread()  # what nobody listens to any more need not be said


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
