"""Computation of one task of a Slurm array, on a node; and the scripts that a run would submit."""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from farout import interrupts
from farout.data.download import offline
from farout.devices import as_device
from farout.plugins import load_plugin
from farout.progress import Listener
from farout.protocols import plan
from farout.study.cells.cell import Cell, closure
from farout.study.engines.executor import parse_options
from farout.study.engines.run import Outcome, group_works
from farout.study.engines.slurm import client
from farout.study.engines.slurm.arrays import FOLDER, ArrayFolder
from farout.study.engines.slurm.options import SlurmOptions
from farout.study.engines.slurm.packing import array_lines, pack
from farout.study.engines.slurm.script import script
from farout.study.engines.slurm.task import TIME_UP, TimeUp, compute_task
from farout.study.estimates.estimate import calibrate_works, hours_unit
from farout.study.spec import StudySpec
from farout.study.store import Store
from farout.study.study import from_spec


class NoProgress(RuntimeError):
    """An array task has reached its time limit without progress, so that another attempt would be of no use."""

    def __str__(self) -> str:
        return "the time limit has passed without progress: give tasks more time (--time) or less work (--task-minutes)"


def work(folder: str | Path, task: int, progress: Listener) -> Outcome | None:
    """Compute one task of the array in this folder, without downloads.

    Return None if its time limit was near, so that it was put back into Slurm's queue.
    """
    array = ArrayFolder(Path(folder).absolute())
    pieces = array.pieces()
    if not 0 <= task < len(pieces.tasks):
        raise ValueError(f"the array in {folder} has the tasks 0 to {len(pieces.tasks) - 1}, got {task}")
    for plugin in pieces.plugins:
        load_plugin(Path(plugin))
    as_device(pieces.device)
    try:
        with offline():
            study = replace(
                from_spec(StudySpec.model_validate(pieces.study)), device=pieces.device, machine=pieces.machine
            )
            cells = _by_id([entry.cell for entry in plan(study)])
            return compute_task(array, task, pieces, cells, progress)
    except TimeUp as stop:
        if not stop.progressed:
            raise NoProgress from None
    except KeyboardInterrupt:
        if interrupts.exit_code() == TIME_UP:  # while the study was planned
            raise NoProgress from None
        raise
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # which Slurm sends when it requeues, while this process ends
    client.requeue(f"{os.environ['SLURM_ARRAY_JOB_ID']}_{task}")
    return None


def scripts(
    spec: StudySpec, out: Path, options: Mapping[str, Any], *, workers: int = 1, device: str = "cpu"
) -> list[str]:
    """Return the batch scripts that a run with the engine "slurm" would submit, without job ids."""
    parsed = parse_options("slurm", options)
    assert isinstance(parsed, SlurmOptions)
    study = replace(from_spec(spec), device=device, machine=parsed.machine)
    store = Store(out.absolute())
    missing = [cell for cell in _by_id([entry.cell for entry in plan(study)]).values() if not store.has(cell.id)]
    works = [work for work in group_works(missing) if work.portable]
    texts, names = [], dict[object, str]()
    arrays = list(pack(works, parsed.task_minutes, calibrate_works(works, torch.device(device))))
    for number, (array, line) in enumerate(zip(arrays, array_lines(arrays, hours_unit(device)), strict=True), start=1):
        folder = store.root / FOLDER / f"{number:04}-dry-run"
        names |= {task: f"JOB{number}_{index}" for index, task in enumerate(array.tasks)}
        after = [names[one] for one in array.after]
        titles = [", ".join(work.cells[0].title for work in task.works) for task in array.tasks]
        minutes = [task.seconds / 60 for task in array.tasks]
        contents = [
            f"# task {index}: about {minutes[index]:.1f} minutes: {title}" for index, title in enumerate(titles)
        ]
        contents[:0] = [f"# {line.strip()}"]
        texts.append(script(folder, len(array.tasks), after, workers, parsed) + "\n".join([*contents, ""]))
    return texts


def _by_id(cells: Sequence[Cell]) -> dict[str, Cell]:
    return {cell.id: cell for cell in closure(cells)}
