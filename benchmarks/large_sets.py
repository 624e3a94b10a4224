"""A folder and a tar of 200,000 images, fitted and scored by a panel: peak memory and images per second.

`python -m benchmarks.large_sets [--images 200000]`; the images are written to a temporary folder and removed. Every
format is scored in a process of its own, whose peak memory is that of importing, surveying, fitting and scoring. The
first time, every image is looked at for damage (the survey); the second time, that is remembered. Detectors are fitted
on every tenth image. Rates are per second of the processor's time, so that it matters little what else runs on the
machine.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from benchmarks.reading import CLASSES, encode, write_folder, write_tar

DETECTORS = ("msp", "ebo", "mls", "entropy", "mds", "rmds", "vim", "react", "knn", "klm")
LIMIT_GIB, SIDE, KINDS = 4.0, 32, 1000


def write(folder: Path, total: int) -> None:
    """Write a folder and a tar of PNG images: some thousand different ones, in turn."""
    rng = np.random.default_rng(0)
    few = [encode(pixels) for pixels in rng.integers(0, 256, (KINDS, SIDE, SIDE, 3), np.uint8)]
    images = [few[number % KINDS] for number in range(total)]
    write_folder(folder / "folder", images)
    write_tar(folder / "tar.tar", images)


def score(path: str) -> None:
    """Survey, fit and score a set in this process; print seconds and peak memory."""
    import torch

    import farout

    torch.set_num_threads(1)
    seconds = {"survey": -time.process_time()}
    images = farout.load(path)
    _ = images.fingerprint, images.shape
    seconds["survey"] += time.process_time()
    network = farout.networks.create("lenet", CLASSES, SIDE)
    seconds["bare"] = -time.process_time()
    with torch.inference_mode():
        for _ in range(200):
            network.module(torch.rand(64, 3, SIDE, SIDE))
    seconds["bare"] = (seconds["bare"] + time.process_time()) * len(images) / (200 * 64)
    panel = farout.Panel(network, list(DETECTORS))
    seconds["fit"] = -time.process_time()
    panel.fit(images.subset(np.arange(0, len(images), 10)), images.subset(np.arange(5, len(images), 50)))
    seconds["fit"] += time.process_time()
    seconds["score"] = -time.process_time()
    found = panel.score(images)
    seconds["score"] += time.process_time()
    assert all(len(scores) == len(images) and np.isfinite(scores).all() for scores in found.values())
    peak = int(re.search(r"VmHWM:\s+(\d+)", Path("/proc/self/status").read_text())[1]) / 2**20  # type: ignore[index]
    rates = "".join(f"{len(images) / seconds[what]:>12,.0f}" for what in ("bare", "score", "survey"))
    said = "" if peak < LIMIT_GIB else f"  more than {LIMIT_GIB} GiB"
    print(f"{len(images):>10,}{rates}{seconds['survey']:>10.1f} s{peak:>10.2f} GiB{said}")


def main() -> None:
    """Write the sets, and score each in processes of their own: the first time, and when its survey is known."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--images", type=int, default=200_000)
    parser.add_argument("--score", help="score this set in this process")
    options = parser.parse_args()
    if options.score:
        score(options.score)
        return
    print(f"{len(DETECTORS)} detectors on lenet, {SIDE} px, one thread; images per second of the processor's time:")
    print("the bare forward pass, scoring, and opening the set (the survey)")
    print(f"{'':<20}{'images':>10}{'bare':>12}{'score':>12}{'open':>12}{'open':>12}{'peak':>14}", flush=True)
    with tempfile.TemporaryDirectory() as place:
        write(Path(place), options.images)
        time.sleep(3)  # facts of files that have just been written are not kept
        for name in ("folder", "tar.tar"):
            for what in ("first", "again"):
                print(f"{name + ', ' + what:<20}", end="", flush=True)
                command = [sys.executable, "-m", "benchmarks.large_sets", "--score", str(Path(place) / name)]
                subprocess.run(command, check=True, env={**os.environ, "FAROUT_DATA": f"{place}/cache"})


if __name__ == "__main__":
    main()
