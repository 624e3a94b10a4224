"""AUROC of outliers that are changed copies of inliers: its interval counts an image and its copy as one."""

from __future__ import annotations

import numpy as np
import pytest

from farout import metrics
from farout.metrics.setups import copied_auroc


def test_the_value_is_auroc() -> None:
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=30), rng.normal(1, 1, 12)
    assert copied_auroc(x, y, np.arange(12)).value == pytest.approx(metrics.auroc(x, y), abs=1e-15)


def test_the_variance_is_that_of_repeated_draws() -> None:
    """Copies that move with their originals: the error of independent sides would be far off."""
    rng = np.random.default_rng(1)
    values, errors, apart = [], [], []
    for _ in range(600):
        x = rng.normal(size=60)
        y = x + 0.5 + 0.3 * rng.normal(size=60)
        found = copied_auroc(x, y, np.arange(60))
        values.append(found.value)
        errors.append(found.error)
        apart.append(np.diff(metrics.auroc_interval(x, y)[1:])[0] / 3.92)
    assert np.mean(errors) == pytest.approx(np.std(values), rel=0.1)
    assert np.mean(apart) > 1.5 * np.std(values)


def test_copies_of_some_inliers_only() -> None:
    """Against the jackknife over images, each left out with its copy."""
    rng = np.random.default_rng(2)
    x, places = rng.normal(size=40), np.array([3, 8, 9, 20, 21, 22, 30, 39])
    y = x[places] + rng.normal(0.5, 0.5, len(places))
    whole = copied_auroc(x, y, places)
    left_out = []
    for image in range(40):
        kept = places != image
        left_out.append(metrics.auroc(np.delete(x, image), y[kept]))
    jackknife = np.sqrt(39 / 40 * np.sum((np.array(left_out) - np.mean(left_out)) ** 2))
    assert whole.error == pytest.approx(jackknife, rel=0.1)


@pytest.mark.parametrize("places", [[0], [0, 5], [-1, 0]])
def test_wrong_places(places: list[int]) -> None:
    with pytest.raises(ValueError, match="indices of inliers"):
        copied_auroc([1.0, 2, 3], [2.0, 3], places)
