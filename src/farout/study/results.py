"""Reading a run: its plan and the records in its store. Nothing here computes a score."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from farout.study.cell import Entry
from farout.study.store import Store
from farout.study.study import Study

PLAN = "plan.json"


class Row(NamedTuple):
    """One cell of a plan as stored."""

    protocol: str
    cell: str
    title: str
    tags: Mapping[str, str]


def write_plan(store: Store, study: Study, entries: Sequence[Entry]) -> None:
    """Say in the store what the run is made of, so that it can be read without the study's parts."""
    rows = [{"protocol": e.protocol, "cell": e.cell.id, "title": e.cell.title, "tags": dict(e.tags)} for e in entries]
    facts = {"name": study.name, "budget": study.budget, "protocols": study.protocols, "spec": study.spec}
    store.put_json(PLAN, {"format": 1, "rows": rows, **facts})


class Results:
    """What a run holds so far."""

    def __init__(self, root: str | Path) -> None:
        self.store = Store(root)
        path = self.store.root / PLAN
        if not path.is_file():
            raise FileNotFoundError(f"{root} holds no run (no {PLAN}); give the folder that `farout run` wrote")
        plan = json.loads(path.read_text())
        self.name: str = plan["name"]
        self.budget: str = plan["budget"]
        self.protocols: list[str] = plan["protocols"]
        self.spec: Any = plan["spec"]
        self.rows = [Row(**row) for row in plan["rows"]]

    def done(self, protocol: str) -> list[Row]:
        """The protocol's rows that have a result."""
        return [row for row in self.rows if row.protocol == protocol and self.store.has(row.cell)]

    def pending(self) -> list[Row]:
        """The rows without a result."""
        return [row for row in self.rows if not self.store.has(row.cell)]

    def failures(self) -> dict[str, tuple[Row, str]]:
        """The rows that failed when last tried, with the traceback."""
        found = {row.cell: (row, self.store.failure(row.cell)) for row in self.pending()}
        return {cell: (row, failure["traceback"]) for cell, (row, failure) in found.items() if failure}

    def scores(self, row: Row) -> NDArray[np.float64]:
        """The scores of one row."""
        return self.store.scores(row.cell)
