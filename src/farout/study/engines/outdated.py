"""Outdated results: those computed from a result that has become another, such as a detector that was fitted again.

A record names the contents of all results that it was computed from. If one of these is lost or damaged, it is computed
again first; the results that depend on it are kept if its content is the same as before, and removed otherwise.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Sequence

from farout.study.cells.cell import Cell, closure
from farout.study.store import Store

INPUTS = "inputs"
"""Key of the contents that a result was computed from, by cell."""


def inputs(cell: Cell, store: Store) -> dict[str, str]:
    """Return the contents of the results that a cell is computed from, by cell."""
    return {required.id: store.content(required.id) for required in closure(cell.requires)}


def find_present(cells: Sequence[Cell], store: Store) -> set[str]:
    """Return the cells whose results are present, without those that were computed from another content."""
    contents = {cell.id: store.content(cell.id) for cell in cells if store.has(cell.id)}
    return {cell for cell in contents if not _has_other_inputs(store.facts(cell).get(INPUTS, {}), contents)}


def _has_other_inputs(recorded: dict[str, str], contents: dict[str, str]) -> bool:
    return any(contents.get(cell, content) != content for cell, content in recorded.items())


def find_unsaved(cells: Sequence[Cell], present: set[str], store: Store) -> set[str]:
    """Return the present results of detectors that must be fitted again, since their state cannot be stored.

    If some results of such a detector are missing, these would come from another fit than the present ones; so all of
    them are computed again.
    """
    unsaved = {cell.id for cell in cells if cell.id in present and store.facts(cell.id).get("kept") is False}
    dependents: dict[str, set[str]] = {fit: set() for fit in unsaved}
    for cell in cells:
        for required in closure(cell.requires):
            if required.id in unsaved:
                dependents[required.id].add(cell.id)
    return {cell for fit, results in dependents.items() if results - present for cell in (fit, *results)} & present


def remove_outdated(cells: Sequence[Cell], present: set[str], store: Store) -> None:
    """Remove all results of these cells but the present ones, and finished chunks that were computed from them."""
    outdated = [cell for cell in cells if cell.id not in present and store.has(cell.id)]
    if outdated:
        titles = "; ".join(dict.fromkeys(cell.title for cell in outdated))
        logging.getLogger("farout").warning(f"computed again, since they come from an earlier fit: {titles}")
    store.remove_results([cell.id for cell in outdated])
    for cell in cells:
        if cell.id not in present and any(required.id not in present for required in closure(cell.requires)):
            store.forget(cell.group)


def select_first(missing: Sequence[Cell], cells: Sequence[Cell], present: Collection[str]) -> list[Cell]:
    """Return the missing cells that present results depend on: their new contents decide which of these are kept."""
    needed = {required.id for cell in cells if cell.id in present for required in closure(cell.requires)}
    return [cell for cell in missing if cell.id in needed]
