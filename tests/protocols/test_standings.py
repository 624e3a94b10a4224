"""Detectors tied with the best: p-values against DeLong's paired test and Holm by hand, pairing, missing estimates."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations
from math import erfc, hypot, sqrt
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from farout import metrics
from farout.metrics.setups import setup_auroc
from farout.protocols.document import document
from farout.protocols.judged import judged
from farout.protocols.standings import with_standings
from farout.report.content import Measured, Standing, Stress, Subject
from farout.study.results import Results
from farout.study.store import array_file, score_table
from helpers.written_runs import INLIERS, write_run

Array = NDArray[np.float64]
Scores = Mapping[str, Array]
RNG = np.random.default_rng(0)
X, NEAR, FAR = RNG.normal(0, 1, 90), RNG.normal(1, 1, 80), RNG.normal(2, 1, 70)


def noisy(size: float) -> dict[str, Array]:
    rng = np.random.default_rng(round(100 * size))
    return {name: part + rng.normal(0, size, len(part)) for name, part in ((INLIERS, X), ("near", NEAR), ("far", FAR))}


def written(root: Path, scores: Mapping[str, Scores], images: Mapping[str, str] | None = None) -> Results:
    """Run of these detectors; all scored the same images, except those that `images` names others for."""
    results = write_run(root, {("net", "0", detector): sets for detector, sets in scores.items()})
    for row in results.rows:
        part = results.scores(row)
        identity = {"images": f"{(images or {}).get(row.tags['detector'], '')} {row.tags['outliers']}"}
        files = {"scores.parquet": score_table({"index": np.arange(len(part)), "score": part})}
        files["examples.safetensors"] = array_file(results.store.arrays(row.cell, "examples.safetensors"))
        results.store.remove_results([row.cell])
        results.store.write(row.cell, {"identity": identity}, files)
    return Results(root)


def standing(results: Results) -> Standing:
    (condition,) = document(results).overview.conditions
    assert condition.stress.standing
    return condition.stress.standing


def test_p_values_are_delongs_and_corrected_for_all_pairs(tmp_path: Path) -> None:
    sets = {name: {key: part for key, part in noisy(size).items() if key != "far"} for name, size in
            (("good", 0.0), ("close", 0.3), ("poor", 3.0))}  # fmt: skip
    pairs = list(combinations(sets, 2))
    raw = [
        metrics.paired_test(sets[a][INLIERS], sets[a]["near"], sets[b][INLIERS], sets[b]["near"]).p_value
        for a, b in pairs
    ]
    adjusted = dict(zip(pairs, metrics.holm(raw), strict=True))
    found = standing(written(tmp_path, sets))
    assert (found.best, found.pairs, found.paired) == (Subject("net", "good"), 3, True)
    assert found.p_values == pytest.approx(
        {Subject("net", "close"): adjusted["good", "close"], Subject("net", "poor"): adjusted["good", "poor"]}
    )
    assert found.p_values[Subject("net", "poor")] < 0.05 < found.p_values[Subject("net", "close")]


def test_a_mean_over_sets_counts_shared_inliers_once(tmp_path: Path) -> None:
    """The variance of a mean over two sets is that of the inliers' mean components plus those of the outliers."""
    a, b = noisy(0.0), noisy(1.0)
    found = standing(written(tmp_path, {"a": a, "b": b}))

    def components(sets: Scores) -> tuple[Array, Array, Array]:
        def wins(x: Array, y: Array) -> Array:
            return np.asarray((y[None] > x[:, None]) + 0.5 * (y[None] == x[:, None]))

        near, far = wins(sets[INLIERS], sets["near"]), wins(sets[INLIERS], sets["far"])
        return (near.mean(1) + far.mean(1)) / 2, near.mean(0) / 2, far.mean(0) / 2

    parts = [one - other for one, other in zip(components(a), components(b), strict=True)]
    error = sqrt(sum(part.var(ddof=1) / len(part) for part in parts))
    difference = parts[0].mean()
    assert found.p_values[Subject("net", "b")] == pytest.approx(erfc(abs(difference) / error / sqrt(2)))


def test_detectors_with_images_of_their_own_count_as_independent(tmp_path: Path) -> None:
    a, b = ({key: part for key, part in noisy(size).items() if key != "far"} for size in (0.0, 0.5))
    found = standing(written(tmp_path, {"a": a, "b": b}, {"b": "other"}))
    one, other = (setup_auroc(sets[INLIERS], sets["near"]) for sets in (a, b))
    error = hypot(one.error, other.error)
    assert not found.paired
    assert found.p_values[Subject("net", "b")] == pytest.approx(erfc((one.value - other.value) / error / sqrt(2)))


def test_separated_scores_of_different_images_are_not_told_apart(tmp_path: Path) -> None:
    perfect = {INLIERS: np.zeros(20), "near": np.ones(20)}
    nearly = {INLIERS: np.linspace(0, 1, 20), "near": np.linspace(0.9, 2, 20)}
    found = standing(written(tmp_path, {"a": perfect, "b": nearly}, {"b": "other"}))
    assert found.p_values[Subject("net", "b")] > 0.5


def test_estimates_of_other_figures_are_not_used(tmp_path: Path) -> None:
    found = judged(written(tmp_path, {"a": noisy(0.0), "b": noisy(1.0)}))
    measured = [Measured(Subject("net", name), "near", 0.5, 0.4, 0.6, 90, 80) for name in "ab"]
    (stress,) = with_standings([Stress("clean", "of outliers", measured, clean=True)], found)
    assert stress.standing is None
    (unknown,) = with_standings([Stress("fog", "of outliers", measured)], found)
    assert unknown.standing is None
