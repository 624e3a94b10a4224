"""Panels, checks, stress tests, searches and attacks take images in any form, by one conversion."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

import farout

PIXELS = np.random.default_rng(0).integers(0, 256, (90, 8, 8, 3), np.uint8)
FLOATS = torch.from_numpy(PIXELS).permute(0, 3, 1, 2) / 255
LABELS = torch.arange(90) % 3


@pytest.fixture
def panel() -> farout.Panel:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        module = nn.Sequential(nn.Flatten(), nn.Linear(192, 16), nn.ReLU(), nn.Linear(16, 3))
    network = farout.Network(module, mean=0.5, std=0.25, side=8)
    data = TensorDataset(FLOATS, LABELS)
    return farout.Panel(network, ["msp", "mds", "odin"]).fit(data, val=DataLoader(data, batch_size=50))


def test_a_panel_fitted_on_a_data_set_is_one_fitted_on_a_set(panel: farout.Panel) -> None:
    images = farout.ImageSet.from_arrays(PIXELS, LABELS.numpy())
    other = farout.Panel(panel.network, ["msp", "mds", "odin"]).fit(images, val=images)
    for name, scores in panel.score(images).items():
        np.testing.assert_allclose(scores, other.score(images)[name], rtol=1e-5, atol=1e-7)
        np.testing.assert_allclose(panel.validation[name], other.validation[name], rtol=1e-5, atol=1e-7)


def test_one_picture_is_judged_as_in_its_set(panel: farout.Panel, tmp_path: Path) -> None:
    Image.fromarray(PIXELS[7]).save(tmp_path / "seven.png")
    expected = panel.score(FLOATS)
    p_values = panel.p_values(FLOATS)
    for given in (Image.fromarray(PIXELS[7]), tmp_path / "seven.png", str(tmp_path / "seven.png"), PIXELS[7]):
        for name, scores in panel.score(given).items():
            assert scores == pytest.approx(expected[name][7:8], rel=1e-5, abs=1e-7)
            assert panel.p_values(given)[name] == pytest.approx(p_values[name][7:8], abs=1.5 / 91)


@pytest.mark.parametrize("recall", [0.5, 0.95, 1.0])
def test_outliers_are_the_scores_above_the_threshold(panel: farout.Panel, recall: float) -> None:
    flags = panel.is_outlier(FLOATS, recall)
    for name, scores in panel.score(FLOATS).items():
        assert flags[name].dtype == bool
        assert flags[name].tolist() == (scores > panel.threshold(recall)[name]).tolist()
        assert flags[name].sum() <= round((1 - recall) * 90)


def test_outliers_are_told_only_with_validation_scores() -> None:
    bare = farout.Panel(
        farout.Network(nn.Sequential(nn.Flatten(), nn.Linear(192, 3)), mean=0.5, std=1, side=8), ["msp"]
    )
    with pytest.raises(farout.NotFitted, match="thresholds need inlier validation scores"):
        bare.is_outlier(FLOATS)


def test_pictures_become_gray_for_a_gray_network() -> None:
    network = farout.Network(nn.Sequential(nn.Flatten(), nn.Linear(64, 3)), mean=[0.5], std=[1.0], side=8)
    picture = Image.fromarray(PIXELS[0])
    gray = np.asarray(picture.convert("L"))
    scores = farout.Panel(network, ["msp"]).score
    assert scores(picture)["msp"] == pytest.approx(scores(gray)["msp"])


class Dark(farout.Detector):
    def score(self, images: Tensor) -> Tensor:
        return -images.double().mean((1, 2, 3))


FORMS: dict[str, Any] = {
    "tensor": FLOATS,
    "uint8": PIXELS,
    "pictures": [Image.fromarray(image) for image in PIXELS],
    "data set": TensorDataset(FLOATS, LABELS),
    "loader": DataLoader(TensorDataset(FLOATS, LABELS), batch_size=40),
}


@pytest.mark.parametrize("form", FORMS)
def test_all_that_takes_images_takes_them_alike(form: str, panel: farout.Panel) -> None:
    given = FORMS[form]
    images = farout.ImageSet.from_arrays(PIXELS, LABELS.numpy())
    found = farout.worst_case(Dark(), "pixel", given, inliers=given, steps=3)
    assert found.scores == pytest.approx(farout.worst_case(Dark(), "pixel", images, inliers=images, steps=3).scores)
    attacked = farout.attack("fgsm", panel.network, given, LABELS)
    assert torch.allclose(attacked.images, farout.attack("fgsm", panel.network, images).images)
    assert not any(finding.problem for finding in farout.check(Dark(), given))
    table = farout.stress(Dark(), given, [FLOATS / 2, "noise"], protocols="clean").table()
    assert table["auroc"].tolist()[0] > 0.99  # half as bright


def test_an_attack_reads_the_classes_of_a_data_set(panel: farout.Panel) -> None:
    told = farout.attack("fgsm", panel.network, TensorDataset(FLOATS, LABELS))
    assert told.clean_correct.equal(farout.attack("fgsm", panel.network, FLOATS, LABELS).clean_correct)
    with pytest.raises(ValueError, match="needs the images' true labels"):
        farout.attack("fgsm", panel.network, FLOATS)


def test_a_list_of_pictures_is_one_outlier_set() -> None:
    pictures = [Image.fromarray(image // 2) for image in PIXELS]
    table = farout.stress(Dark(), PIXELS, pictures, protocols="clean").table()
    assert table["outliers"].tolist() == ["images"]
