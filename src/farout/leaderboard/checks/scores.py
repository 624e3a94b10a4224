"""Per-image scores: of the right images, in the right order, finite, and the same in every protocol."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from farout.core import ImageSet
from farout.identity import digest
from farout.leaderboard.checks.records import all_cells
from farout.leaderboard.derive import Derived
from farout.study.cells.cell import Cell, Entry
from farout.study.cells.predict import PredictCell
from farout.study.cells.score import ScoreCell
from farout.study.records import Damaged
from farout.study.results import Results
from farout.study.sources import images as sources
from farout.study.sources.images import ImageSource
from farout.study.store import SCORES, Store

SAME_PIXELS = (
    sources.SubsetImages, sources.FirstImages, sources.RepeatedImages, sources.CutImages, sources.UncorruptedImages,
    sources.SoundImages, sources.BalancedImages, sources.ClassImages,
)  # fmt: skip
"""Sources that select images of another one and leave them unchanged."""
TOLERANCE = 1e-4
"""Largest difference between scores of one image, in standard deviations of the scores: sums are rounded differently in
batches of another size."""
ATTRIBUTE = "attribute:"
Result = tuple[Entry, ScoreCell]
"""Entry of a plan, with its cell."""


def column_errors(results: Results) -> Iterator[str]:
    """Yield where per-image columns are no finite numbers, or disagree about the same images."""
    labels: dict[tuple[str, str], tuple[str, NDArray[Any]]] = {}
    for cell in all_cells(results.rows):
        if not (results.store.has(cell) and SCORES in results.store.facts(cell)["files"]):
            continue
        try:
            columns = {name: results.store.column(cell, name) for name in results.store.columns(cell)}
        except Damaged as error:
            yield str(error)
            continue
        yield from _number_errors(f"cells/{cell}", columns)
        yield from _example_errors(results.store, cell, columns)
        identity = results.store.facts(cell)["identity"]
        images = identity.get("images") if isinstance(identity, dict) else None
        for name in (one for one in columns if images and (one in ("index", "label") or one.startswith(ATTRIBUTE))):
            first, values = labels.setdefault((str(images), name), (cell, columns[name]))
            if not np.array_equal(values, columns[name]):
                where = _first(name, values, columns)
                yield f"cells/{cell} and cells/{first} are of the same images, and differ in {where}"


def _first(name: str, values: NDArray[Any], columns: Mapping[str, NDArray[Any]]) -> str:
    """Return the name of a column, and the first image whose value is another one."""
    other = columns[name]
    if len(values) != len(other):
        return f"the length of {name!r}"
    place = int(np.flatnonzero(values != other)[0])
    number = columns["index"][place] if "index" in columns else place
    return f"{name!r}, first for image {number}: {other[place]} and {values[place]}"


def _number_errors(where: str, columns: Mapping[str, NDArray[Any]]) -> Iterator[str]:
    if "index" not in columns or columns["index"].dtype != np.int64:
        yield f"{where}: it has no column 'index' of whole numbers"
    scores = columns.get("score")
    if scores is not None and (scores.dtype.kind != "f" or not np.isfinite(scores).all()):
        yield f"{where}: its scores are not all finite numbers"


def _example_errors(store: Store, cell: str, columns: Mapping[str, NDArray[Any]]) -> Iterator[str]:
    """Yield if the pictures of the lowest and highest scores are not those of the images with these scores."""
    if store.facts(cell)["identity"].get("kind") != "scores":
        return
    shown, order = store.arrays(cell, "examples.safetensors"), np.argsort(columns["score"], kind="stable")
    for name, expected in (("lowest", order), ("highest", order[::-1])):
        if name in shown and not np.array_equal(shown[name], expected[: len(shown[name])]):
            yield (
                f"cells/{cell} ({store.facts(cell).get('title')}): its pictures are of other images than those with "
                f"the {name} scores; a score has been changed"
            )


def image_errors(results: Results, derived: Derived) -> Iterator[str]:
    """Yield where the images that were scored are not those that the study selects."""
    for cell in derived.cells.values():
        if not isinstance(cell, ScoreCell | PredictCell) or not results.store.has(cell.id):
            continue
        for name, expected in _expected(cell.images.preview()).items():
            if name not in results.store.columns(cell.id):
                yield f"cells/{cell.id} ({cell.title}): its scores lack the column {name!r}"
            elif not np.array_equal(found := results.store.column(cell.id, name), expected):
                columns = {"index": results.store.column(cell.id, "index"), name: found}
                yield (
                    f"cells/{cell.id} ({cell.title}): its column is not that of the images that the study selects: "
                    f"{_first(name, expected, columns)}"
                )


def _expected(images: ImageSet) -> dict[str, NDArray[Any]]:
    """Return the columns that follow from the images."""
    attributes = {f"{ATTRIBUTE}{name}": np.asarray(values) for name, values in images.attributes.items()}
    labels = {} if images.labels is None else {"label": images.labels}
    return {"index": images.index, **labels, **attributes}


def agreement_errors(results: Results, derived: Derived) -> Iterator[str]:
    """Yield where a detector has different scores of the same unchanged image in two results."""
    groups: dict[tuple[str, str], dict[str, Result]] = {}
    for entry in derived.entries:
        if isinstance(entry.cell, ScoreCell) and results.store.has(entry.cell.id):
            key = digest(entry.cell.subject.identity()), base_of(entry.cell.images)
            groups.setdefault(key, {}).setdefault(entry.cell.id, (entry, entry.cell))
    for found in groups.values():
        first, *others = sorted(found.values(), key=lambda one: -len(results.store.scores(one[1].id)))
        for other in others:
            yield from _disagreement(results, first, other)


def base_of(source: ImageSource) -> str:
    """Return the fingerprint of the set whose unchanged images a source selects."""
    while isinstance(source, SAME_PIXELS):
        source = source.source
    if isinstance(source, sources.MatchedImages) and source.source.about.shape == source.shape:
        return base_of(source.source)
    if isinstance(source, sources.NamedImages):
        return sources.NamedImages(source.spec.model_copy(update={"limit": None})).about.fingerprint
    return source.about.fingerprint


def _disagreement(results: Results, first: Result, other: Result) -> Iterator[str]:
    one, two = (_by_index(results, cell) for _, cell in (first, other))
    shared = sorted(one.keys() & two.keys())
    if not shared:
        return
    a, b = (np.array([scores[index] for index in shared]) for scores in (one, two))
    apart = np.abs(a - b)
    wrong = apart > TOLERANCE * (float(np.std(list(one.values()))) or 1.0)
    if wrong.any():
        worst, (entry, cell) = int(apart.argmax()), first
        yield (
            f"{cell.subject.title}: its scores of the same images of {cell.images.about.name} differ between "
            f"{entry.protocol} and {other[0].protocol}: image {shared[worst]} has {a[worst]:.6g} (cells/{cell.id}) and "
            f"{b[worst]:.6g} (cells/{other[1].id}); {int(wrong.sum()):,} of {len(shared):,} differ"
        )


def _by_index(results: Results, cell: Cell) -> dict[int, float]:
    index, scores = results.store.column(cell.id, "index"), results.store.scores(cell.id)
    return dict(zip(index.tolist(), scores.tolist(), strict=True))
