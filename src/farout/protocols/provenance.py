"""Provenance of a run: seeds, versions and machines, the time that results took, and every result with its digest."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from farout.protocols.shared.columns import DETECTOR, NETWORK, OUTLIERS, SEED
from farout.report.content import COUNT, LABEL, VALUE, Column, Line, Table
from farout.study.results import Results
from farout.study.sessions import read_sessions

KIND, TITLE, PROTOCOL = (Column(name, LABEL) for name in ("kind", "result", "protocol"))
IDENTITY, DIGEST, AT, TORCH = (Column(name, LABEL) for name in ("identity", "digest", "computed_at", "torch"))
SECONDS, COUNTED, MINUTES = Column("seconds", VALUE), Column("results", COUNT), Column("minutes", VALUE)
SLOWEST = Column("slowest", LABEL)


class _Cell(NamedTuple):
    id: str
    title: str
    facts: dict[str, Any]


def facts(results: Results) -> dict[str, str]:
    """Return facts about the whole run, as text by name."""
    cells, spent = list(_cells(results)), _by_work(_timed(results))
    seeds = dict.fromkeys(row.tags["seed"] for row in results.rows if row.tags.get("seed"))
    days = sorted(str(cell.facts["at"]) for cell in cells if cell.facts.get("at"))
    versions = dict.fromkeys(str(cell.facts["torch"]) for cell in cells if cell.facts.get("torch"))
    found = {
        "Seeds": ", ".join(seeds),
        "Computed (UTC)": " to ".join(_plain(day) for day in dict.fromkeys([days[0], days[-1]])) if days else "",
        "torch of the results": ", ".join(versions),
        "Times of all works, added up": _minutes(sum(spent.values())) if spent else "",
    }
    return {name: text for name, text in found.items() if text}


def sessions(results: Results) -> list[Table]:
    """Return a line per session: when, on which machine, with which versions; no table for a run without sessions."""
    found = read_sessions(results.store.root)
    names = dict.fromkeys(name for one in found for name in one)
    columns = {
        name: Column(name, COUNT if name in ("computed", "failed", "workers", "cores") else LABEL) for name in names
    }
    lines = [{columns[name]: value for name, value in one.items()} for one in found]
    caption = (
        "One line per start of the run command: when it began (UTC) and how many seconds it took, the machine and the "
        "versions of the software, and how many results it computed. Results do not depend on any of this."
    )
    return [Table("sessions", "Sessions: machines, versions and times", caption, lines)] if lines else []


def times(results: Results) -> list[Table]:
    """Return the computing time by kind of result."""
    kinds: dict[str, list[_Cell]] = {}
    for cell in _timed(results):
        kinds.setdefault(_kind(cell), []).append(cell)
    lines: list[Line] = []
    for kind, cells in kinds.items():
        works = _by_work(cells)
        slowest = max(works, key=works.__getitem__)
        text = f"{slowest[0]}: {_minutes(works[slowest])}"
        lines.append({KIND: kind, COUNTED: len(cells), MINUTES: sum(works.values()) / 60, SLOWEST: text})
    lines.sort(key=lambda line: -float(line[MINUTES]))
    caption = (
        "Minutes from the start to the end of the work, by kind of result; lower is cheaper. results: how many. "
        "Detectors that share a forward pass are computed together, and their time counts once; works that ran side by "
        "side each count in full, so that the sum may exceed the time that passed."
    )
    return [Table("times", "Computing time by kind of result", caption, lines)] if lines else []


def all_results(results: Results) -> Table | None:
    """Return a line per stored result: what it is, its identity, the digest of its content, and its time."""
    rows = {row.cell: row for row in results.rows}
    lines: list[Line] = []
    for cell in _cells(results):
        row = rows.get(cell.id)
        tags = dict(row.tags) if row else {}
        line: dict[Column, Any] = {TITLE: cell.title, PROTOCOL: row.protocol if row else "required by others"}
        line |= {column: tags.get(column.name, "") for column in (NETWORK, SEED, DETECTOR, OUTLIERS)}
        line |= {
            IDENTITY: cell.id,
            DIGEST: results.store.content(cell.id),
            SECONDS: cell.facts.get("seconds", float("nan")),
        }
        lines.append(line | {AT: cell.facts.get("at", ""), TORCH: cell.facts.get("torch", "")})
    caption = "Every stored result: its identity, the digest of its content, and the seconds that its work took."
    return Table("results", "All results", caption, lines) if lines else None


def _cells(results: Results) -> Iterator[_Cell]:
    """Yield all stored cells, those that others require first."""
    for cell in dict.fromkeys(one for row in results.rows for one in (*row.requires, row.cell)):
        if results.store.has(cell):
            found = results.store.facts(cell)
            yield _Cell(cell, str(found.get("title", "")), found)


def _timed(results: Results) -> list[_Cell]:
    """Return the cells whose time is known."""
    return [cell for cell in _cells(results) if "seconds" in cell.facts]


def _kind(cell: _Cell) -> str:
    identity = cell.facts.get("identity")
    return str(identity.get("kind", "other")) if isinstance(identity, dict) else "other"


def _by_work(cells: list[_Cell]) -> dict[tuple[str, str, float], float]:
    """Return the seconds of every work; cells of one work have the same title, time and seconds."""
    keys = ((cell.title, str(cell.facts.get("at", "")), float(cell.facts.get("seconds") or 0)) for cell in cells)
    return {key: key[2] for key in keys}


def _plain(day: str) -> str:
    return day.removesuffix("+00:00").replace("T", " ")


def _minutes(seconds: float) -> str:
    return (
        f"{seconds:.1f} s"
        if seconds < 60
        else f"{seconds / 60:.1f} min"
        if seconds < 7200
        else f"{seconds / 3600:.1f} h"
    )
