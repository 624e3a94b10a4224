"""Full disks: a file system that is full while the study runs, or a limit on the size of files where none can be
mounted."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from farout.faults.bench import Bench, Ended, finish_and_compare, last_words
from farout.faults.fault import Verdict
from farout.files import files_in

SPARE, BLOCK = 256 << 20, 4096
"""Bytes of the mounted file system beyond those of the finished run, and of a block, which a file takes whole."""
STEPS = 0.02, 0.4
"""Largest parts of a run's size that are free when the study goes on: hardly anything, or much of what it needs."""
RUN, FILLER = "filled-run", "filler"
LIMITED = "import resource, os, sys; n = int(sys.argv[1]); resource.setrlimit(resource.RLIMIT_FSIZE, (n, n)); "
LIMITED += "os.execvp(sys.argv[2], sys.argv[2:])"


def full_disks(bench: Bench, count: int, rng: random.Random, done: Callable[[int], None]) -> Verdict:
    """Run the study on a disk that is full after a random number of bytes, again and again; at last with enough."""
    verdict = Verdict("full disk")
    size = sum(-(-path.stat().st_size // BLOCK) * BLOCK for path in files_in(bench.reference))
    with _mounted(bench.folder / "small-disk", SPARE + size) as disk:
        verdict.means = (
            "a tmpfs that is full (ENOSPC)" if disk else "a limit on the size of files (RLIMIT_FSIZE, EFBIG): not root"
        )
        cause, out = _fill_up if disk else _limit_files, (disk or bench.folder) / RUN
        while verdict.count < count:
            ended = cause(bench, disk or bench.folder, size, rng)
            _judge(verdict, ended, done)
            if ended.code == 0:  # there was enough space
                verdict.problems += bench.differences(out)
                shutil.rmtree(out)
        (out.parent / FILLER).unlink(missing_ok=True)
        verdict.problems += finish_and_compare(bench, out)
    return verdict


def _judge(verdict: Verdict, ended: Ended, done: Callable[[int], None]) -> None:
    """Count a full disk, unless the run did not need the space; it must be named in one error."""
    if ended.code == 0:
        return
    done(1)
    error = next((line for line in ended.text.splitlines() if line.startswith("error: ")), "")
    verdict.caused("while results were written" if "finished results are kept" in error else "at the start of a run")
    if ended.code < 0 or not any(words in error for words in ("No space left", "File too large")):
        verdict.problems.append(f"exit code {ended.code} does not tell of the full disk: {last_words(ended)}")
    if "Traceback (most recent call last)" in ended.text:
        verdict.problems.append(f"a traceback instead of an error: {last_words(ended)}")


def _fill_up(bench: Bench, disk: Path, size: int, rng: random.Random) -> Ended:
    """Run the study beside a large file that leaves a random number of bytes."""
    _fill(disk / FILLER, disk, int(rng.uniform(0, rng.choice(STEPS)) * size))
    return bench.finish(disk / RUN, workers=rng.choice([0, bench.workers]))


def _fill(filler: Path, disk: Path, free: int) -> None:
    """Write a file that leaves this number of bytes."""
    filler.unlink(missing_ok=True)
    space = shutil.disk_usage(disk).free
    with filler.open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, max(1, space - free))


def _limit_files(bench: Bench, folder: Path, size: int, rng: random.Random) -> Ended:
    """Run the study with a limit on the size of every file that it writes."""
    largest = max(path.stat().st_size for path in files_in(bench.reference / "cells"))
    prefix = [sys.executable, "-c", LIMITED, str(int(rng.uniform(0.01, 0.9) * largest))]
    with bench.started(folder / RUN, prefix=prefix) as running:
        return running.wait()


@contextmanager
def _mounted(folder: Path, size: int) -> Iterator[Path | None]:
    """Mount a small file system and yield its folder; None if this is not allowed."""
    folder.mkdir(exist_ok=True)
    if not run_as_root("mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)):
        yield None
        return
    try:
        yield folder
    finally:
        run_as_root("umount", "-l", str(folder))


def run_as_root(*command: str, allowed: Sequence[int] = (0,)) -> bool:
    """Run a command that only root may run; return False if this process is not root, or the command fails."""
    if not hasattr(os, "geteuid") or os.geteuid() != 0:
        return False
    with suppress(OSError):
        return subprocess.run(command, capture_output=True, check=False).returncode in allowed
    return False
