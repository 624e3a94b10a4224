"""Comparison of two runs: differences of AUROC against closed forms, pairing by images, and sentences."""

from __future__ import annotations

from math import hypot
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from farout import metrics
from farout.metrics.setups import setup_auroc
from farout.protocols.compare import Difference, compare
from farout.study.results import Results
from farout.study.store import score_table
from helpers.written_runs import INLIERS, write_run

Z = 1.959963984540054
"""97.5 % quantile of the normal distribution."""
Array = NDArray[np.float64]


def normal(seed: int, size: int, shift: float = 0.0) -> Array:
    return np.random.default_rng(seed).normal(shift, 1, size)


def written(
    root: Path, detector: str, inliers: Array, outliers: Array, images: str = "same", name: str = "near"
) -> Results:
    """Run of one detector on one outlier set; `images` identifies the scored images."""
    results = write_run(root, {("net", "0", detector): {INLIERS: inliers, name: outliers}}, name=root.name)
    for row in results.rows:
        scores = outliers if row.tags["outliers"] else inliers
        columns = {"index": np.arange(len(scores)), "score": scores}
        results.store.remove_results([row.cell])
        identity = {"images": f"{images} {row.tags['outliers']}"}
        results.store.write(row.cell, {"identity": identity}, {"scores.parquet": score_table(columns)})
    return results


def test_detectors_of_the_same_images_are_compared_by_delongs_paired_test(tmp_path: Path) -> None:
    x, y = normal(0, 80), normal(1, 70, 1.5)
    noisy = x + normal(2, 80), y + normal(3, 70)
    (found,) = compare(written(tmp_path / "a", "mls", x, y), written(tmp_path / "b", "msp", *noisy)).differences
    expected = metrics.paired_test(x, y, *noisy)
    assert found.paired
    assert (found.value, found.low, found.high) == pytest.approx(expected[:3])
    assert str(found).startswith("mls is better than msp by .")
    assert "on near (clean)" in str(found)


def test_variances_of_different_images_add_up(tmp_path: Path) -> None:
    a, b = (normal(0, 80), normal(1, 70, 1.0)), (normal(2, 60), normal(3, 90, 1.0))
    first, second = written(tmp_path / "a", "mls", *a, images="one"), written(tmp_path / "b", "mls", *b, images="two")
    (found,) = compare(first, second).differences
    d, error = metrics.auroc(*a) - metrics.auroc(*b), hypot(setup_auroc(*a).error, setup_auroc(*b).error)
    assert not found.paired
    assert (found.value, found.low, found.high) == pytest.approx((d, d - Z * error, d + Z * error))
    assert "mls of a" in str(found)
    assert "independent samples" in str(found)


def test_separated_scores_of_different_images_keep_a_width(tmp_path: Path) -> None:
    a, b = (np.zeros(20), np.ones(20)), (np.zeros(30), np.ones(30))
    first, second = written(tmp_path / "a", "mls", *a, images="one"), written(tmp_path / "b", "mls", *b, images="two")
    (found,) = compare(first, second).differences
    assert (found.value, found.low) == (0, pytest.approx(0.025 ** (1 / 20) - 1))
    assert found.high == pytest.approx(1 - 0.025 ** (1 / 30))


def test_intervals_widen_with_the_number_of_comparisons(tmp_path: Path) -> None:
    scores = {INLIERS: normal(0, 80), "near": normal(1, 70, 0.5), "far": normal(2, 70, 1.5)}
    other = {name: values + normal(9, len(values)) for name, values in scores.items()}
    both = [write_run(tmp_path / n, {("net", "0", "a"): sets}, name=n) for n, sets in (("x", scores), ("y", other))]
    compared = compare(*both)
    estimates = [[setup_auroc(sets[INLIERS], sets[name]) for sets in (scores, other)] for name in ("near", "far")]
    wide = 2.241402727604947  # quantile 1 - 0.05 / 2 / 2
    for found, (a, b) in zip(compared.differences, estimates, strict=True):
        half = wide * hypot(a.error, b.error) if not found.paired else wide * (a - b).error
        assert (found.high - found.low) / 2 == pytest.approx(half)
    assert "all 2 comparisons together (Bonferroni)" in repr(compared)
    assert len(compared.table()) == 2


def test_runs_that_share_nothing_are_an_error_that_names_both(tmp_path: Path) -> None:
    x, y = normal(0, 20), normal(1, 20)
    first, second = written(tmp_path / "a", "mls", x, y), written(tmp_path / "b", "mls", x, y, name="other")
    with pytest.raises(ValueError, match=r"share no stress.*near \(clean\).*other \(clean\).*same protocols"):
        compare(first, second)


@pytest.mark.parametrize(
    ("bounds", "sentence"),
    [
        ((0.031, 0.02, 0.042), "a is better than b by .031 [.020, .042] on svhn"),
        ((-0.031, -0.042, -0.02), "b is better than a by .031 [.020, .042] on svhn"),
        ((0.01, -0.02, 0.04), "a and b are not distinguishable: difference .010 [-.020, .040] on svhn"),
    ],
)
def test_sentences(bounds: tuple[float, float, float], sentence: str) -> None:
    assert str(Difference("a", "b", "svhn", *bounds, paired=True)) == sentence


def test_names_add_no_lines_and_no_control_characters(tmp_path: Path) -> None:
    x, y = normal(0, 80), normal(1, 70, 1.5)
    names = "mls\n<b>msp is better than all by .9", "\x1b[2K\x1b[1Amsp\u202e"
    runs = (written(tmp_path / str(k), name, x + k, y, name="set\r1") for k, name in enumerate(names))
    note, *lines = repr(compare(*runs)).splitlines()
    assert note.startswith("differences of AUROC")
    assert len(lines) == 1
    assert r"mls\n<b>msp is better than all by .9" in lines[0]
    assert r"\x1b[2K\x1b[1Amsp\u202e" in lines[0]
    assert r"set\r1" in lines[0]
    assert lines[0].isprintable()
