"""Plan of a study: the number of results and images that a run would compute."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import torch

from farout.api.run import memory_budget
from farout.devices import as_device
from farout.memory import fit_workers
from farout.protocols import cuts, plan
from farout.study.cells.cell import Cell, Entry, closure
from farout.study.engines.executor import engine_class
from farout.study.engines.run import group_works
from farout.study.engines.slurm.options import SlurmOptions
from farout.study.engines.slurm.packing import array_lines, pack
from farout.study.estimates.estimate import add_up, calibrate_works, hours_unit
from farout.study.results import Counts, rows_of
from farout.study.spec import StudySpec
from farout.study.store import Store
from farout.study.study import from_spec

HEAD = ("protocol", "results", "missing", "images", "to compute")


class Planned(NamedTuple):
    """Cells of a study, and the store with the results computed so far."""

    entries: list[Entry]
    store: Store
    cuts: list[str]
    """Parts of the study that are left out at this budget."""

    @classmethod
    def of(cls, spec: StudySpec, folder: Path) -> Planned:
        """Plan a study whose results are in this folder."""
        study = from_spec(spec)
        return cls(plan(study), Store(folder), [*study.cuts, *cuts(study)])

    @property
    def missing(self) -> list[Cell]:
        """All cells that a run would compute."""
        return self._missing(closure([entry.cell for entry in self.entries]))

    @property
    def counts(self) -> Counts:
        """Numbers of results in the study, and of missing ones."""
        return Counts.of(rows_of(self.entries), self.store)

    def totals(self) -> Iterator[str]:
        """Yield the lines of a table: one per protocol, and a total that counts shared results once."""
        parts = {name: [e for e in self.entries if e.protocol == name] for name in self._protocols}
        lines = [HEAD, *(self._line(name, entries) for name, entries in parts.items())]
        lines += [self._line("together", self.entries)] if len(parts) > 1 else []
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        for name, *numbers in lines:
            shown = (number.rjust(width) for number, width in zip(numbers, widths[1:], strict=True))
            yield "  ".join([name.ljust(widths[0]), *shown])

    @property
    def _protocols(self) -> list[str]:
        return list(dict.fromkeys(entry.protocol for entry in self.entries))

    def _line(self, name: str, entries: list[Entry]) -> tuple[str, ...]:
        counts, cells = Counts.of(rows_of(entries), self.store), closure([entry.cell for entry in entries])
        numbers = (counts.total, counts.missing, _images(cells), _images(self._missing(cells)))
        return (name, *(f"{number:,}" for number in numbers))

    def works(self) -> Iterator[str]:
        """Yield a line per missing piece of work: cells that are computed in one pass."""
        for work in group_works(self.missing):
            yield f"{work.total_cost:>12,} images  {len(work.cells):>4} results  {work.cells[0].title}"

    def estimate(self, device: str, engine: str, workers: int, task_minutes: float | None = None) -> Iterator[str]:
        """Yield lines on how long the missing work takes, and how much memory and disk it needs; none if nothing is
        missing. task_minutes: of the engine "slurm", whose arrays are listed."""
        works = group_works(self.missing)
        if not works:
            return
        target = torch.device(device) if engine_class(engine).remote else as_device(device)
        calibration = calibrate_works(works, target)
        yield from add_up(works, calibration).lines(workers, device, engine)
        if engine == "slurm":
            minutes = task_minutes or SlurmOptions().task_minutes
            yield f"  arrays of tasks of about {minutes:g} minutes (--task-minutes):"
            yield from array_lines(list(pack(works, minutes, calibration)), hours_unit(device))

    def _missing(self, cells: Iterable[Cell]) -> list[Cell]:
        return [cell for cell in cells if not self.store.has(cell.id)]


def planned_workers(workers: int, engine: str, memory: str | None) -> int:
    """Return the number of worker processes that the memory of all together can hold."""
    budget = memory_budget(memory, engine, workers) if engine == "local" else None
    return workers if budget is None else fit_workers(budget, workers)


def _images(cells: list[Cell]) -> int:
    """Return the number of images that pass through a network or a detector."""
    return sum(work.total_cost for work in group_works(cells))
