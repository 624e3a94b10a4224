"""Compute the missing cells of a study."""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules

import torch

from farout import interrupts
from farout.devices import as_device, is_host
from farout.files import files_in
from farout.memory import memory_limit
from farout.progress import Listener, current
from farout.study import engines
from farout.study.cells.cell import Cell, Work, closure
from farout.study.engines import activity
from farout.study.engines.executor import ENGINES, Context, EngineOptions, engine_class
from farout.study.engines.inline import InlineExecutor
from farout.study.engines.journal import PROGRESS, Journal
from farout.study.engines.outdated import find_present, find_unsaved, remove_outdated, select_first
from farout.study.engines.scheduler import Scheduler
from farout.study.store import Store, StoreError

for _module in iter_modules(engines.__path__):  # each registers its engine, so that a new one is one file
    import_module(f"{engines.__name__}.{_module.name}")


@dataclass
class Outcome:
    """Outcome of a run: the results that were reused, computed, failed or damaged."""

    reused: int = 0
    done: list[str] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)
    """Reason by cell: the line of the traceback that names the error."""
    impossible: set[str] = field(default_factory=set)
    """Failed cells that were not tried, since a cell that they require has failed."""
    damaged: list[str] = field(default_factory=list)
    """Texts on the damaged files of earlier results; these results are computed again."""


@dataclass(frozen=True)
class Settings:
    """Settings of a run: the engine, and what every engine is given."""

    engine: str = "local"
    """Name of the executor; work that cannot be sent to another process runs in this one."""
    workers: int = 0
    """Number of worker processes; 0 with the local engine: everything runs in this process."""
    device: str = "cpu"
    plugins: tuple[str, ...] = ()
    timeout: float | None = None
    """Seconds that a detector may take for one chunk; None = no limit."""
    options: EngineOptions = field(default_factory=EngineOptions)
    """Options of the engine."""
    memory: int | None = None
    """Bytes of memory of all processes together, of the local engine; None = no limit."""

    @property
    def target(self) -> torch.device:
        """The device; an engine that computes on other machines checks it there."""
        if not engine_class(self.engine).remote:
            as_device(self.device)
        return torch.device(self.device)


def run(
    cells: Sequence[Cell],
    store: Store,
    *,
    engine: str = "local",
    workers: int = 0,
    device: str = "cpu",
    plugins: tuple[str, ...] = (),
    timeout: float | None = None,
    options: EngineOptions | None = None,
    memory: int | None = None,
    progress: Listener | None = None,
) -> Outcome:
    """Compute the cells that the store does not hold, and those they require; see `Settings`.

    A failed cell is recorded, and the others are still computed; a stopped run resumes from its stored chunks.
    The caller must hold the store's lock.
    """
    settings = Settings(engine, workers, device, plugins, timeout, options or EngineOptions(), memory)
    _check_unoccupied(store, settings.engine)
    everything = closure(cells)
    damaged = [why for cell in everything if (why := store.damaged(cell.id))]
    outcome = Outcome(damaged=[*store.packs.set_aside(), *damaged])
    present = find_present(everything, store)
    present -= find_unsaved(everything, present, store)
    suspects, notes = _read_crash_notes(store), store.running()
    journal = Journal(notes / PROGRESS, progress or current())

    def compute(missing: Sequence[Cell]) -> None:
        works = group_works(missing)
        works.sort(key=lambda work: any(cell.suspect in suspects for cell in work.cells))  # suspects of a crash: last
        compute_works(works, store, present, outcome, settings, notes, journal)

    with interrupts.listening(), activity.recording(notes / f"run-{os.getpid()}"), closing(journal):
        while True:
            remove_outdated(everything, present, store)
            missing = [cell for cell in everything if cell.id not in present and cell.id not in outcome.failed]
            if not (first := select_first(missing, everything, present)):
                break
            compute(first)
            present = find_present(everything, store)
        _forget_finished(everything, present, store)
        outcome.reused = len(present - set(outcome.done))
        compute(missing)
        store.pack()
    failed = [cell for cell in everything if cell.id in outcome.failed]
    outcome.impossible = {
        cell.id for cell in failed if any(required.id in outcome.failed for required in closure(cell.requires))
    }
    return outcome


def compute_works(
    works: Sequence[Work],
    store: Store,
    present: set[str],
    outcome: Outcome,
    settings: Settings,
    notes: Path,
    progress: Listener,
) -> None:
    """Compute works, and add their cells to the outcome.

    present: ids of the cells whose results the works may use; those computed are added. notes: folder of the activity
    files.
    """
    scheduler = Scheduler(works, store, settings.target, progress, present)
    scheduler.packing = not engine_class(settings.engine).remote  # other machines may see the folder as it was
    scheduler.failures, scheduler.done = outcome.failed, outcome.done
    context = Context(
        scheduler, store, settings.target, notes, settings.workers, settings.plugins, settings.timeout,
        settings.options, settings.memory,
    )  # fmt: skip
    inline = InlineExecutor(context)
    selected = ENGINES[settings.engine](context) if any(work.portable for work in works) else inline
    alone = (selected.slots <= 0 or selected is inline) and is_host(settings.target)
    with memory_limit(settings.memory if alone else None):
        scheduler.run(inline, selected if selected.slots > 0 else inline)


def _forget_finished(cells: Sequence[Cell], present: set[str], store: Store) -> None:
    """Remove the parts of finished works, which a run leaves that is killed right after it has written the results."""
    missing = {cell.group for cell in cells if cell.id not in present}
    finished = {cell.group for cell in cells} - missing
    for work in store.works():
        if work in finished:
            store.forget(work)


def _check_unoccupied(store: Store, engine: str) -> None:
    """Raise if another engine still computes results for this store."""
    for name in ENGINES:
        if name != engine and (why := engine_class(name).occupied(store)):
            raise StoreError(why)


def group_works(cells: Sequence[Cell]) -> list[Work]:
    """Return one work per group of cells, in the order of their first cells."""
    groups: dict[str, list[Cell]] = {}
    for cell in cells:
        groups.setdefault(cell.group, []).append(cell)
    return [members[0].work(members) for members in groups.values()]


def _read_crash_notes(store: Store) -> set[str]:
    """Warn about the cells that were being computed when an earlier run crashed; return the suspected detectors.

    Advice only: everything is tried again.
    """
    notes = []
    for path in files_in(store.running(), store.root):
        notes.append(activity.read(path))
        path.unlink()
    titles = dict.fromkeys(
        note.title if note.suspect in note.title else f"{note.title} ({note.suspect})"
        for note in notes
        if note and note.title
    )
    if titles:
        logging.getLogger("farout").warning(
            f"the previous run crashed or was killed while it computed: {'; '.join(titles)}. This is tried again, "
            "after everything else. Leave out a detector that crashes every time with --without NAME; with --workers "
            "it crashes only its own worker"
        )
    return {note.suspect for note in notes if note and note.suspect}
