"""Reader of .npy files next to labels.npy: images.npy, or SHIFT.npy with all severities in order, as in CIFAR-10-C."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from farout.data.arrays import ArraySet
from farout.data.mapped import Mapped
from farout.data.stamps import Files
from farout.data.writing.facts import read_facts
from farout.data.writing.layout import PUBLISHED_NAMES
from farout.data.writing.manifest import FILE, read_manifest
from farout.shifts.corruption import SEVERITIES
from farout.shifts.selection import PUBLISHED

IMAGES, LABELS = "images.npy", "labels.npy"
"""Files of a folder that is one set."""


def read_npy(path: Path, name: str | None = None) -> ArraySet:
    """Return the memory-mapped images of an .npy file, with labels.npy and the attribute "severity" if known."""
    files = Files.at(path.parent, [name for name in (path.name, LABELS) if (path.parent / name).exists()])
    images, labels, severities = _open(path), None, _find_severities(path)
    total = images.header.shape[0] if images.header.shape else 0
    if (path.parent / LABELS).exists():
        labels = _open(path.parent / LABELS).open()
        labels = labels if path.name == IMAGES else labels[:total]  # they may cover more severities than this file
    if severities and total % len(severities):
        raise ValueError(
            f"{path} has {total:,} images; expected the same number for each of the severities {severities}"
        )
    severity = np.repeat(severities, total // len(severities)) if severities else None
    attributes = {"severity": severity}
    return ArraySet(images, labels, name=name or path.stem, attributes=attributes, files=files, part=str(severities))


def _open(path: Path) -> Mapped:
    try:
        return Mapped.at(path)
    except (ValueError, EOFError) as error:
        raise ValueError(f"{path} is damaged or no .npy file ({error}); write it again with numpy.save") from error


def _find_severities(path: Path) -> list[int]:
    """Return the severities in a file: from the manifest, else all five if the name is a published corruption."""
    if (path.parent / FILE).exists() and "shifts" in read_facts(path.parent / FILE):
        entries = read_manifest(path.parent)["shifts"].values()
        return next((entry["severities"] for entry in entries if entry["place"] == path.name), [])
    return list(SEVERITIES) if path.stem in {PUBLISHED_NAMES.get(name, name) for name in PUBLISHED["C"]} else []
