"""Reader of corrupted sets in the layout of CIFAR-10-C: SHIFT.npy holds all severities in order, next to labels.npy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from farout.data.arrays import ArraySet
from farout.data.stamps import Files
from farout.data.writing.facts import read_facts
from farout.data.writing.layout import PUBLISHED_NAMES
from farout.data.writing.manifest import FILE, read_manifest
from farout.shifts.corruption import SEVERITIES
from farout.shifts.selection import PUBLISHED


def read_npy(path: Path) -> ArraySet:
    """Return the memory-mapped images of an .npy file, with labels.npy and the attribute "severity" if known."""
    files = Files.at(path.parent, [name for name in (path.name, "labels.npy") if (path.parent / name).exists()])
    images, labels, severities = _load_array(path), None, _find_severities(path)
    if (path.parent / "labels.npy").exists():
        labels = _load_array(path.parent / "labels.npy")[
            : len(images)
        ]  # labels.npy may cover more severities than this file
    if severities and len(images) % len(severities):
        raise ValueError(
            f"{path} has {len(images):,} images; expected the same number for each of the severities {severities}"
        )
    severity = np.repeat(severities, len(images) // len(severities)) if severities else None
    found = ArraySet(images, labels, name=path.stem, attributes={"severity": severity})
    found.files, found.part = files, str(severities)
    return found


def _load_array(path: Path) -> NDArray[Any]:
    try:
        array: NDArray[Any] = np.load(path, mmap_mode="r", allow_pickle=False)
    except (ValueError, EOFError) as error:
        raise ValueError(f"{path} is damaged or no .npy file ({error}); write it again with numpy.save") from error
    return array


def _find_severities(path: Path) -> list[int]:
    """Return the severities in a file: from the manifest, else all five if the name is a published corruption."""
    if (path.parent / FILE).exists() and "shifts" in read_facts(path.parent / FILE):
        entries = read_manifest(path.parent)["shifts"].values()
        return next((entry["severities"] for entry in entries if entry["place"] == path.name), [])
    return list(SEVERITIES) if path.stem in {PUBLISHED_NAMES.get(name, name) for name in PUBLISHED["C"]} else []
