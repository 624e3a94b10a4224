"""Text of the batch script of an array."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

from farout.data.download import OFFLINE
from farout.processes import WORKER_ENVIRONMENT
from farout.study.engines.slurm.options import SlurmOptions

ENVIRONMENT = {**WORKER_ENVIRONMENT, OFFLINE: "1", "HF_HUB_OFFLINE": "1"}
"""Environment of tasks and of their workers; what a study needs was downloaded when it was planned."""
SIGNAL_SECONDS = 60
"""Seconds before its time limit at which a task is told to stop; Slurm may be up to a minute earlier."""


def job_name(folder: Path) -> str:
    """Return the name of the job of an array, by which it is found in the queue."""
    return f"farout-{folder.name}"


def script(folder: Path, tasks: int, after: Sequence[str], workers: int, options: SlurmOptions) -> str:
    """Return the script of an array whose files are in this folder.

    after: jobs or tasks that must have ended, such as 12 or 12_3.
    """
    log = str(folder / "task-%a.log").replace(str(folder), str(folder).replace("%", "%%"))
    directives = [
        f"--job-name={job_name(folder)}",
        f"--array=0-{tasks - 1}",
        f"--output={_quote(log)}",
        "--open-mode=append",
        "--requeue",
        f"--signal=B:USR1@{SIGNAL_SECONDS}",
        f"--cpus-per-task={max(1, workers)}",
        *options.directives,
        *([f"--dependency=afterany:{':'.join(after)}"] if after else []),
    ]
    command = [sys.executable, "-m", "farout", "work", str(folder), "--task"]
    return "\n".join(
        [
            "#!/bin/bash",
            *(f"#SBATCH {directive}" for directive in directives),
            "",
            "trap '' USR1  # ignored until farout handles it",
            f"export {' '.join(f'{name}={value}' for name, value in ENVIRONMENT.items())}",
            f'exec {shlex.join(command)} "$SLURM_ARRAY_TASK_ID"',
            "",
        ]
    )


def _quote(path: str) -> str:
    return f'"{path}"' if " " in path else path
