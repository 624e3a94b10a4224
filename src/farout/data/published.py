"""Corrupted sets in the layout of CIFAR-10-C: SHIFT.npy, its severities one after another, beside labels.npy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from farout.data.arrays import ArraySet
from farout.data.writing.facts import read_facts
from farout.data.writing.layout import PUBLISHED_NAMES
from farout.data.writing.manifest import FILE, read_manifest
from farout.shifts.choosing import PUBLISHED
from farout.shifts.corruption import SEVERITIES


def read_npy(path: Path) -> ArraySet:
    """The images of an .npy file, memory-mapped, with the labels beside it and the attribute "severity", if any."""
    images, labels, severities = _array(path), None, _severities(path)
    if (path.parent / "labels.npy").exists():
        labels = _array(path.parent / "labels.npy")[: len(images)]  # they serve files of fewer severities too
    if severities and len(images) % len(severities):
        raise ValueError(f"{path} has {len(images):,} images; expected as many of each of the severities {severities}")
    severity = np.repeat(severities, len(images) // len(severities)) if severities else None
    return ArraySet(images, labels, name=path.stem, known={"severity": severity})


def _array(path: Path) -> NDArray[Any]:
    try:
        array: NDArray[Any] = np.load(path, mmap_mode="r", allow_pickle=False)
    except (ValueError, EOFError) as error:
        raise ValueError(f"{path} is damaged or no .npy file ({error}); write it again with numpy.save") from error
    return array


def _severities(path: Path) -> list[int]:
    """What the manifest says, or what the name says: files of the published corruptions hold all five."""
    if (path.parent / FILE).exists() and "shifts" in read_facts(path.parent / FILE):
        entries = read_manifest(path.parent)["shifts"].values()
        return next((entry["severities"] for entry in entries if entry["place"] == path.name), [])
    return list(SEVERITIES) if path.stem in {PUBLISHED_NAMES.get(name, name) for name in PUBLISHED["C"]} else []
