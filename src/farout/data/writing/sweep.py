"""Apply shifts to images and write the results, in this process or in workers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from farout.core import SHIFTED_AT_ONCE, ImageSet, Shift
from farout.data.arrays import as_bytes, as_floats
from farout.data.writing.layout import Group, Job, Layout, Sink
from farout.files import atomic_file
from farout.processes import Submit
from farout.progress import Event, Listener
from farout.tensors import chunks


def write_originals(images: ImageSet, path: Path, progress: Listener) -> None:
    """Write the images as raw 8-bit pixels: they are decoded or rendered once, and all workers map the same file."""
    with atomic_file(path) as temporary, temporary.open("wb") as file:
        for part in chunks(len(images), _at_once(images)):
            file.write(as_bytes(images.batch(np.arange(part.start, part.stop))).tobytes())
            progress(Event(f"reading {part.stop:,} of {len(images):,}"))


def _at_once(images: ImageSet) -> int:
    """Return the number of images per task."""
    return 4 * max(1, SHIFTED_AT_ONCE // int(np.prod(images.shape)))


class Plan(NamedTuple):
    """Data that all tasks share."""

    originals: Path
    shape: tuple[int, ...]
    """[N, H, W, C]."""
    shifts: tuple[Shift | None, ...]
    """Shift of each job."""
    seed: int


def run_jobs(
    layout: Layout,
    jobs: Sequence[Job],
    submit: Submit,
    window: int,
    progress: Listener,
    finished: Callable[[Group], None],
) -> None:
    """Run all jobs with at most `window` pending tasks; call `finished` with a group after its last job.

    Tasks of the next job are submitted before the last ones of a job are done, so that no worker is idle.
    """
    pending: dict[Future[int], Job] = {}

    def collect(until: int) -> None:
        while len(pending) > until:
            for piece in wait(pending, return_when=FIRST_COMPLETED).done:
                count(pending.pop(piece), piece.result())

    def count(job: Job, images: int) -> None:
        if job.left == images:
            layout.finish(job)
        job.left -= images
        if not any(other.left for other in jobs if other.group is job.group):
            finished(job.group)
        progress(Event(job.group.name if job.shift is None else job.shift.label, images))

    for number, job in enumerate(jobs):
        layout.begin(job)
        for part in chunks(len(job.rows), _at_once(layout.images)):
            collect(until=window)
            rows = job.rows[part]
            pending[submit(_shift_batch, number, rows, layout.sink(job, rows))] = job
    collect(until=0)


def _shift_batch(plan: Plan, number: int, rows: NDArray[np.int64], sink: Sink) -> int:
    """Apply the shift of a job to a batch of images, write them, and return their number."""
    pixels = np.asarray(np.memmap(plan.originals, np.uint8, "r", shape=plan.shape)[rows])
    shift = plan.shifts[number]
    if shift is not None:
        pixels = as_bytes(shift(as_floats(pixels.transpose(0, 3, 1, 2)), plan.seed, rows.tolist()))
    sink(pixels)
    return len(rows)


def build_plan(images: ImageSet, originals: Path, jobs: Sequence[Job], seed: int) -> Plan:
    """Return the data that all tasks of these jobs share."""
    channels, height, width = images.shape
    return Plan(originals, (len(images), height, width, channels), tuple(job.shift for job in jobs), seed)
