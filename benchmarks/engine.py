"""The engine's cost over the same forward passes in as many bare processes."""

from __future__ import annotations

import multiprocessing
import os
import tempfile
import time
from pathlib import Path

import torch

import farout
from benchmarks.timing import Time, show
from farout.networks import create, save_weights
from farout.processes import WORKER_ENVIRONMENT
from farout.study.spec import StudySpec
from farout.tensors import CHUNK

IMAGES, WORKERS = 4096, os.cpu_count() or 1


def bare(images: int, ready: multiprocessing.synchronize.Barrier, done: multiprocessing.SimpleQueue[float]) -> None:
    """One process's share of the forward passes, with one thread."""
    torch.set_num_threads(1)
    network = create("resnet20", classes=4, side=32)
    batch = network.normalize(torch.rand(CHUNK, 3, 32, 32))
    with torch.inference_mode():
        network.module(batch)
        ready.wait()
        start = time.perf_counter()
        for _ in range(images // CHUNK):
            network.module(batch)
    done.put(time.perf_counter() - start)


def bare_processes(images: int) -> float:
    """Seconds until all processes have passed their share."""
    context = multiprocessing.get_context("spawn")
    ready, done = context.Barrier(WORKERS), context.SimpleQueue()
    os.environ.update(WORKER_ENVIRONMENT)
    processes = [context.Process(target=bare, args=(images // WORKERS, ready, done)) for _ in range(WORKERS)]
    for process in processes:
        process.start()
    seconds = max(done.get() for _ in processes)
    for process in processes:
        process.join()
    return seconds


def study(weights: Path, images: int) -> StudySpec:
    """Inliers and outliers of `images` noise images each, scored by every detector that needs no fit."""
    data = {"name": "noise", "options": {"n": images}}
    network = {"name": "resnet20", "weights": str(weights), "classes": 4}
    return StudySpec.model_validate(
        {
            "name": "bench",
            "inliers": {"test": data},
            "outliers": [{**data, "options": {"n": images + 1}}],
            "networks": [network],
            "detectors": ["msp", "entropy", "mls", "ebo"],
            "budget": "full",
        }
    )


def main() -> None:
    """A study in worker processes, without its start-up, beside bare processes."""
    with tempfile.TemporaryDirectory() as folder:
        weights = Path(folder) / "weights.safetensors"
        save_weights(create("resnet20", classes=4, side=32), weights)
        seconds = {}
        for images in (CHUNK, IMAGES):
            start = time.perf_counter()
            farout.run(study(weights, images), Path(folder) / str(images), workers=WORKERS)
            seconds[images] = time.perf_counter() - start
    times = {
        "bare processes": Time(bare_processes(2 * (IMAGES - CHUNK)), 0.0),
        "farout.run, start-up taken off": Time(seconds[IMAGES] - seconds[CHUNK], 0.0),
        "start-up of a run": Time(seconds[CHUNK], 0.0),
    }
    show(f"resnet20, {2 * (IMAGES - CHUNK):,} images in {WORKERS} processes of one thread", times, "bare processes")


if __name__ == "__main__":
    main()
