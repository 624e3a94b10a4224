"""Every corruption at 224 px beside the package imagecorruptions, which has the constants of that size alone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from farout.shifts.kernels.levels import NEARLY
from farout.shifts.tables import TABLES
from helpers.corruption_peer import (
    SEVERITIES,
    SIDE,
    Levels,
    enlarged_photographs,
    load,
    names,
    ours,
    scenes,
    theirs,
    unrounded,
)

package = load()

DRAWS = 24
"""From either library."""


@pytest.fixture(autouse=True)
def _numpys_generator() -> Iterator[None]:
    """The package draws from numpy's global generator: seeded here, and left as it was."""
    state = np.random.get_state()  # noqa: NPY002
    np.random.seed(7)  # noqa: NPY002
    yield
    np.random.set_state(state)  # noqa: NPY002


def test_the_package_cuts_off_to_8_bits() -> None:
    image = scenes()[1]
    expected = package.corrupt(image.astype(np.uint8), 3, "contrast")
    np.testing.assert_array_equal(theirs(package, "contrast", 3, image[None])[0], expected)


@pytest.mark.parametrize("severity", SEVERITIES)
@pytest.mark.parametrize("name", names(random=False))
def test_without_randomness_levels_are_the_same(name: str, severity: int) -> None:
    """At most one level apart, and hardly any where the package's last digits do not decide.

    Its way to HSV and back, and its sums, leave many whole levels at 50.999…, which become the level below.
    """
    fast, exact = ours(name, severity, scenes()), unrounded(package, name, severity, scenes())
    assert np.abs(fast - exact.astype(np.int64)).max() <= 1
    assert (fast != np.floor(exact + NEARLY)).mean() < 1e-4


def summaries(before: Levels, after: Levels) -> NDArray[np.float64]:
    """Of every image: mean and standard deviation of the change by channel, and how much neighbors change alike."""
    change = (after - before).astype(np.float64)
    mean, spread = change.mean((1, 2)), change.std((1, 2))
    beside = (change[:, :, 1:] * change[:, :, :-1]).mean((1, 2)) - mean**2
    below = (change[:, 1:] * change[:, :-1]).mean((1, 2)) - mean**2
    return np.concatenate([mean, spread, beside, below], 1)


def apart_in_errors(name: str, severity: int, **settings: Any) -> float:
    """The largest difference of a summary's means over draws, as a multiple of its Monte-Carlo error."""
    before = np.repeat(scenes()[1:], DRAWS, axis=0)
    drawn = ours(name, severity, before, **settings), theirs(package, name, severity, before)
    a, b = (summaries(before, after) for after in drawn)
    error = np.sqrt((a.var(0, ddof=1) + b.var(0, ddof=1)) / DRAWS)
    return float(np.abs((a.mean(0) - b.mean(0)) / error).max())


@pytest.mark.parametrize("severity", SEVERITIES)
@pytest.mark.parametrize("name", sorted(set(names(random=True)) - {"elastic", "frost"}))
def test_random_changes_are_alike(name: str, severity: int) -> None:
    assert apart_in_errors(name, severity) < 4.5


@pytest.fixture(scope="module")
def photographs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("frost")
    for name, photograph in enlarged_photographs(package).items():
        Image.fromarray(photograph).save(folder / f"{name}.png")
    return folder


@pytest.mark.parametrize("severity", SEVERITIES)
def test_frost_from_the_same_photographs_is_alike(photographs: Path, severity: int) -> None:
    assert apart_in_errors("frost", severity, frost_dir=str(photographs)) < 4.5


def test_elastic_has_constants_of_its_own_in_the_package() -> None:
    """It maps nothing affinely and displaces by other lengths than ImageNet-C; severity 4 is the nearest of all."""
    assert apart_in_errors("elastic", severity=4) > 4.5


@pytest.mark.parametrize("severity", SEVERITIES)
def test_elastic_with_the_constants_of_the_package_is_alike(monkeypatch: pytest.MonkeyPatch, severity: int) -> None:
    lengths = (250 * share * 0.005 * SIDE for share in (0.05, 0.065, 0.085, 0.1, 0.12))
    monkeypatch.setitem(TABLES["elastic"], SIDE, tuple((length, 0.01 * SIDE, 0) for length in lengths))
    assert apart_in_errors("elastic", severity) < 4.5
