"""Batches of a chunk: the whole chunk at once, and smaller parts where memory runs out."""

from __future__ import annotations

import gc
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
import torch

from farout.memory import OutOfMemory, is_out_of_memory
from farout.study.cells.cell import Arrays, Record

BATCH = "batch"
"""Key of the largest number of images at a time, in the results of a chunk and in facts; absent if memory sufficed."""
T = TypeVar("T")


class Batches:
    """Number of images that a job computes at a time; halved whenever memory runs out.

    The randomness of a chunk does not depend on it. Rounding does: such results are exempt from equality to the byte,
    so that their records hold the number.
    """

    def __init__(self, title: str) -> None:
        self.title = title
        self.most: int | None = None
        """Largest number of images at a time; None as long as memory suffices."""

    def map(self, total: int, compute: Callable[[slice], T]) -> list[T]:
        """Return what `compute` returns for the parts of `range(total)`, in order."""
        done: list[T] = []
        start = 0
        while start < total or not done:
            stop = total if self.most is None else min(total, start + self.most)
            try:
                done.append(compute(slice(start, stop)))
            except Exception as error:
                if not is_out_of_memory(error):
                    raise
                failed = f"{type(error).__name__}: {error}".splitlines()[0]
            else:
                start = stop
                continue
            self._halve(stop - start, failed)
        return done

    def _halve(self, size: int, error: str) -> None:
        """Halve the batches after a failure with `size` images; raise if it was one."""
        gc.collect()
        if torch.cuda.is_available():
            torch.cuda.empty_cache()
        if size <= 1:
            raise OutOfMemory(
                f"memory ran out even for one image at a time ({error}): give more memory (--memory), or fewer workers"
            )
        self.most = size // 2
        logging.getLogger("farout").warning(
            f"{self.title}: memory ran out with {size} images at a time, so it goes on with {self.most} ({error})"
        )

    @property
    def note(self) -> Arrays:
        """Entry for the results of a chunk."""
        return {} if self.most is None else {BATCH: np.array(self.most)}


class SmallestBatch:
    """Smallest batch among the chunks of a job, for its records."""

    def __init__(self) -> None:
        self.facts: dict[str, Any] = {}

    def see(self, results: Arrays) -> Arrays:
        """Note the batch of a chunk's results; return the results without it."""
        if BATCH in results:
            self.facts = {BATCH: min(int(results[BATCH]), self.facts.get(BATCH, int(results[BATCH])))}
        return {name: rows for name, rows in results.items() if name != BATCH}

    def noted(self, record: Record) -> Record:
        """Return the record with the batch among its facts."""
        return record._replace(facts={**record.facts, **self.facts}) if self.facts else record


def joined(parts: Sequence[Mapping[str, Any]]) -> Arrays:
    """Return arrays by name, concatenated over parts."""
    if len(parts) == 1:
        return dict(parts[0])
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
