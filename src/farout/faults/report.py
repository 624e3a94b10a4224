"""Figures of a series: a JSON file, and a table in Markdown."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from farout.faults.fault import Verdict
from farout.faults.series import as_json
from farout.files import write_json, write_text
from farout.study.sessions import machine

JSON, TABLE = "faults.json", "faults.md"


def write_figures(folder: Path, verdicts: Iterable[Verdict], **facts: Any) -> None:
    """Write the figures of a series, and with them those of other faults that the folder holds already."""
    path, about = folder / JSON, machine("cpu")
    found = json.loads(path.read_text())["faults"] if path.is_file() else []
    new = [{**as_json(one), "date": datetime.now(UTC).date().isoformat()} for one in verdicts]
    kept = [one for one in found if one["fault"] not in {other["fault"] for other in new}]
    everything = [*kept, *new]
    write_json(
        path, {"machine": {key: about[key] for key in ("cores", "system", "python")}, **facts, "faults": everything}
    )
    write_text(folder / TABLE, "\n".join(markdown(everything)) + "\n")


def markdown(faults: Sequence[dict[str, Any]]) -> list[str]:
    """Return the lines of a table: fault, times, what was hit, and what was lost, wrong or not named."""
    lines = ["| fault | times | what was hit | lost, wrong or not named |", "|---|---|---|---|"]
    for one in faults:
        means = f" ({one['means']})" if one["means"] else ""
        hit = ", ".join(f"{what} {count}" for what, count in sorted(one["hit"].items()))
        lines.append(f"| {one['fault']}{means} | {one['count']} | {hit} | {len(one['problems'])} |")
    return lines
