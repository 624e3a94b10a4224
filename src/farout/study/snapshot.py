"""Store for readers: a record is verified when it is first read, and then trusted."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any

from farout.study.store import Store


class Snapshot(Store):
    """Store that verifies every record once, since a report reads each many times.

    A record that is missing or damaged is looked up again, so that results of a run that goes on are seen.
    """

    def __init__(self, root: str | Path) -> None:
        super().__init__(root)
        self._verified_facts: dict[str, dict[str, Any]] = {}
        self._paths: dict[str, Path] = {}

    def has(self, cell: str) -> bool:
        return cell in self._verified_facts or super().has(cell)

    def path(self, cell: str) -> Path:
        if cell not in self._paths:
            self._paths[cell] = super().path(cell)
        return self._paths[cell]

    def facts(self, cell: str) -> dict[str, Any]:
        if cell not in self._verified_facts:
            self._verified_facts[cell] = super().facts(cell)
        return dict(self._verified_facts[cell])

    def write(
        self, cell: str, facts: Mapping[str, Any], files: Mapping[str, Callable[[Path], None]], *, durable: bool = True
    ) -> None:
        self._verified_facts.pop(cell, None)
        super().write(cell, facts, files, durable=durable)

    def remove_results(self, cells: Collection[str]) -> None:
        for cell in cells:
            self._verified_facts.pop(cell, None)
        super().remove_results(cells)
