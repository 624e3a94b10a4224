"""Runs written by hand: scores, gaps and failures of a test's choosing, stored as a run would store them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from farout import ImageSet
from farout.networks import create, save_weights
from farout.study.cells.cell import Cell, Entry, Work
from farout.study.cells.errors import error_line
from farout.study.records import read_verified_json, write_verified_json
from farout.study.results import PLAN, Results, write_plan
from farout.study.sources.images import LiveImages
from farout.study.spec import Budget, ProtocolSpec
from farout.study.store import Store, array_file, score_table
from farout.study.study import Inliers, Study, Trial

Outcome = NDArray[np.float64] | str | None
"""Scores, the traceback of a failure, or None where nothing has been tried."""
Subject = tuple[str, str, str]
"""Network, seed, detector."""
INLIERS = ""
"""What a run's plan calls the inliers among the image sets."""


@dataclass(frozen=True)
class NamedCell(Cell):
    """A cell that is only a name: nobody computes it."""

    subject: Subject
    images: str

    @property
    def identity(self) -> Any:
        return [*self.subject, self.images]

    @property
    def group(self) -> str:
        return self.id

    @property
    def title(self) -> str:
        return f"score {self.images or 'inliers'} by {self.subject[0] or self.subject[2]}"

    def work(self, cells: Sequence[Any]) -> Work:
        raise NotImplementedError


def write_run(
    root: Path,
    outcomes: Mapping[Subject, Mapping[str, Outcome]],
    *,
    name: str = "written",
    budget: Budget = "quick",
    spec: Any = None,
    protocol: str = "clean",
    attributes: Callable[[int], Mapping[str, NDArray[Any]]] = lambda count: {},
) -> Results:
    """A run of one protocol that holds these outcomes by detector and image set; `attributes` are those of n images."""
    store = Store(root).open()
    entries = []
    for images in dict.fromkeys(images for sets in outcomes.values() for images in sets):
        for subject, sets in outcomes.items():
            cell = NamedCell(subject, images)
            tags = dict(zip(("network", "seed", "detector"), subject, strict=True)) | {"outliers": images}
            entries.append(Entry(protocol, cell, tags))
            _put(store, cell.id, sets[images], attributes)
    test = LiveImages(ImageSet.from_arrays(np.zeros((1, 8, 8, 3), np.uint8)))
    trials, protocols = [Trial(0, Inliers(None, None, test), {})], [ProtocolSpec(name=protocol)]
    write_plan(store, Study(name, trials, protocols, budget, spec), entries)
    return Results(root)


def rewrite_plan(root: Path, change: Callable[[dict[str, Any]], dict[str, Any]]) -> Path:
    """Change the content of a stored plan, and its checksum with it; return the file's path."""
    path = root / PLAN
    write_verified_json(path, change(read_verified_json(path)))
    return path


def _put(store: Store, cell: str, outcome: Outcome, attributes: Callable[[int], Mapping[str, NDArray[Any]]]) -> None:
    if isinstance(outcome, str):
        store.fail(cell, {"traceback": outcome, "reason": error_line(outcome)})
    elif outcome is not None:
        columns = {f"attribute:{key}": values for key, values in attributes(len(outcome)).items()}
        table = score_table({"index": np.arange(len(outcome)), "score": outcome, **columns})
        files = {"scores.parquet": table, "examples.safetensors": array_file(_ends(outcome))}
        store.write(cell, {}, files)


def _ends(scores: NDArray[np.float64]) -> dict[str, NDArray[Any]]:
    """The places of both ends of the scores, with pictures whose gray is the place."""
    order = np.argsort(scores, kind="stable")
    ends = {"lowest": order[:8], "highest": order[::-1][:8]}
    pictures = {f"{end}_images": np.ones((1, 4, 4, 3), np.uint8) * o[:, None, None, None] for end, o in ends.items()}
    return ends | {end: picture.astype(np.uint8) for end, picture in pictures.items()}


def lenet_weights(folder: Path, *, classes: int = 4, side: int = 32, seed: int = 0) -> Path:
    """A file with the weights of an untrained LeNet for the toy set."""
    path = folder / "lenet.safetensors"
    save_weights(create("lenet", classes, side, seed=seed), path)
    return path
