"""The commands of Slurm: sbatch, squeue, scancel and scontrol."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Collection
from pathlib import Path
from typing import NamedTuple

ENDED = {
    "BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED", "NODE_FAIL", "OUT_OF_MEMORY", "PREEMPTED", "TIMEOUT",
}  # fmt: skip
"""States of tasks that have ended. A task that Slurm requeues goes from one of these back to PENDING."""
SECONDS = 120.0
"""Time limit of a command; a busy controller answers late."""


class SlurmError(RuntimeError):
    """A command of Slurm is missing or has failed."""


class State(NamedTuple):
    """State of an array task."""

    state: str
    reason: str
    """Why it is pending; "None" if there is no reason."""
    job: str = ""
    """Id of the job."""

    @property
    def live(self) -> bool:
        """True if it waits or runs."""
        return self.state not in ENDED

    @property
    def held(self) -> bool:
        """True if it waits until somebody releases it, for example since a node could not start it."""
        return self.live and (self.reason.lower().startswith("jobheld") or self.reason.lower().endswith("_held"))

    def __str__(self) -> str:
        return self.state if self.reason in ("", "None") else f"{self.state}, {self.reason}"


Queue = dict[tuple[str, int], State]
"""States by name of the job and index of the task: those that wait or run, and those that ended minutes ago."""


def available() -> bool:
    """Return True if the commands of Slurm are installed."""
    return shutil.which("squeue") is not None


def submit(script: Path) -> str:
    """Submit a batch script and return the id of its job."""
    found = re.match(r"\d+", _run("sbatch", "--parsable", str(script)))
    if found is None:
        raise SlurmError(f"sbatch gave no job id for {script}")
    return found[0]


def read_queue() -> Queue:
    """Return the states of the user's array tasks."""
    queue: Queue = {}
    for line in _run("squeue", "--me", "--noheader", "--array", "--states=all", "--format=%j|%K|%F|%T|%r").splitlines():
        name, index, job, state, reason = (*line.strip().split("|"), "", "", "", "")[:5]
        if index.isdigit() and name.startswith("farout-"):
            queue[name, int(index)] = State(state, reason, job)
    return queue


def cancel(jobs: Collection[str]) -> None:
    """Cancel jobs with all their tasks."""
    _run("scancel", *sorted(jobs))


def requeue(task: str) -> None:
    """Put a running task, such as 12_3, back into the queue; this ends its processes."""
    _run("scontrol", "requeue", task)


def _run(command: str, *arguments: str) -> str:
    try:
        done = subprocess.run([command, *arguments], capture_output=True, text=True, timeout=SECONDS, check=False)
    except FileNotFoundError:
        raise SlurmError(f"{command} is not installed here: run this on a login node of a Slurm cluster") from None
    except subprocess.TimeoutExpired:
        raise SlurmError(f"{command} gave no answer within {SECONDS:g} s") from None
    if done.returncode:
        raise SlurmError(f"{command} failed: {done.stderr.strip() or f'exit code {done.returncode}'}")
    return done.stdout
