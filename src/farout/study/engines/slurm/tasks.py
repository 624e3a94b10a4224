"""Array tasks of a run that have not ended."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from farout.files import open_file
from farout.study.engines.slurm import client
from farout.study.engines.slurm.arrays import ArrayFolder, Piece, find_arrays
from farout.study.engines.slurm.client import State
from farout.study.engines.slurm.script import job_name
from farout.study.store import Store


@dataclass(eq=False)
class ArrayTask:
    """Array task that has not ended, as far as this run knows."""

    folder: ArrayFolder
    job: str
    index: int
    pieces: dict[str, Piece]
    """Its works by id."""
    after: list[ArrayTask] = field(default_factory=list)
    """Tasks that must end before it."""
    numbers: dict[str, int] = field(default_factory=dict)
    """Numbers of the scheduler's tasks that wait for it, by id of the work."""
    images: Counter[str] = field(default_factory=Counter)
    """Images that have been reported to the scheduler, by id of the work."""
    state: State = State("PENDING", "None")  # noqa: RUF009
    absent_since: float | None = None
    closed: bool = False

    @property
    def id(self) -> str:
        """Slurm's name of the task."""
        return f"{self.job}_{self.index}"


def array_tasks(folder: ArrayFolder) -> list[ArrayTask]:
    """Return the tasks of a submitted array."""
    tasks = folder.pieces().tasks
    return [
        ArrayTask(folder, folder.job, index, {piece.work: piece for piece in task}) for index, task in enumerate(tasks)
    ]


def running_tasks(store: Store) -> list[ArrayTask]:
    """Return the array tasks of a store that wait or run, oldest first."""
    arrays = find_arrays(store)
    queue = client.read_queue() if arrays else {}
    jobs = {name: state.job for (name, _), state in queue.items() if state.live}
    running = []
    for folder in (one for one in arrays if job_name(one.path) in jobs):
        if not folder.job:  # the run was killed just after it had submitted the array
            folder.job = jobs[job_name(folder.path)]
        for task in array_tasks(folder):
            state = queue.get((job_name(folder.path), task.index))
            if state is not None and state.live:
                task.state = state
                running.append(task)
    return running


def dependencies(tasks: Sequence[ArrayTask]) -> list[str]:
    """Return what sbatch is told to wait for: whole jobs where all of their tasks are meant."""
    jobs: dict[str, list[ArrayTask]] = {}
    for task in tasks:
        jobs.setdefault(task.job, []).append(task)
    named = []
    for job, members in jobs.items():
        whole = len(members) == len(members[0].folder.pieces().tasks)
        named += [job] if whole else [task.id for task in members]
    return named


def last_line(path: Path) -> str:
    """Return the last line of a log file; empty if there is none."""
    try:
        with open_file(path) as file:
            file.seek(max(0, path.stat().st_size - 2000))
            lines = file.read(2000).decode(errors="replace").split("\n")
    except OSError:
        return ""
    return next((line.strip()[:300] for line in reversed(lines) if line.strip()), "")


def job_list(tasks: Sequence[ArrayTask]) -> str:
    """Return the ids of the jobs of these tasks."""
    return " ".join(dict.fromkeys(task.job for task in tasks))
