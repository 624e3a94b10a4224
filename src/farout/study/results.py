"""Results of a run, read from its plan and the records in its store. Nothing here computes a score."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import AfterValidator, BaseModel, ConfigDict, ValidationError

from farout.files import has_file, read_json
from farout.study.cells.cell import Cell, Entry
from farout.study.fit_sizes import fit_lines
from farout.study.interval_cache import IntervalCache
from farout.study.records import Damaged, is_plain, read_verified_json, write_verified_json
from farout.study.snapshot import Snapshot
from farout.study.spec import ProtocolSpec
from farout.study.store import Store
from farout.study.study import Study

PLAN = "plan.json"
FORMAT = 5
CLASSIFIED = "classified"
"""Role tag of rows that hold a network's predicted classes of the inlier test images."""


SHOWN = 5
"""Largest number of damaged files that are listed."""


def _cell_name(name: str) -> str:
    if not is_plain(name):
        raise ValueError(f"{name!r} is not a valid identity of a result")
    return name


class Row(NamedTuple):
    """One cell of a stored plan."""

    protocol: str
    cell: str
    title: str
    tags: Mapping[str, str]
    requires: Sequence[str] = ()
    """Ids of the cells that it is computed from."""


class Failure(NamedTuple):
    """A row that failed, with the error."""

    row: Row
    traceback: str
    reason: str
    """One line that names the detector and the error."""


class Counts(NamedTuple):
    """Numbers of results: every cell of a plan counted once, including those that others are computed from."""

    total: int
    missing: int
    failed: int
    """Missing cells whose last attempt failed."""

    @classmethod
    def of(cls, rows: Iterable[Row], store: Store) -> Counts:
        """Count the cells of these rows, and how many of them the store lacks."""
        cells = dict.fromkeys(cell for row in rows for cell in (*row.requires, row.cell))
        missing = [cell for cell in cells if not store.has(cell)]
        return cls(len(cells), len(missing), sum(store.failure(cell) is not None for cell in missing))


def rows_of(entries: Iterable[Entry]) -> list[Row]:
    """Return the rows of a plan's entries."""
    return [
        Row(e.protocol, e.cell.id, e.cell.title, dict(e.tags), [required.id for required in _all_required(e.cell)])
        for e in entries
    ]


def plan_facts(study: Study, entries: Sequence[Entry]) -> dict[str, Any]:
    """Return all that a report shows of the study, so that it can be read without opening images or networks."""
    rows = [row._asdict() for row in rows_of(entries)]
    facts: dict[str, Any] = {"name": study.name, "budget": study.budget, "spec": study.spec, "cuts": study.cuts}
    facts["notes"] = [*study.notes, *_detector_notes(study)]
    facts["fitted"] = fit_lines(study.trials)
    facts["extra_data"] = {s.label: s.extra_data for t in study.trials for s in t.subjects if s.extra_data}
    facts["protocols"] = [protocol.model_dump(mode="json") for protocol in study.protocols]
    return {"format": FORMAT, "rows": rows, **facts}


def write_plan(store: Store, study: Study, entries: Sequence[Entry]) -> None:
    """Write the plan of a run."""
    write_verified_json(store.root / PLAN, plan_facts(study, entries))


def damaged_plan(store: Store) -> list[str]:
    """Return why the stored plan of an earlier run is damaged; an empty list if it is undamaged or absent."""
    try:
        read_verified_json(store.root / PLAN)
    except FileNotFoundError:
        return []
    except Damaged as error:
        return [str(error)]
    return []


def _detector_notes(study: Study) -> list[str]:
    """Return the notes of all detectors, each once."""
    notes = (s.notes(t.inliers.test, t.outliers) for t in study.trials for s in t.subjects)
    return list(dict.fromkeys(note for group in notes for note in group))


def _all_required(cell: Cell) -> Iterator[Cell]:
    """Yield all cells that the cell is computed from, each after the ones it requires itself."""
    for required in cell.requires:
        yield from _all_required(required)
        yield required


class Results:
    """Results that a run has stored so far."""

    def __init__(self, root: str | Path) -> None:
        self.store = Snapshot(root)
        path = self.store.root / PLAN
        if not path.parent.is_dir() or not has_file(path):
            raise FileNotFoundError(f"{root} holds no run (no {PLAN}); give the folder that `farout run` wrote")
        plan = read_plan(path)
        self.name = plan.name
        self.budget = plan.budget
        self.protocols = plan.protocols
        self.cuts = plan.cuts
        """Texts on what the budget left out."""
        self.spec = plan.spec
        self.rows = [Row(**row.model_dump()) for row in plan.rows]
        self.notes = [*plan.notes, *self.damaged]
        """Caveats that a reader of the results must know."""
        self.fitted = plan.fitted
        """Fit sizes of networks and detectors, see fit_sizes.py."""
        self.extra_data = plan.extra_data
        """By label of a detector, the outlier sets that it learned from."""
        self.intervals = IntervalCache(self.store.root)

    @cached_property
    def damaged(self) -> list[str]:
        """Texts on the damaged files of the run, which count as missing."""
        cells = dict.fromkeys(cell for row in self.rows for cell in (*row.requires, row.cell))
        reasons = [reason for cell in cells if (reason := self.store.damaged(cell))]
        return shortened([*self.store.packs.damaged(), *reasons])

    def done(self, protocol: str) -> list[Row]:
        """Return the protocol's rows that have a result, except those of `classified`."""
        return [row for row in self._done(protocol) if row.tags.get("role") != CLASSIFIED]

    def classified(self, protocol: str) -> list[Row]:
        """Return the protocol's rows that hold a network's predicted classes of the inlier test images."""
        return [row for row in self._done(protocol) if row.tags.get("role") == CLASSIFIED]

    def _done(self, protocol: str) -> list[Row]:
        return [row for row in self.rows if row.protocol == protocol and self.store.has(row.cell)]

    def counts(self) -> Counts:
        """Count the cells of the run, and how many of them are missing."""
        return Counts.of(self.rows, self.store)

    def pending(self) -> list[Row]:
        """Return the rows without a result."""
        return [row for row in self.rows if not self.store.has(row.cell)]

    def failures(self) -> dict[str, Failure]:
        """Return the rows whose last attempt failed, with the error of the first failed cell that each requires."""
        failures: dict[str, Failure] = {}
        for row in self.pending():
            attempts = (self.store.failure(cell) for cell in (*row.requires, row.cell) if not self.store.has(cell))
            failure = next((failure for failure in attempts if failure), None)
            if failure:
                failures[row.cell] = Failure(row, failure["traceback"], failure["reason"])
        return failures

    def scores(self, row: Row) -> NDArray[np.float64]:
        """Return the scores of one row."""
        return self.store.scores(row.cell)

    def index(self, row: Row) -> NDArray[np.int64]:
        """Return the index that each image of one row has in its own set."""
        return self.store.column(row.cell, "index")

    def labels(self, row: Row) -> NDArray[np.int64]:
        """Return the labels of the images of one row."""
        return self.store.column(row.cell, "label")

    def known(self, row: Row, name: str) -> NDArray[Any] | None:
        """Return an attribute of the images of one row; None if they do not have it."""
        return self.attribute(row, name) if f"attribute:{name}" in self.store.columns(row.cell) else None

    def attribute(self, row: Row, name: str) -> NDArray[Any]:
        """Return an attribute of the images of one row. Raise if they do not have it."""
        return self.store.column(row.cell, f"attribute:{name}")


def positions(index: NDArray[np.int64], among: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the positions in `among` of the images in `index`; both hold indices in the same set.

    Where an image occurs several times in both, its first occurrence gets the first position, and so on. Raise if an
    image is missing.
    """
    if np.array_equal(index, among):
        return np.arange(len(index))
    wanted, keys = (2**31 * one + _repetition(one) for one in (index, among))
    missing = ~np.isin(wanted, keys)
    if missing.any():
        raise ValueError(
            f"images {index[missing][:5].tolist()} are not among the {len(among):,} expected ones; both must come from "
            "the same set"
        )
    order = np.argsort(keys)
    return order[np.searchsorted(keys[order], wanted)]


def _repetition(values: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return how many equal values come before each value."""
    order = np.argsort(values, kind="stable")
    counts = np.empty(len(values), np.int64)
    counts[order] = np.arange(len(values)) - np.searchsorted(values[order], values[order])
    return counts


def shortened(damaged: Sequence[str]) -> list[str]:
    """Return the first few texts on damaged files, and a line with the number of the others."""
    more = len(damaged) - SHOWN
    return [*damaged[:SHOWN], *([f"{more:,} more damaged results"] if more > 0 else [])]


class _Row(BaseModel):
    model_config = ConfigDict(extra="forbid")
    protocol: str
    cell: Annotated[str, AfterValidator(_cell_name)]
    title: str
    tags: dict[str, str]
    requires: list[Annotated[str, AfterValidator(_cell_name)]]


class Plan(BaseModel):
    """Content of a plan file."""

    model_config = ConfigDict(extra="forbid")
    format: int
    fitted: list[dict[str, Any]]
    extra_data: dict[str, str] = {}
    name: str
    budget: str
    spec: Any
    cuts: list[str]
    notes: list[str]
    protocols: list[ProtocolSpec]
    rows: list[_Row]


def read_plan(path: Path) -> Plan:
    """Return the content of a plan file. Raise ValueError if it is damaged or of another version."""
    try:
        value = read_json(path)
    except ValueError as error:
        raise ValueError(f"{error}; the same run command writes it again") from None
    version = value.get("format") if isinstance(value, dict) else None
    if type(version) is int and version != FORMAT:
        raise ValueError(f"{path} has format {version}, this version reads format {FORMAT}; run it again")
    try:
        return Plan.model_validate(read_verified_json(path))
    except Damaged as error:
        raise ValueError(f"{error}; the same run command writes it again") from None
    except ValidationError as error:
        first = error.errors()[0]
        reason = f"{'.'.join(map(str, first['loc'])) or 'plan'}: {first['msg']}"
        raise ValueError(f"{path} is damaged ({reason}); the same run command writes it again") from None
