"""The plan of a study: what a run would compute, in numbers of results and images."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from farout.protocols import cuts, plan
from farout.study.cells.cell import Cell, Entry
from farout.study.engines.run import closure, grouped
from farout.study.results import Counts, rows_of
from farout.study.spec import StudySpec
from farout.study.store import Store
from farout.study.study import from_spec

HEAD = ("protocol", "results", "missing", "images", "to compute")


class Planned(NamedTuple):
    """The cells of a study, and the store that holds some of them already."""

    entries: list[Entry]
    store: Store
    cuts: list[str]
    """Parts of the study that the budget leaves out."""

    @classmethod
    def of(cls, spec: StudySpec, folder: Path) -> Planned:
        """Plan a study whose results lie in this folder."""
        study = from_spec(spec)
        return cls(plan(study), Store(folder), [*study.cuts, *cuts(study)])

    @property
    def counts(self) -> Counts:
        """Count the results that the study is made of, and how many of them are missing."""
        return Counts.of(rows_of(self.entries), self.store)

    def totals(self) -> Iterator[str]:
        """A table with a line per protocol, and one for all of them: what they share is counted once there."""
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
        """A line per piece of work that is missing: cells that are computed in one pass."""
        for work in grouped(self._missing(closure([entry.cell for entry in self.entries]))):
            yield f"{work.total_cost:>12,} images  {len(work.cells):>4} results  {work.cells[0].title}"

    def _missing(self, cells: Iterable[Cell]) -> list[Cell]:
        return [cell for cell in cells if not self.store.has(cell.id)]


def _images(cells: list[Cell]) -> int:
    """Count the images that pass a network or a detector."""
    return sum(work.total_cost for work in grouped(cells))
