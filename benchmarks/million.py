"""Memory of a study of very many images: N rendered inliers fitted, N others scored, by 20 detectors on one network.

`python -m benchmarks.million 100000 --workers 2` prints the largest memory of all processes together, sampled, the
size of unfinished work on disk, and images per second of processor time beside the bare rendering and forward pass.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import resource
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch

import farout
from farout.data.scenes import worlds
from farout.data.scenes.sampling import sample
from farout.networks import create, save_weights
from farout.processes import torch_threads
from farout.progress import silent
from farout.study.spec import StudySpec
from farout.tensors import CHUNK

NETWORK, SECONDS, BARE = "lenet", 0.5, 4096
CLASSES = len(worlds.WORLDS["shapes"].inliers)
DETECTORS = [
    "msp", "entropy", "mls", "ebo", "gen", "temp_scaling", "klm", "react", "ash", "scale", "dice", "she", "vim", "mds",
    "rmds", {"name": "mds_layers", "params": {"epsilon": 0.0}}, {"name": "knn", "params": {"bank": 10_000}},
    {"name": "dn2", "params": {"bank": 10_000}}, "nnguide", "gram",
]  # fmt: skip


def write_tables(folder: Path, images: int) -> None:
    """Write the tables that the images are rendered from."""
    for split, seed, corrupted in (("train", 1, 0.0), ("test", 2, worlds.CORRUPTED)):
        table = sample(worlds.WORLDS["shapes"], split, images, seed, corrupted=corrupted)
        table.write(folder / f"{split}.parquet")


def study(folder: Path) -> StudySpec:
    """A study that fits on the images of one table and scores those of the other."""

    def table(split: str) -> str:
        return str(folder / f"{split}.parquet")

    weights = folder / "weights.safetensors"
    save_weights(create(NETWORK, classes=CLASSES, side=32), weights)
    return StudySpec.model_validate(
        {
            "name": "million",
            "inliers": {"train": table("train"), "val": "shapes:val", "test": table("test")},
            "outliers": ["shapes:test/ood_hue"],
            "networks": [{"name": NETWORK, "weights": str(weights), "classes": CLASSES}],
            "detectors": DETECTORS,
            "budget": "full",
        }
    )


class Watch(threading.Thread):
    """Thread that samples the memory of this process and its descendants, and the disk space of unfinished work."""

    def __init__(self, root: Path) -> None:
        super().__init__(daemon=True)
        self.root, self.over = root, threading.Event()
        self.resident = self.anonymous = self.disk = 0
        """Largest sums, in bytes."""
        self.each: list[int] = []
        """Resident bytes of every process when the sum was largest, this process first."""

    def run(self) -> None:
        """Sample until it is over."""
        while not self.over.wait(SECONDS):
            each = [memory(pid) for pid in family(os.getpid())]
            resident, anonymous = np.sum(each, axis=0)
            if resident > self.resident:
                self.resident, self.each = resident, [one for one, _ in each]
            self.anonymous = max(self.anonymous, anonymous)
            self.disk = max(self.disk, size(self.root / "partial"))


def family(pid: int) -> list[int]:
    """Return the ids of a process and of its descendants."""
    ids = [pid]
    for one in ids:
        for path in Path(f"/proc/{one}/task").glob("*/children"):
            ids += map(int, read(path).split())
    return ids


def memory(pid: int) -> tuple[int, int]:
    """Return the bytes of a process that are resident, and those of them that belong to no file."""
    lines = (line.split() for line in read(Path(f"/proc/{pid}/status")).splitlines())
    fields = {line[0]: int(line[1]) * 1024 for line in lines if line and line[0] in ("VmRSS:", "RssAnon:")}
    return fields.get("VmRSS:", 0), fields.get("RssAnon:", 0)


def size(folder: Path) -> int:
    """Return the bytes of all files of a folder that others change meanwhile."""
    total = 0
    for path in folder.rglob("*"):
        try:
            total += path.stat().st_size
        except OSError:
            continue
    return total


def read(path: Path) -> str:
    """Return the text of a file; empty if its process has ended."""
    try:
        return path.read_text()
    except OSError:
        return ""


def processor_seconds() -> float:
    """Return the processor time of this process and of its children that have ended."""
    both = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(one.ru_utime + one.ru_stime for one in both)


def bare(path: str) -> float:
    """Return the seconds of processor time for rendering an image and passing it through the network."""
    images, network = farout.load(path), create(NETWORK, classes=CLASSES, side=32)
    indices = [np.arange(first, first + CHUNK) for first in range(0, min(BARE, len(images)) - CHUNK + 1, CHUNK)]
    with torch_threads(1), torch.inference_mode():
        network.module(network.normalize(images.batch(indices[0])))
        began = processor_seconds()
        for part in indices:
            network.module(network.normalize(images.batch(part)))
    return (processor_seconds() - began) / (len(indices) * CHUNK)


def main(arguments: Sequence[str] = ()) -> None:
    """Run the study and print what it took."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.million", description=__doc__)
    parser.add_argument("images", type=int, nargs="?", default=1_000_000, help="images to fit on, and to score")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--folder", help="where the run lies; by default a temporary folder that is removed")
    given = parser.parse_args(list(arguments))
    with tempfile.TemporaryDirectory(dir=given.folder) as name:
        folder, began = Path(name), time.perf_counter()
        writing = multiprocessing.get_context("spawn").Process(target=write_tables, args=(folder, given.images))
        writing.start()
        writing.join()
        assert writing.exitcode == 0, "the tables were not written"
        spec = study(folder)
        watch, before = Watch(folder / "run"), processor_seconds()
        watch.start()
        result = farout.run(spec, folder / "run", workers=given.workers, progress=silent)
        watch.over.set()
        seconds, passed = processor_seconds() - before, 2 * given.images
        assert not result.outcome.failed, result.outcome.failed
        alone, kept = bare(str(folder / "train.parquet")), size(folder / "run")
    print(
        f"{given.images:,} images fitted and {given.images:,} scored by {len(DETECTORS)} detectors on {NETWORK}, "
        f"{given.workers} workers, {time.perf_counter() - began:.0f} s\n"
        f"largest memory of all processes: {watch.resident / 2**30:.2f} GiB, without mapped files and libraries "
        f"{watch.anonymous / 2**30:.2f} GiB; of each process then: "
        f"{', '.join(f'{one / 2**30:.2f}' for one in watch.each)} GiB\n"
        f"unfinished work on disk: at most {watch.disk / 2**20:.0f} MiB; results: {kept / 2**20:.0f} MiB\n"
        f"images per second of processor time: {passed / seconds:.0f}; rendered and passed only: {1 / alone:.0f}"
    )


if __name__ == "__main__":
    main(sys.argv[1:])
