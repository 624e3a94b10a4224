"""Phase of a run at this moment, read from the files that it writes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from farout.files import is_temporary
from farout.files.owners import Owner
from farout.study.engines import activity

TRAINING, FITTING, SCORING, SEARCHING, WRITING = "training", "fitting", "scoring", "searching", "writing"
BETWEEN = "starting or between results"
PHASES = (TRAINING, FITTING, SCORING, SEARCHING, WRITING, BETWEEN)
WORDS = {
    "train": TRAINING, "generate": TRAINING, "fit": FITTING, "features": FITTING, "score": SCORING, "classify": SCORING,
    "attention": SCORING, "time": SCORING, "search": SEARCHING, "attack": SEARCHING,
}  # fmt: skip
"""Phases by the first word of a result's title."""


class Busy(NamedTuple):
    """Process of a run with the phase that it is in."""

    pid: int
    phase: str


def workers(out: Path) -> list[Busy]:
    """Return the worker processes of a run."""
    return _processes(out, "worker-")


def main(out: Path, pid: int) -> Busy:
    """Return the main process of a run, in the phase of its workers unless it computes or writes itself."""
    if pid in writers(out):
        return Busy(pid, WRITING)
    phases = [busy.phase for busy in (*_processes(out, "run-"), *workers(out))]
    return Busy(pid, next((phase for phase in phases if phase not in (BETWEEN, WRITING)), BETWEEN))


def _processes(out: Path, prefix: str) -> list[Busy]:
    writing, found = writers(out), []
    for path in sorted((out / "running").glob(f"{prefix}*")):
        note = activity.read(path)
        if note and note.pid:
            found.append(Busy(note.pid, WRITING if note.pid in writing else phase_of(note.title)))
    return found


def phase_of(title: str) -> str:
    """Return the phase that computes a result of this title."""
    return WORDS.get(title.partition(" ")[0], BETWEEN)


def writers(out: Path) -> set[int]:
    """Return the processes that have begun to write a file and have not renamed it yet, dead ones included."""
    return {owner.pid for path in temporaries(out) if (owner := Owner.parse(path.name.split("-")[-2]))}


def temporaries(out: Path) -> Iterator[Path]:
    """Yield the temporary files and folders of a run."""
    with suppress(OSError):  # folders come and go
        for folder in (out, out / "cells", out / "failures", *(out / "partial").glob("*")):
            with suppress(OSError):
                yield from (path for path in folder.iterdir() if is_temporary(path))
