"""Compute the missing cells of a study."""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field

from farout import interrupts
from farout.files import files_in
from farout.progress import Listener, current
from farout.study.cells.cell import Cell, Work
from farout.study.engines import activity, local  # noqa: F401
from farout.study.engines.executor import ENGINES, Context
from farout.study.engines.inline import InlineExecutor
from farout.study.engines.scheduler import Scheduler
from farout.study.store import Store
from farout.tensors import as_device


@dataclass
class Outcome:
    """Outcome of a run: results reused, computed, failed and found damaged."""

    reused: int = 0
    done: list[str] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)
    """Why, by cell: the line of the traceback that names the error."""
    damaged: list[str] = field(default_factory=list)
    """Which files of earlier results were damaged, and why; those results are computed anew."""


def run(
    cells: Sequence[Cell],
    store: Store,
    *,
    engine: str = "local",
    workers: int = 0,
    device: str = "cpu",
    plugins: tuple[str, ...] = (),
    timeout: float | None = None,
    progress: Listener | None = None,
) -> Outcome:
    """Compute the cells that the store does not hold, and those they require.

    engine: the name of the executor that computes; work that cannot travel runs in this process.
    workers: its worker processes; with 0 of the local engine everything runs in this process.
    timeout: seconds that a detector may take for one chunk; None = no limit.
    A cell that fails is recorded and the rest goes on; a run that is stopped goes on from the chunks it has kept.
    The caller holds the store's lock.
    """
    everything = closure(cells)
    present = {cell.id for cell in everything if store.has(cell.id)}
    present -= _of_other_fits(everything, present, store)
    outcome = Outcome(reused=len(present), damaged=[why for cell in everything if (why := store.damaged(cell.id))])
    suspects = _left_by_a_crash(store)
    works = grouped([cell for cell in everything if cell.id not in present])
    works.sort(key=lambda work: any(cell.suspect in suspects for cell in work.cells))  # those at fault come last
    target, notes = as_device(device), store.running()
    scheduler = Scheduler(works, store, target, progress or current(), present)
    outcome.failed, outcome.done = scheduler.failures, scheduler.done
    with ExitStack() as stack:
        stack.enter_context(interrupts.listening())
        stack.enter_context(activity.recording(notes / f"run-{os.getpid()}"))
        context = Context(scheduler, store, target, notes, workers, plugins, timeout)
        inline = InlineExecutor(context)
        chosen = ENGINES[engine](context) if any(work.portable for work in works) else inline
        scheduler.go(inline, chosen if chosen.slots > 0 else inline)
    return outcome


def _of_other_fits(cells: Sequence[Cell], present: set[str], store: Store) -> set[str]:
    """Return the results of detectors whose fitted state could not be kept, where some of them are missing: what is
    computed now would come from another fit, so all are computed again."""
    lost = {cell.id for cell in cells if cell.id in present and store.facts(cell.id).get("kept") is False}
    dependents: dict[str, set[str]] = {fit: set() for fit in lost}
    for cell in cells:
        for need in closure(cell.requires):
            if need.id in lost:
                dependents[need.id].add(cell.id)
                if cell.id not in present:
                    store.forget(cell.group)  # chunks of an earlier fit
    return {cell for fit, results in dependents.items() if results - present for cell in (fit, *results)}


def closure(cells: Sequence[Cell]) -> list[Cell]:
    """Return the cells and all they require, each once, what is required first."""
    found: dict[str, Cell] = {}

    def visit(cell: Cell) -> None:
        if cell.id not in found:
            for need in cell.requires:
                visit(need)
            found.setdefault(cell.id, cell)

    for cell in cells:
        visit(cell)
    return list(found.values())


def grouped(cells: Sequence[Cell]) -> list[Work]:
    """Return the cells as works, those of one group as one, in the order given."""
    groups: dict[str, list[Cell]] = {}
    for cell in cells:
        groups.setdefault(cell.group, []).append(cell)
    return [members[0].work(members) for members in groups.values()]


def _left_by_a_crash(store: Store) -> set[str]:
    """Name what was being computed when an earlier run ended without a word; return the detectors suspected.

    Advice only: everything is tried again.
    """
    found = []
    for path in files_in(store.running(), store.root):
        found.append(activity.read(path))
        path.unlink()
    titles = dict.fromkeys(
        doing.title if doing.suspect in doing.title else f"{doing.title} ({doing.suspect})"
        for doing in found
        if doing and doing.cell
    )
    if titles:
        logging.getLogger("farout").warning(
            f"the run before this one ended without a word while it was at: {'; '.join(titles)}. It is tried again, "
            "last. A detector that ends the process each time can be left out with --without NAME; with --workers it "
            "ends only its own worker"
        )
    return {doing.suspect for doing in found if doing and doing.suspect}
