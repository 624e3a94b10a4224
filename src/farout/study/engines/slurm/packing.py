"""Packing: works are distributed over array tasks by their estimated cost, and arrays depend on each other.

The estimate is rough and only decides how many works share a task: an image of 32 × 32 pixels takes a core `PASS`
seconds to pass a network, and `EACH` for every result that the pass serves; a training takes `TRAINING` times as long,
other sizes in proportion to their pixels, and a GPU is `GPU` times as fast.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from farout.study.cells.cell import Work
from farout.study.sources.images import ImageSource

PASS, EACH, TRAINING, GPU = 0.003, 0.0005, 3.0, 30.0
SIDE = 32
LARGEST = 1000
"""Largest number of tasks in an array; Slurm's default limit is 1001."""


@dataclass(eq=False)
class Packed:
    """Works of one array task."""

    works: list[Work] = field(default_factory=list)
    seconds: float = 0.0
    """Estimated cost."""


@dataclass(eq=False)
class PackedArray:
    """Array tasks that require the same other tasks."""

    tasks: list[Packed]
    after: list[object]
    """Tasks that must have ended: tasks of earlier arrays, or those that still run."""


def estimate_seconds(work: Work, device: str) -> float:
    """Return the estimated seconds of a work on one core, or on a GPU."""
    shapes = [value.about.shape for value in vars(work.cells[0]).values() if isinstance(value, ImageSource)]
    pixels = max((shape[1] * shape[2] for shape in shapes), default=SIDE**2)
    passes = TRAINING if "train" in work.roles and len(work.roles) == 1 else 1.0
    seconds = work.total_cost * (passes * PASS + EACH * len(work.cells)) * pixels / SIDE**2
    return seconds if device == "cpu" else seconds / GPU


def pack(
    works: Sequence[Work], minutes: float, device: str, running: Mapping[str, object], locked: Mapping[str, object]
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
            tasks = _fill(members, 60 * minutes, device)
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


def _fill(works: Sequence[Work], limit: float, device: str) -> list[Packed]:
    """Fill tasks with works in order, each up to the limit or with a single work that is longer."""
    tasks: list[Packed] = []
    for work in works:
        seconds = estimate_seconds(work, device)
        if not tasks or tasks[-1].seconds + seconds > limit:
            tasks.append(Packed())
        tasks[-1].works.append(work)
        tasks[-1].seconds += seconds
    return tasks
