"""Open sets in shards: tar archives in WebDataset's layout, or Parquet tables with a column of images."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from farout.data.arrays import numbered
from farout.data.encoded import EncodedSet
from farout.data.parquet import ParquetEntries, image_columns
from farout.data.patterns import expand
from farout.data.pixels import SUFFIXES
from farout.data.tars import TarEntries
from farout.registry import unknown

KINDS = (".tar", ".parquet")
_SPLITS = {"train": "train", "val": "val", "valid": "val", "validation": "val", "test": "test"}
_SPLIT = re.compile(rf"({'|'.join(sorted(_SPLITS, reverse=True))})(?![a-z])")
"""Split with which the name of a shard begins: train-00000-of-00002.parquet."""


def load_shards(paths: Sequence[Path], split: str, what: str, **options: Any) -> EncodedSet:
    """Return the set in these shards; if their names begin with several splits, that of one."""
    paths = _of_split(paths, split, what)
    for path in paths:
        if not path.is_file():
            raise ValueError(f"{path} is no file; expected shards, .tar or .parquet files")
    kinds = {path.suffix for path in paths}
    if len(kinds) > 1 or not kinds <= set(KINDS):
        raise ValueError(
            f"{what} has files ending in {', '.join(sorted(kinds))}; expected shards of one kind, .tar or .parquet (of "
            "images one by one, give their folder)"
        )
    entries = TarEntries(paths) if kinds == {".tar"} else ParquetEntries(paths)
    classes = entries.classes if isinstance(entries, ParquetEntries) else ()
    return EncodedSet(entries, entries.labels, classes=classes or numbered(entries.labels), **options)


def shards_in(folder: Path) -> list[Path]:
    """Return the shards in a folder, sorted by name; none if it holds images or folders, or tables of another kind."""
    inside = [path for path in folder.iterdir() if not path.name.startswith(".")]
    if any(path.suffix.lower() in SUFFIXES or path.is_dir() for path in inside):
        return []
    found = sorted(path for path in inside if path.suffix in KINDS)
    tables = [path for path in found if path.suffix == ".parquet"]
    return [] if tables and all(image_columns(path) is None for path in tables) else found


def shard_splits(paths: Sequence[Path]) -> list[str]:
    """Return the splits that the names of shards begin with; none if it is a single one, or not all have one."""
    found = [_split_of(path) for path in paths]
    return (
        sorted(set(filter(None, found)), key=list(_SPLITS).index) if None not in found and len(set(found)) > 1 else []
    )


def pattern_splits(pattern: str) -> list[str]:
    """Return the splits of the shards that a pattern names; none if it names no files."""
    try:
        return shard_splits(expand(pattern))
    except (OSError, ValueError):
        return []  # which `load` says with more words


def _of_split(paths: Sequence[Path], split: str, what: str) -> Sequence[Path]:
    splits = shard_splits(paths)
    if splits and split not in splits:
        raise unknown(f"split of {what}:", split, splits)
    return [path for path in paths if _split_of(path) == split] if splits else paths


def _split_of(path: Path) -> str | None:
    found = _SPLIT.match(path.name)
    return _SPLITS[found[1]] if found else None
