"""Packing: works are distributed over array tasks by their estimated cost, and arrays depend on each other.

The estimate is that of `farout plan`; it decides how many works share a task, never their results.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from farout.study.cells.cell import Work
from farout.study.estimates.calibration import Calibration
from farout.study.estimates.estimate import seconds_of, short, span

START = 10.0
"""Rough seconds that a task takes before its first work, to import libraries and to plan the study."""
TITLES = 3
"""Largest number of works of an array that a line names."""
LARGEST = 1000
"""Largest number of tasks in an array; Slurm's default limit is 1001."""
NONE: Mapping[str, object] = MappingProxyType({})


@dataclass(eq=False)
class Packed:
    """Works of one array task."""

    works: list[Work] = field(default_factory=list)
    seconds: float = START
    """Estimated seconds of one core, or of the device."""


@dataclass(eq=False)
class PackedArray:
    """Array tasks that require the same other tasks."""

    tasks: list[Packed]
    after: list[object]
    """Tasks that must have ended: tasks of earlier arrays, or those that still run."""

    @property
    def seconds(self) -> float:
        """Estimated seconds of all tasks."""
        return math.fsum(task.seconds for task in self.tasks)


def pack(
    works: Sequence[Work],
    minutes: float,
    calibration: Calibration,
    running: Mapping[str, object] = NONE,
    locked: Mapping[str, object] = NONE,
) -> Iterator[PackedArray]:
    """Yield arrays, each after those that it depends on.

    running: by cell, the task that computes it already. locked: by id of a work, the task that computes other cells of
    it, so that it must end first.
    """
    owners = dict(running)
    ancestors: dict[object, frozenset[object]] = {}
    for level in _levels(works):
        groups: dict[frozenset[object], list[Work]] = {}
        for work in level:
            needed = {owners[cell.id] for cell in work.requires if cell.id in owners}
            needed |= {locked[work.id]} if work.id in locked else set()
            implied = frozenset[object]().union(*(ancestors.get(task, frozenset()) for task in needed))
            groups.setdefault(frozenset(needed - implied), []).append(work)
        for after, members in groups.items():
            tasks = _fill(members, 60 * minutes, calibration)
            for task in tasks:
                ancestors[task] = after.union(*(ancestors.get(one, frozenset()) for one in after))
                owners |= {cell.id: task for work in task.works for cell in work.cells}
            for start in range(0, len(tasks), LARGEST):
                yield PackedArray(tasks[start : start + LARGEST], list(after))


def _levels(works: Sequence[Work]) -> list[list[Work]]:
    """Return the works by the longest chain of works that they require."""
    home = {cell.id: position for position, work in enumerate(works) for cell in work.cells}
    depths: dict[int, int] = {}

    def depth(position: int) -> int:
        if position not in depths:
            required = {home[cell.id] for cell in works[position].requires if cell.id in home} - {position}
            depths[position] = 1 + max(map(depth, required), default=-1)
        return depths[position]

    levels: dict[int, list[Work]] = {}
    for position, work in enumerate(works):
        levels.setdefault(depth(position), []).append(work)
    return [levels[level] for level in sorted(levels)]


def _fill(works: Sequence[Work], limit: float, calibration: Calibration) -> list[Packed]:
    """Fill tasks with works in order, each up to the limit or with a single work that is longer."""
    tasks: list[Packed] = []
    for work in works:
        seconds = seconds_of(work, calibration)
        if not tasks or tasks[-1].seconds + seconds > limit:
            tasks.append(Packed())
        tasks[-1].works.append(work)
        tasks[-1].seconds += seconds
    return tasks


def array_lines(arrays: Sequence[PackedArray], unit: str) -> Iterator[str]:
    """Yield a line per array: its tasks, its hours, and the arrays that it waits for."""
    numbers = {task: number for number, array in enumerate(arrays, start=1) for task in array.tasks}
    for number, array in enumerate(arrays, start=1):
        after = sorted({numbers[task] for task in array.after if isinstance(task, Packed)})
        waits = f", after {', '.join(map(str, after))}" if after else ""
        works = [work for task in array.tasks for work in task.works]
        titles = "; ".join(work.cells[0].title for work in works[:TITLES]) + ("; …" if len(works) > TITLES else "")
        longest = span(max(task.seconds for task in array.tasks))
        tasks = f"{len(array.tasks)} task{'s' if len(array.tasks) > 1 else ''}"
        hours = f"{short(array.seconds / 3600)} {unit}"
        yield f"    array {number}: {tasks}, {hours}, the longest {longest}{waits}: {titles}"
