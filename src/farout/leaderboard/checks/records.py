"""Records of a submission: each is where its identity says, and was computed from the records that it names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from farout.identity import digest
from farout.leaderboard.pack import OMITTED
from farout.leaderboard.submission import Submission
from farout.study.engines.outdated import INPUTS
from farout.study.records import Damaged
from farout.study.results import Results, Row
from farout.study.store import SCORES, Store

Facts = Mapping[str, Any]
TABLE_BYTES = 1 << 31
"""Largest size of an unpacked table of scores."""


def all_cells(rows: Sequence[Row]) -> list[str]:
    """Return all cells that a plan names, those included that others are computed from."""
    return list(dict.fromkeys(cell for row in rows for cell in (*row.requires, row.cell)))


def record_errors(submission: Submission, results: Results) -> Iterator[str]:
    """Yield what is wrong with the records themselves."""
    cells = all_cells(results.rows)
    stored = {path.split("/")[1] for path in submission.named("cells/")} | results.store.packs.cells()
    yield from results.store.packs.damaged()
    for cell in sorted(stored - set(cells)):
        yield f"cells/{cell}: no result of the plan has this identity"
    records: dict[str, Facts] = {}
    for cell in (cell for cell in cells if cell in stored):
        try:
            records[cell] = results.store.facts(cell)
        except (Damaged, FileNotFoundError) as error:
            yield f"cells/{cell}: {error}"
            continue
        yield from _errors(results.store, cell, records[cell])
    yield from _input_errors(records)


def _errors(store: Store, cell: str, facts: Facts) -> Iterator[str]:
    identity = facts.get("identity")
    if digest(identity) != cell:
        yield (
            f"cells/{cell}: the identity in its record is that of {digest(identity)} ({_brief(identity)}); this record "
            "belongs to another result"
        )
    if SCORES in facts["files"]:
        try:
            about = store.parquet(cell).metadata
        except Exception as error:  # the file is a stranger's, and pyarrow has many errors
            yield f"cells/{cell}/{SCORES} cannot be read as Parquet ({error})"
            return
        unpacked = sum(about.row_group(number).total_byte_size for number in range(about.num_row_groups))
        if unpacked > TABLE_BYTES:
            yield f"cells/{cell}/{SCORES} unpacks to {unpacked:,} bytes, at most {TABLE_BYTES:,} are read"
        count = facts.get("images", facts.get("chains", about.num_rows))
        if about.num_rows != count:
            yield f"cells/{cell}/{SCORES} has {about.num_rows:,} rows, its record says {count:,}"


def _brief(identity: Any) -> str:
    return str(identity.get("kind", "unknown")) if isinstance(identity, dict) else "unknown"


def _input_errors(records: Mapping[str, Facts]) -> Iterator[str]:
    """Yield where a record was computed from another content than that of the record in the submission."""
    contents = {cell: content(facts) for cell, facts in records.items()}
    for cell, facts in records.items():
        for required, expected in facts.get(INPUTS, {}).items():
            if contents.get(required, expected) != expected:
                yield (
                    f"cells/{cell} ({facts.get('title')}) was computed from another {records[required].get('title')} "
                    f"than the one in cells/{required}"
                )


def content(facts: Facts) -> str:
    """Return the hash of the content of a record as the run had it, with the files that the submission leaves out."""
    return digest({**facts["files"], **facts.get(OMITTED, {})} or facts)
