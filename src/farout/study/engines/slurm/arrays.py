"""Files of a submitted array, in the folder `slurm/NAME` of a run.

pieces.json    what the tasks need: the study, settings, and the works of every task as the identities of their cells
script.sh      the batch script
job.json       id of the job; written once sbatch has accepted the script
task-N.json    progress of a task, written by it every few seconds
task-N.log     its output
task-N.notes/  activity of its processes, see activity.py
task-N.lock    held by the process that computes the task
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from farout.files import UnsafePath, check_path, has_file, make_folder, write_text
from farout.study.records import Damaged, read_verified_json, write_verified_json
from farout.study.store import Store

FOLDER = "slurm"
PIECES, JOB, SCRIPT = "pieces.json", "job.json", "script.sh"


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Piece(_Strict):
    """One work of an array task."""

    work: str
    """Id of the work."""
    title: str
    cells: list[str]


class Pieces(_Strict):
    """Content of a file of pieces."""

    study: Any
    """Content of the study file."""
    device: str
    machine: str
    workers: int
    timeout: float | None
    plugins: list[str]
    tasks: list[list[Piece]]


class Progress(_Strict):
    """Progress of an array task."""

    images: dict[str, int] = Field(default_factory=dict)
    """Number of images of every work that have been processed."""
    over: list[str] = Field(default_factory=list)
    """Works of which all images have been processed."""
    left: list[str] = Field(default_factory=list)
    """Works that were not computed, since results that they require are missing."""
    ended: bool = False
    """True once the task has nothing more to do."""


class ArrayFolder:
    """Folder of one array."""

    def __init__(self, path: Path) -> None:
        self.path, self.root = path, path.parent.parent

    @classmethod
    def create(cls, store: Store, pieces: Pieces) -> ArrayFolder:
        """Write the pieces of a new array."""
        parent = make_folder(store.root / FOLDER, store.root)
        number = 1 + max((int(path.name.partition("-")[0]) for path in _folders(store)), default=0)
        folder = cls(make_folder(parent / f"{number:04}-{uuid.uuid4().hex[:8]}", store.root))
        write_verified_json(folder.path / PIECES, pieces.model_dump(mode="json"), folder.root)
        return folder

    def pieces(self) -> Pieces:
        """Return what the tasks compute."""
        try:
            return Pieces.model_validate(read_verified_json(self.path / PIECES, self.root))
        except ValidationError as error:
            raise Damaged(self.path / PIECES, str(error.errors()[0]["msg"])) from None

    def write_script(self, text: str) -> Path:
        """Write the batch script and return its path."""
        write_text(self.path / SCRIPT, text, self.root)
        return self.path / SCRIPT

    @property
    def job(self) -> str:
        """Id of the job; empty if it is not known."""
        try:
            return str(read_verified_json(self.path / JOB, self.root)["job"])
        except (FileNotFoundError, Damaged, KeyError):
            return ""

    @job.setter
    def job(self, job: str) -> None:
        write_verified_json(self.path / JOB, {"job": job}, self.root)

    def progress(self, index: int) -> Progress:
        """Return the progress of a task; empty if it has not written any."""
        try:
            return Progress.model_validate(read_verified_json(self._progress(index), self.root))
        except (FileNotFoundError, Damaged, ValidationError):
            return Progress()

    def write_progress(self, index: int, progress: Progress) -> None:
        """Write the progress of a task."""
        write_verified_json(self._progress(index), progress.model_dump(), self.root)

    def _progress(self, index: int) -> Path:
        return self.path / f"task-{index}.json"

    def log(self, index: int) -> Path:
        """Return the path of the output of a task."""
        return self.path / f"task-{index}.log"

    def lock(self, index: int) -> Path:
        """Return the path of the lock of a task."""
        return self.path / f"task-{index}.lock"

    def notes(self, index: int) -> Path:
        """Return the folder of the activity files of a task."""
        return self.path / f"task-{index}.notes"


def find_arrays(store: Store) -> list[ArrayFolder]:
    """Return the arrays of a run, oldest first."""
    return [ArrayFolder(path) for path in _folders(store) if has_file(path / PIECES, store.root)]


def _folders(store: Store) -> Sequence[Path]:
    parent = store.root / FOLDER
    if not parent.is_dir():
        return []
    try:
        paths = sorted(check_path(parent, store.root).iterdir())
    except UnsafePath:
        return []
    return [path for path in paths if path.is_dir() and path.name.partition("-")[0].isdigit()]
