"""Runs of `evg` written by hand: searches, controls and transfers of a test's choosing."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from farout import ImageSet
from farout.study.cells.cell import Entry
from farout.study.cells.search import FOUND, PER_CHAIN
from farout.study.results import Results, write_plan
from farout.study.sources.images import LiveImages
from farout.study.spec import ProtocolSpec
from farout.study.store import Store, array_file, score_table
from farout.study.study import Inliers, Study, Trial
from helpers.written_runs import NamedCell, Subject


def scores_of(scores: ArrayLike) -> Callable[[Path], None]:
    """A table of scores by image."""
    values = np.asarray(scores, np.float64)
    return score_table({"index": np.arange(len(values)), "score": values})


class Written:
    """A run that grows row by row."""

    def __init__(self, root: Path) -> None:
        self.root, self.store = root, Store(root).open()
        self.entries: list[Entry] = []

    def scored(self, who: Subject, role: str, scores: ArrayLike | None, **tags: str) -> Written:
        """Scores of inliers, outliers or what was found against another; None where nothing was computed."""
        cell = self._planned(who, role, tags)
        if scores is not None:
            self.store.write(cell, {}, {"scores.parquet": scores_of(scores)})
        return self

    def searched(
        self,
        who: Subject,
        outliers: str,
        variation: str,
        method: str,
        scores: ArrayLike,
        *,
        queries: Sequence[int] = (1, 11),
        bases: bool = True,
        **told: ArrayLike,
    ) -> Written:
        """A search, on inliers where there is no name of outliers; `told` are columns, or the trace."""
        tags = {"outliers": outliers, "variation": variation, "method": method, "standardized_on": "val"}
        cell = self._planned(who, "search" if outliers else "control", tags)
        found = np.asarray(scores, np.float64)
        given = {name: np.asarray(values, np.float64) for name, values in told.items()}
        trace = given.pop("trace", np.repeat(found[:, None], len(queries), 1))
        columns = {name: found if name == "score" else given.get(name, np.zeros(len(found))) for name in PER_CHAIN}
        files = {
            "scores.parquet": score_table({"index": np.arange(len(found)), **columns}),
            FOUND: array_file({"trace": trace, "queries": np.array(queries)}),
            "examples.safetensors": array_file(pictures(found, bases)),
        }
        self.store.write(cell, {"chains": len(found), "queries": queries[-1]}, files)
        return self

    def _planned(self, who: Subject, role: str, tags: Mapping[str, str]) -> str:
        names = dict(zip(("network", "seed", "detector"), who, strict=True))
        every = {**names, "role": role, **tags}
        cell = NamedCell(who, json.dumps(every))
        self.entries.append(Entry("evg", cell, every))
        return cell.id

    def results(self) -> Results:
        test = LiveImages(ImageSet.from_arrays(np.zeros((1, 8, 8, 3), np.uint8)))
        trials, protocols = [Trial(0, Inliers(None, None, test), {})], [ProtocolSpec(name="evg")]
        write_plan(self.store, Study("written", trials, protocols, "quick", None), self.entries)
        return Results(self.root)


def pictures(scores: NDArray[np.float64], bases: bool) -> dict[str, NDArray[Any]]:
    """Small pictures as a search keeps them: that of chain n has the gray n, what was found of it 100 more."""
    examples: dict[str, NDArray[Any]] = {}
    for kind, places in (("lowest", np.argsort(scores, kind="stable")[:8]), ("first", np.arange(min(8, len(scores))))):
        gray = np.ones((1, 4, 4, 3), np.uint8) * places[:, None, None, None].astype(np.uint8)
        examples |= {kind: places, f"{kind}_images": gray + np.uint8(100)}
        examples |= {f"{kind}_bases": gray} if bases else {}
    return examples
