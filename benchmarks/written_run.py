"""Run with random scores, stored as `farout run` stores its own: detectors on clean outlier sets and under attacks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from farout import ImageSet
from farout.protocols.evasion.entries import EFFORT_TAGS
from farout.study.cells.cell import Cell, Entry, Work
from farout.study.results import write_plan
from farout.study.sources.images import LiveImages
from farout.study.spec import ProtocolSpec
from farout.study.store import Store, array_file, score_table
from farout.study.study import Inliers, Study, Trial

NETWORK, SEED = "net", "0"
BASE = {"network": NETWORK, "seed": SEED, "detector": "", "outliers": ""}
MADE = dict(zip(EFFORT_TAGS, ("1000", "10000", "", ""), strict=True)) | {"made_on": NETWORK, "level": "1"}
EVASION = {**BASE, "attack": "", "made_on": "", "level": "", "rounded": "", **dict.fromkeys(EFFORT_TAGS, "")}
Columns = dict[str, NDArray[Any]]


@dataclass(frozen=True)
class Stored(Cell):
    """Cell that is only a name."""

    name: str

    @property
    def identity(self) -> Any:
        return self.name

    @property
    def group(self) -> str:
        return self.name

    @property
    def title(self) -> str:
        return self.name

    def work(self, cells: Any) -> Work:
        raise NotImplementedError


class WrittenRun:
    """Run whose scores are normal: inliers around 0, outliers around 1, attacked images around their originals."""

    def __init__(self, root: Path, *, detectors: int, attacks: int, images: int, attacked: int, sets: int = 2) -> None:
        self._store, self._rng = Store(root).open(), np.random.default_rng(0)
        self._images, self._attacked = images, attacked
        self._detectors = [f"detector {k:02d}" for k in range(detectors)]
        entries = [*self._clean(sets), *self._evasion([f"attack {k}" for k in range(attacks)])]
        test = LiveImages(ImageSet.from_arrays(np.zeros((1, 8, 8, 3), np.uint8)))
        protocols = [ProtocolSpec(name=name) for name in ("clean", "evasion")]
        trials = [Trial(0, Inliers(None, None, test), {})]
        write_plan(self._store, Study("written", trials, protocols, "standard", None), entries)

    def _clean(self, sets: int) -> Iterator[Entry]:
        for outliers in ["", *(f"set {k}" for k in range(sets))]:
            for detector in self._detectors:
                scores = self._rng.normal(bool(outliers), 1, self._images)
                tags = {**BASE, "detector": detector, "outliers": outliers}
                yield self._entry("clean", f"{detector} on {outliers}", {"score": scores}, tags)

    def _evasion(self, attacks: list[str]) -> Iterator[Entry]:
        scores = {name: self._rng.normal(0, 1, self._images) for name in self._detectors}
        for name, values in scores.items():
            tags = {**EVASION, "role": "inliers", "detector": name}
            yield self._entry("evasion", f"{name} on inliers", {"score": values}, tags)
        for attack in attacks:
            judged: Columns = {key: self._rng.random(self._attacked) < 0.9 for key in ("clean_correct", "success")}
            lengths = {key: self._rng.random(self._attacked) for key in ("l2", "linf")}
            made = {**EVASION, **MADE, "attack": attack}
            tags = {**made, "role": "attack"}
            yield self._entry("evasion", attack, {**judged, **lengths, "success_8bit": judged["success"]}, tags)
            about = {f"attribute:{key}": values for key, values in judged.items()}
            for name, values in scores.items():
                changed = values[: self._attacked] + self._rng.normal(0.5, 0.5, self._attacked)
                tags = {**made, "role": "attacked", "detector": name}
                yield self._entry("evasion", f"{name} under {attack}", {"score": changed, **about}, tags)

    def _entry(self, protocol: str, name: str, columns: Columns, tags: dict[str, str]) -> Entry:
        cell, count = Stored(f"{protocol}: {name}"), len(next(iter(columns.values())))
        files = {"scores.parquet": score_table({"index": np.arange(count), **columns})}
        files["examples.safetensors"] = array_file(_ends(columns)) if "score" in columns else array_file({})
        self._store.write(cell.id, {"title": cell.title, "identity": {"kind": "score", "images": name}}, files)
        return Entry(protocol, cell, tags)


def _ends(columns: Columns) -> Columns:
    """Return the positions of the lowest and highest scores, with gray pictures."""
    order, pictures = np.argsort(columns["score"]), np.full((8, 32, 32, 3), 128, np.uint8)
    return {"lowest": order[:8], "highest": order[::-1][:8], "lowest_images": pictures, "highest_images": pictures}
