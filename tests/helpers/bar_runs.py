"""Runs of `raised_bar` written by hand: scores, predictions, features and generated sets of a test's choosing."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from farout import ImageSet
from farout.study.cells.cell import Entry
from farout.study.cells.features import FEATURES
from farout.study.cells.generate import IMAGES
from farout.study.results import Results, write_plan
from farout.study.sources.images import LiveImages
from farout.study.spec import ProtocolSpec
from farout.study.store import Store, array_file, score_table
from farout.study.study import Inliers, Study, Trial
from helpers.written_runs import NamedCell, Subject

TAGS = ("network", "detector", "outliers", "set", "of", "kind", "exposure")


class Written:
    """A run that grows row by row."""

    def __init__(self, root: Path) -> None:
        self.root, self.store = root, Store(root).open()
        self.entries: list[Entry] = []

    def scored(self, who: Subject, outliers: str, scores: ArrayLike) -> Written:
        """Scores of a detector; of inliers where there is no name of outliers."""
        network, seed, detector = who
        tags = {"network": network, "seed": seed, "detector": detector, "outliers": outliers}
        return self._put(tags, {"score": np.asarray(scores, np.float64)})

    def row(
        self,
        role: str,
        columns: Mapping[str, ArrayLike] | None = None,
        facts: Mapping[str, Any] | None = None,
        **tags: str,
    ) -> Written:
        """Columns of a row with a role; None where nothing was computed."""
        return self._put(self._tags(role, tags), columns, None, facts)

    def generated(self, label: str, kind: str, images: int = 4, **columns: ArrayLike) -> Written:
        """A generated set of gray images."""
        pixels = np.zeros((images, 8, 8, 1), np.uint8)
        files = {IMAGES: lambda path: np.save(path, pixels)}
        facts = (
            {"images": images, "low": 0.1, "high": 0.5, "share_kept": 0.25} if kind == "near" else {"images": images}
        )
        found = columns or {"lambda_s": np.ones(images)}
        return self._put(self._tags("set", {"set": label, "kind": kind}), found, files, facts)

    def features(self, label: str, of: str, kind: str, rows: ArrayLike, network: str = "vgg") -> Written:
        """Features of an image set that a generated set is compared with."""
        files = {FEATURES: array_file({"features": np.asarray(rows, np.float32)})}
        tags = self._tags("features", {"set": label, "of": of, "kind": kind})
        return self._put(tags, {}, files, {"network": network})

    def classified(
        self, network: str, of: str, kind: str, confidence: ArrayLike, correct: ArrayLike, seed: str = "0"
    ) -> Written:
        """Confidence of a network on labeled images, and whether its predictions are correct."""
        hits = np.asarray(correct, bool)
        tags = {"network": network, "of": of, "kind": kind, "seed": seed}
        self.row("confidence", {"score": 1 - np.asarray(confidence, np.float64)}, **tags)
        return self.row("prediction", {"prediction": np.where(hits, 1, 0), "label": np.ones(len(hits), int)}, **tags)

    def _tags(self, role: str, tags: Mapping[str, str]) -> dict[str, str]:
        return {**dict.fromkeys(TAGS, ""), "seed": "0", "role": role, **tags}

    def _put(
        self,
        tags: dict[str, str],
        columns: Mapping[str, ArrayLike] | None,
        files: Mapping[str, Callable[[Path], None]] | None = None,
        facts: Mapping[str, Any] | None = None,
    ) -> Written:
        cell = NamedCell((tags["network"], tags["seed"], tags["detector"]), json.dumps(tags))
        self.entries.append(Entry("raised_bar", cell, tags))
        if columns is None:
            return self
        every = {name: np.asarray(values) for name, values in columns.items()}
        count = len(next(iter(every.values()))) if every else 0
        table = {"scores.parquet": score_table({"index": np.arange(count), **every})}
        self.store.write(cell.id, facts or {}, {**table, **(files or {})})
        return self

    def results(self) -> Results:
        """The results of the run so far."""
        test = LiveImages(ImageSet.from_arrays(np.zeros((1, 8, 8, 3), np.uint8)))
        trials, protocols = [Trial(0, Inliers(None, None, test), {})], [ProtocolSpec(name="raised_bar")]
        write_plan(self.store, Study("written", trials, protocols, "quick", None), self.entries)
        return Results(self.root)
