"""The JSON file beside a set on disk that says which set it is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from farout.files import read_json


def read_facts(path: Path) -> dict[str, Any]:
    """Return what a manifest says; an error where that cannot be known."""
    try:
        facts = read_json(path)
    except ValueError as error:
        raise ValueError(f"{error}, {_ADVICE}") from error
    if not isinstance(facts, dict):
        raise ValueError(f"{path} holds a {type(facts).__name__} and no mapping of facts, {_ADVICE}")
    return facts


_ADVICE = "so it is unknown which set lies beside it; delete both, or choose another folder with --out"
