"""A clock that is set back by two days while the study runs, by libfaketime or by a plugin."""

from __future__ import annotations

import random
import shutil
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from farout.faults import watch
from farout.faults.bench import Bench, Running, finish_and_compare, last_words
from farout.faults.fault import Verdict

BACK = "-2d"
LIBRARIES = "usr/lib/*/faketime/libfaketimeMT.so.1", "usr/local/lib/faketime/libfaketimeMT.so.1"
PATCH = """\
import time
from pathlib import Path

_time, BACK = time.time, Path({file!r})
time.time = lambda: _time() - (2 * 86400 if BACK.read_text() != "+0" else 0)
"""
"""Site customization that sets `time.time` back where there is no libfaketime; C code needs the real `datetime`."""


def clock_set_back(bench: Bench, count: int, rng: random.Random, done: Callable[[int], None]) -> Verdict:
    """Set the clock back by two days at a random moment of a run, kill the run, and continue it in the past."""
    library = next((str(path) for pattern in LIBRARIES for path in Path("/").glob(pattern)), None)
    verdict = Verdict("clock set back by two days", means="libfaketime" if library else "time.time replaced")
    for number in range(count):
        out, file = bench.folder / f"clock-{number}", bench.folder / f"clock-{number}.txt"
        file.write_text("+0")
        environment = _by_library(library, file) if library else _by_patch(bench.folder / f"patch-{number}", file)
        with bench.started(out, environment=environment) as running:
            phase = _set_back(running, file, rng)
            verdict.caused(phase)
            time.sleep(rng.uniform(0, 2))
        ended = bench.finish(out, environment=environment)
        if ended.code:
            verdict.problems.append(f"{out} ended with exit code {ended.code} in the past: {last_words(ended)}")
        verdict.problems += finish_and_compare(bench, out)
        done(1)
    return verdict


def _set_back(running: Running, file: Path, rng: random.Random) -> str:
    """Set the clock back at a random moment after the run has begun to compute; return what it was doing."""
    while running.alive and all(one.phase == watch.BETWEEN for one in watch.workers(running.out)):
        time.sleep(0.01)
    time.sleep(rng.uniform(0, 2))
    file.write_text(BACK)
    return watch.main(running.out, running.process.pid).phase


def _by_library(library: str, file: Path) -> Mapping[str, str]:
    return {
        "LD_PRELOAD": library, "FAKETIME_TIMESTAMP_FILE": str(file), "FAKETIME_NO_CACHE": "1",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
    }  # fmt: skip


def _by_patch(folder: Path, file: Path) -> Mapping[str, str]:
    """Return the environment of processes that import the patch when they start."""
    import os

    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(PATCH.format(file=str(file)))
    return {"PYTHONPATH": os.pathsep.join(filter(None, (str(folder), os.environ.get("PYTHONPATH", ""))))}
