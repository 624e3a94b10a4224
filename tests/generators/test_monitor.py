"""FID and sample grids during training."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from small_gans import TINY, images

from farout.generators import DCGAN, Pix2Pix, monitor
from farout.generators.monitor import Monitor, grid, measured_epochs
from farout.metrics import fid
from farout.networks import create


def test_fid_of_the_last_epoch_is_that_of_the_final_samples() -> None:
    features, val = create("lenet", 2, 16, 1), images(30)
    model = DCGAN(**TINY).fit(images(), val=val, features=features, epochs=3, batch=10)
    assert model.history is not None
    with torch.no_grad():
        rows = [features(one, needs=()).features for one in (model.sample(30), val.batch(range(30)))]
    assert len(model.history.figures) == 3
    assert model.history.figures[-1] == pytest.approx(fid(*(one.numpy() for one in rows)), rel=1e-6)
    assert Monitor(val, features).figure == "FID on lenet"


def test_progress_names_the_fid_after_epochs_that_were_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(monitor, "MEASUREMENTS", 1)
    said: list[str] = []
    DCGAN(**TINY).fit(
        images(), features=create("lenet", 2, 16, 1), epochs=2, batch=40, progress=lambda *args: said.append(args[2])
    )
    assert [("FID on lenet" in line) for line in said] == [False, False, False, True]


def test_fid_does_not_change_the_weights() -> None:
    measured = DCGAN(**TINY).fit(images(), features=create("lenet", 2, 16, 1), epochs=2, batch=10)
    assert measured.digest == DCGAN(**TINY).fit(images(), epochs=2, batch=10).digest


def test_fid_of_a_translator_compares_with_the_originals() -> None:
    model = Pix2Pix(side=16, channels=1, width=2).fit(images(), features=create("lenet", 2, 16, 1), epochs=1, batch=10)
    assert model.history is not None
    assert model.history.figures[0] > 0


@pytest.mark.parametrize(("epochs", "expected"), [(1, [0]), (3, [0, 1, 2]), (50, [*range(2, 50, 3), 49])])
def test_long_trainings_are_measured_at_most_20_times(epochs: int, expected: list[int]) -> None:
    assert measured_epochs(epochs) == expected
    assert len(measured_epochs(9999)) <= 20


def test_grid_is_filled_row_by_row() -> None:
    tiles = torch.arange(5).div(255)[:, None, None, None].expand(5, 3, 2, 2)
    expected = np.array([[0, 1, 2], [3, 4, 255]]).repeat(2, 0).repeat(2, 1)
    assert np.array_equal(grid(tiles), expected[:, :, None].repeat(3, 2))
