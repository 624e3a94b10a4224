"""Throughput of a study on all cores beside as many bare processes that compute the same chunks.

The study has cells of evg, rood and evasion, and two networks to train. A bare process loads what it needs and computes
its chunks one after another: no scheduler, no store, no messages. `python -m benchmarks.throughput --scale 10` takes
about ten minutes on two cores; how the chunks themselves compare with bare forward passes, attacks and training loops
is measured by `benchmarks.search`, `.attacks` and `.training`.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch

import farout
from benchmarks.timing import Time, show
from farout.networks import create, save_weights
from farout.processes import WORKER_ENVIRONMENT
from farout.progress import Event
from farout.protocols import plan
from farout.study.cells.cell import Work, closure
from farout.study.engines.run import group_works
from farout.study.spec import StudySpec
from farout.study.store import Store
from farout.study.study import from_spec

WORKERS = os.cpu_count() or 1


def study(folder: Path, scale: float) -> StudySpec:
    """A study whose length grows with the scale; the unit is about a minute on two cores."""

    def noise(name: str, n: float) -> str:
        rng, count = np.random.default_rng(0), max(64, round(n))
        path = folder / f"{name}.npz"
        np.savez(path, images=rng.integers(0, 256, (count, 32, 32, 3), np.uint8), labels=np.arange(count) % 4)
        return str(path)

    weights = folder / "weights.safetensors"
    save_weights(create("resnet20", classes=4, side=32), weights)

    return StudySpec.model_validate(
        {
            "name": "throughput",
            "inliers": {"train": noise("train", 2000 * scale), "test": noise("test", 1500 * scale)},
            "outliers": [noise("outliers", 1501 * scale)],
            "networks": [
                {"name": "resnet20", "weights": str(weights), "classes": 4},
                {"name": "lenet", "train": {"epochs": 8}},
                {"name": "alexnet", "train": {"epochs": 2}},
            ],
            "detectors": ["msp", "ebo", "knn", "mds"],
            "protocols": [
                {"name": "evg", "variations": ["affine", "color"], "chains": 128, "steps": max(5, round(20 * scale))},
                {"name": "rood", "setups": {"C": ["fog", "contrast", "brightness"]}},
                {"name": "evasion", "attacks": ["fgsm", "pgd"], "images": max(16, round(200 * scale))},
            ],
            "budget": "standard",
        }
    )  # fmt: skip


def bare(works: Sequence[Work], root: Path, turn: object, ready: object, done: object) -> None:
    """Compute chunks of the works, the next one that no process has taken, until none is left."""
    torch.set_num_threads(1)
    store, jobs = Store(root), {}
    chunks = [(number, chunk) for number, work in enumerate(works) for chunk in work.chunks]
    ready.wait()  # type: ignore[attr-defined]
    began = time.perf_counter()
    while True:
        with turn.get_lock():  # type: ignore[attr-defined]
            place, turn.value = turn.value, turn.value + 1  # type: ignore[attr-defined]
        if place >= len(chunks):
            break
        number, chunk = chunks[place]
        if number not in jobs:
            jobs = {number: works[number].prepare(store, torch.device("cpu"))}
        jobs[number].run(chunk, lambda images: None)
    done.put(time.perf_counter() - began)  # type: ignore[attr-defined]


def bare_processes(works: Sequence[Work], root: Path) -> float:
    """Return the seconds until all chunks are computed; the store holds what they require."""
    context = multiprocessing.get_context("spawn")
    turn, ready, done = context.Value("l", 0), context.Barrier(WORKERS), context.SimpleQueue()
    os.environ.update(WORKER_ENVIRONMENT)
    processes = [context.Process(target=bare, args=(works, root, turn, ready, done)) for _ in range(WORKERS)]
    for process in processes:
        process.start()
    seconds = max(done.get() for _ in processes)
    for process in processes:
        process.join()
    return float(seconds)


class FirstImage:
    """Listener that notes when the first images of a run were computed."""

    def __init__(self) -> None:
        self.began = self.first = time.perf_counter()

    def __call__(self, event: Event) -> None:
        if self.first == self.began and event.unit == "images" and event.done:
            self.first = time.perf_counter()


def main(arguments: Sequence[str] = ()) -> None:
    """Print seconds of the run without its start-up, and of the bare processes."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.throughput", description=__doc__)
    parser.add_argument("--scale", type=float, default=1.0, help="length of the study, about in minutes on two cores")
    given = parser.parse_args(list(arguments))
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "run"
        made = from_spec(study(Path(folder), given.scale))
        entries = plan(made)
        listener = FirstImage()
        result = farout.run(made, root, workers=WORKERS, progress=listener)
        ended = time.perf_counter()
        assert not result.outcome.failed, result.outcome.failed
        works = group_works(closure([entry.cell for entry in entries]))
        works.sort(key=lambda work: "train" not in work.roles)
        times = {
            "bare processes": Time(bare_processes(works, root), 0.0),
            "farout.run, from the first images on": Time(ended - listener.first, 0.0),
            "farout.run until the first images": Time(listener.first - listener.began, 0.0),
        }
    images = sum(work.total_cost for work in works)
    show(f"evg, rood, evasion, two trainings: {images:,} images, {WORKERS} processes of one thread", times,
         "bare processes")  # fmt: skip
    ratio = times["bare processes"].seconds / times["farout.run, from the first images on"].seconds
    print(f"throughput of the run: {ratio:.2f} of the bare processes'")


if __name__ == "__main__":
    main(sys.argv[1:])
