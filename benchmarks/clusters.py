"""The engine "ray" beside the engine "local", with as many workers, on one study in alternating runs.

Seconds of the clock say nothing on a busy machine; beside them stand the CPU seconds of all processes that a run has
started, Ray's own among them, without those of a run in which nothing is missing. `python -m benchmarks.clusters
--scale 4` takes some minutes per run on two free cores; it needs Ray (the extra ray) and Linux.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import yaml

from benchmarks.throughput import study

WORKERS = 2
ENGINES = {"local": (), "ray": ("--engine", "ray", "--address", "local")}
BECOME_PARENT = 36
"""PR_SET_CHILD_SUBREAPER: processes whose parent has ended become children of this one, as those that Ray starts."""


class Cost(NamedTuple):
    """Seconds of a command."""

    wall: float
    cpu: float


def measure(command: list[str], folder: Path) -> Cost:
    """Return the seconds of a command and of all processes that it has started, once the last has ended."""
    began, before = time.monotonic(), os.times()
    with (folder / "log").open("a") as log:
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "RAY_worker_niceness": "0"}
        process = subprocess.Popen(command, cwd=folder, env=environment, stdout=log, stderr=log)
    code = process.wait()
    wall = time.monotonic() - began
    assert code == 0, (folder / "log").read_text()[-2000:]
    try:
        while True:
            os.waitpid(-1, 0)
    except ChildProcessError:
        after = os.times()
    return Cost(wall, sum(after[2:4]) - sum(before[2:4]))


def run(engine: str, folder: Path) -> tuple[Cost, Cost]:
    """Return the seconds of a run, and of the same command again."""
    options = ["--out", engine, "--workers", str(WORKERS), "--quiet", *ENGINES[engine]]
    command = [sys.executable, "-m", "farout", "run", "study.yaml", *options]
    shutil.rmtree(folder / engine, ignore_errors=True)
    return measure(command, folder), measure(command, folder)


def main() -> None:
    """Compare."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scale", type=float, default=0.2)
    parser.add_argument("--repeats", type=int, default=3)
    given = parser.parse_args()
    ctypes.CDLL(None).prctl(BECOME_PARENT, 1, 0, 0, 0)
    print(f"\nRay beside local workers ({WORKERS} each), scale {given.scale:g}")
    print("run    engine     wall s    CPU s   idle wall s   idle CPU s   CPU s of the work   ratio of local to it")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        spec = study(folder, given.scale)
        (folder / "study.yaml").write_text(yaml.safe_dump(spec.model_dump(mode="json", exclude_defaults=True)))
        for number in range(given.repeats):
            works = {}
            for engine in ENGINES:
                whole, idle = run(engine, folder)
                works[engine] = whole.cpu - idle.cpu
                ratio = works["local"] / works[engine]
                print(
                    f"{number:<7}{engine:<8}{whole.wall:>9.1f}{whole.cpu:>9.1f}{idle.wall:>14.1f}{idle.cpu:>13.1f}"
                    f"{works[engine]:>20.1f}{ratio:>23.2f}",
                    flush=True,
                )
    print("equal bytes of results: see tests/study/engines/test_ray_cluster.py")


if __name__ == "__main__":
    main()
