"""Reading a run: its plan and the records in its store. Nothing here computes a score."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import AfterValidator, BaseModel, ValidationError

from farout.files import present, read_json
from farout.study.cells.cell import Cell, Entry
from farout.study.fit_sizes import fit_lines
from farout.study.records import Damaged, is_plain, read_proven, write_proven
from farout.study.spec import ProtocolSpec
from farout.study.store import Store
from farout.study.study import Study

PLAN = "plan.json"
FORMAT = 5
CLASSIFIED = "classified"
"""The role of rows that hold a network's classes of the inlier test images."""


SHOWN = 5
"""Damaged files that are named."""


def _cell_name(name: str) -> str:
    if not is_plain(name):
        raise ValueError(f"{name!r} is no identity of a result")
    return name


class Row(NamedTuple):
    """One cell of a plan as stored."""

    protocol: str
    cell: str
    title: str
    tags: Mapping[str, str]
    requires: Sequence[str] = ()
    """The cells it is computed from."""


class Failure(NamedTuple):
    """A row without a result, and why."""

    row: Row
    traceback: str
    reason: str
    """One line that names the detector and the error."""


class Counts(NamedTuple):
    """Numbers of results: every cell of a plan once, those that others are computed from included."""

    total: int
    missing: int
    failed: int
    """Of the missing ones, those that were tried."""

    @classmethod
    def of(cls, rows: Iterable[Row], store: Store) -> Counts:
        """Count the results that these rows of a plan stand for, and how many of them the store lacks."""
        cells = dict.fromkeys(cell for row in rows for cell in (*row.requires, row.cell))
        missing = [cell for cell in cells if not store.has(cell)]
        return cls(len(cells), len(missing), sum(store.failure(cell) is not None for cell in missing))


def rows_of(entries: Iterable[Entry]) -> list[Row]:
    """The rows by which a plan is stored and counted."""
    return [
        Row(e.protocol, e.cell.id, e.cell.title, dict(e.tags), [need.id for need in _needs(e.cell)]) for e in entries
    ]


def write_plan(store: Store, study: Study, entries: Sequence[Entry]) -> None:
    """Store all that a report shows of the study, so that it can be read without the study's parts."""
    rows = [row._asdict() for row in rows_of(entries)]
    facts: dict[str, Any] = {"name": study.name, "budget": study.budget, "spec": study.spec, "cuts": study.cuts}
    facts["notes"] = [*study.notes, *_told(study)]
    facts["fitted"] = fit_lines(study.trials)
    facts["protocols"] = [protocol.model_dump(mode="json") for protocol in study.protocols]
    write_proven(store.root / PLAN, {"format": FORMAT, "rows": rows, **facts})


def damaged_plan(store: Store) -> list[str]:
    """Return why the plan that an earlier run has stored is damaged; nothing where it is whole, or there is none."""
    try:
        read_proven(store.root / PLAN)
    except FileNotFoundError:
        return []
    except Damaged as error:
        return [str(error)]
    return []


def _told(study: Study) -> list[str]:
    """What the detectors say of themselves, each note once."""
    told = (s.notes(t.inliers.test, t.outliers) for t in study.trials for s in t.subjects)
    return list(dict.fromkeys(note for notes in told for note in notes))


def _needs(cell: Cell) -> Iterator[Cell]:
    """All that the cell is computed from, what comes first first."""
    for need in cell.requires:
        yield from _needs(need)
        yield need


class Results:
    """What a run holds so far."""

    def __init__(self, root: str | Path) -> None:
        self.store = Store(root)
        path = self.store.root / PLAN
        if not path.parent.is_dir() or not present(path):
            raise FileNotFoundError(f"{root} holds no run (no {PLAN}); give the folder that `farout run` wrote")
        plan = _read(path)
        self.name = plan.name
        self.budget = plan.budget
        self.protocols = plan.protocols
        self.cuts = plan.cuts
        """What the budget left out."""
        self.spec = plan.spec
        self.rows = [Row(**row.model_dump()) for row in plan.rows]
        self.notes = [*plan.notes, *self.damaged]
        """What else people must know to read the results right."""
        self.fitted = plan.fitted
        """Fit sizes of networks and detectors: lines of a table."""

    @cached_property
    def damaged(self) -> list[str]:
        """The damaged files of the run, which are read as if they were missing."""
        cells = dict.fromkeys(cell for row in self.rows for cell in (*row.requires, row.cell))
        return shortened([why for cell in cells if (why := self.store.damaged(cell))])

    def done(self, protocol: str) -> list[Row]:
        """The protocol's rows that have a result, save those that `classified` gives."""
        return [row for row in self._done(protocol) if row.tags.get("role") != CLASSIFIED]

    def classified(self, protocol: str) -> list[Row]:
        """The protocol's rows that hold a network's classes of the inlier test images."""
        return [row for row in self._done(protocol) if row.tags.get("role") == CLASSIFIED]

    def _done(self, protocol: str) -> list[Row]:
        return [row for row in self.rows if row.protocol == protocol and self.store.has(row.cell)]

    def counts(self) -> Counts:
        """Count the results that the run is made of, and how many of them are missing."""
        return Counts.of(self.rows, self.store)

    def pending(self) -> list[Row]:
        """The rows without a result."""
        return [row for row in self.rows if not self.store.has(row.cell)]

    def failures(self) -> dict[str, Failure]:
        """The rows that failed when last tried, each for the first cell on its way that did."""
        found: dict[str, Failure] = {}
        for row in self.pending():
            tried = (self.store.failure(cell) for cell in (*row.requires, row.cell) if not self.store.has(cell))
            failure = next((failure for failure in tried if failure), None)
            if failure:
                found[row.cell] = Failure(row, failure["traceback"], failure["reason"])
        return found

    def scores(self, row: Row) -> NDArray[np.float64]:
        """The scores of one row."""
        return self.store.scores(row.cell)

    def index(self, row: Row) -> NDArray[np.int64]:
        """The index that each image of one row has in its own set."""
        return self.store.column(row.cell, "index")

    def labels(self, row: Row) -> NDArray[np.int64]:
        """The labels of the images of one row."""
        return self.store.column(row.cell, "label")

    def known(self, row: Row, name: str) -> NDArray[Any] | None:
        """What `attribute` gives; None where nobody knows it of these images."""
        return self.attribute(row, name) if f"attribute:{name}" in self.store.columns(row.cell) else None

    def attribute(self, row: Row, name: str) -> NDArray[Any]:
        """What is known of the images of one row besides their scores."""
        return self.store.column(row.cell, f"attribute:{name}")


def positions(index: NDArray[np.int64], among: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return where images are among others of the same set, by the indices of both; an error where one is missing.

    Where an image stands there several times, the first of its kind is found at the first place, and so on.
    """
    wanted, keys = (2**31 * one + _repetition(one) for one in (index, among))
    missing = ~np.isin(wanted, keys)
    if missing.any():
        raise ValueError(
            f"images {index[missing][:5].tolist()} are not among the {len(among):,} they are looked for in"
        )
    order = np.argsort(keys)
    return order[np.searchsorted(keys[order], wanted)]


def _repetition(values: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return how often each value has been there before."""
    order = np.argsort(values, kind="stable")
    counts = np.empty(len(values), np.int64)
    counts[order] = np.arange(len(values)) - np.searchsorted(values[order], values[order])
    return counts


def shortened(damaged: Sequence[str]) -> list[str]:
    """Return the first few lines on damaged files, and how many more there are."""
    more = len(damaged) - SHOWN
    return [*damaged[:SHOWN], *([f"{more:,} more damaged results"] if more > 0 else [])]


class _Row(BaseModel):
    protocol: str
    cell: Annotated[str, AfterValidator(_cell_name)]
    title: str
    tags: dict[str, str]
    requires: list[Annotated[str, AfterValidator(_cell_name)]]


class _Plan(BaseModel):
    """Content of a plan file."""

    format: int
    fitted: list[dict[str, Any]]
    name: str
    budget: str
    spec: Any
    cuts: list[str]
    notes: list[str]
    protocols: list[ProtocolSpec]
    rows: list[_Row]


def _read(path: Path) -> _Plan:
    found = read_json(path)
    known = found.get("format") if isinstance(found, dict) else None
    if type(known) is int and known != FORMAT:
        raise ValueError(f"{path} has format {known}, this version reads format {FORMAT}; run it again")
    try:
        return _Plan.model_validate(read_proven(path))
    except Damaged as error:
        raise ValueError(f"{error}; the same run command writes it again") from None
    except ValidationError as error:
        first = error.errors()[0]
        why = f"{'.'.join(map(str, first['loc'])) or 'plan'}: {first['msg']}"
        raise ValueError(f"{path} is damaged ({why}); the same run command writes it again") from None
