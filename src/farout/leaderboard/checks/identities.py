"""Identities of results, against those that follow from the study."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from farout.leaderboard.derive import Derived
from farout.study.results import Results, Row

SHOWN = 5
"""Largest number of results that are named."""
COMPARED = {"cuts": "what the budget left out", "notes": "notes", "fitted": "fit sizes", "extra_data": "extra data"}


def identity_errors(stored: Mapping[str, Any], results: Results, derived: Derived) -> Iterator[str]:
    """Yield where the plan is not the one that follows from the study."""
    spec = stored["spec"]
    for key in ("name", "budget", "protocols"):
        if stored[key] != spec.get(key):
            yield f"plan.json: its {key} is not the one of its study"
    yield from _row_errors(results, derived)
    for key, what in COMPARED.items():
        if not derived.left_out and stored[key] != derived.facts[key]:
            yield f"plan.json: its {what} ({key}) are not those that follow from its study"


def _row_errors(results: Results, derived: Derived) -> Iterator[str]:
    expected = {_key(row): row for row in (Row(**row) for row in derived.facts["rows"])}
    found = {_key(row): row for row in results.rows}
    if len(found) < len(results.rows):
        twice = next(key for key, times in Counter(map(_key, results.rows)).items() if times > 1)
        yield f"plan.json lists {_named(found[twice])} more than once"
    wrong = [row for key, row in found.items() if key in expected and row.cell != expected[key].cell]
    for row in wrong[:SHOWN]:
        yield (
            f"{_named(row)}: the study gives the result {expected[_key(row)].cell}, and the plan names {row.cell}"
            f"{_difference(results, row, derived.cells[expected[_key(row)].cell].identity)}"
        )
    if len(wrong) > SHOWN:
        yield f"and {len(wrong) - SHOWN:,} more results that are not those of the study"
    yield from _listed(
        [row for key, row in expected.items() if key not in found], "the study asks for", "is not in the plan"
    )
    if not derived.left_out:
        more = [row for key, row in found.items() if key not in expected]
        yield from _listed(more, "the plan has", "is not a result of its study")
    for key, row in found.items():
        if key in expected and row.cell == expected[key].cell and row != expected[key]:
            yield f"{_named(row)}: its title or the results that it is computed from are not those of the study"


def _key(row: Row) -> tuple[Any, ...]:
    return (row.protocol, *sorted(row.tags.items()))


def _named(row: Row) -> str:
    """Return the protocol and the tags of a row."""
    tags = ", ".join(f"{name} {value!r}" for name, value in row.tags.items() if value)
    return f"{row.protocol} ({tags})"


def _listed(rows: Sequence[Row], start: str, end: str) -> Iterator[str]:
    for row in rows[:SHOWN]:
        yield f"{start} {_named(row)}, which {end}"
    if len(rows) > SHOWN:
        yield f"{start} {len(rows) - SHOWN:,} more results of this kind"


def _difference(results: Results, row: Row, expected: Any) -> str:
    """Return the first part of a record's identity that is not the expected one."""
    if not results.store.has(row.cell):
        return ""
    for path, want, got in differences(expected, results.store.facts(row.cell).get("identity")):
        return f"; {path} should be {str(want)[:100]} and is {str(got)[:100]}"
    return ""


def differences(expected: Any, found: Any, path: str = "its identity") -> Iterator[tuple[str, Any, Any]]:
    """Yield the places at which two JSON values differ, with both values."""
    if isinstance(expected, Mapping) and isinstance(found, Mapping):
        for key in [*expected, *(key for key in found if key not in expected)]:
            yield from differences(expected.get(key), found.get(key), f"{path}.{key}")
    elif expected != found:
        yield path, expected, found
