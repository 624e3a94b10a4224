"""Reader of the JSON manifest of a set on disk."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from farout.files import read_json


def read_facts(path: Path) -> dict[str, Any]:
    """Return the content of a manifest; raise an error if it is not a JSON mapping."""
    try:
        facts = read_json(path)
    except ValueError as error:
        raise ValueError(f"{error}, {_ADVICE}") from error
    if not isinstance(facts, dict):
        raise ValueError(f"{path} holds a {type(facts).__name__}, expected a mapping, {_ADVICE}")
    return facts


_ADVICE = "so it is unknown which set it belongs to; delete the file and the set, or choose another folder with --out"
