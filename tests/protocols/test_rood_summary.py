"""What rood makes of scores: the tables against the metrics on scores computed by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import farout
from farout import metrics
from farout.protocols.rood_summary import summarise
from farout.study.results import Results
from farout.study.spec import StudySpec
from written_runs import lenet_weights

SETUPS = {"light": ["brightness"], "turned": ["rot90", "flip"]}


class Bright(farout.Detector):
    """The mean brightness: turning changes nothing, light everything."""

    def score(self, images: torch.Tensor) -> torch.Tensor:
        return images.double().mean((1, 2, 3))


def sets() -> tuple[farout.ImageSet, farout.ImageSet]:
    rng = np.random.default_rng(0)
    levels = rng.uniform(40, 120, 50), rng.uniform(80, 160, 40)
    pixels = [rng.normal(level[:, None, None, None], 10, (len(level), 16, 16, 3)).astype(np.uint8) for level in levels]
    return farout.ImageSet.from_arrays(pixels[0], name="in"), farout.ImageSet.from_arrays(pixels[1], name="out")


def scores(images: torch.Tensor) -> np.ndarray:
    return Bright().score(images).numpy()


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Results:
    """All shifts of the paper, of a detector whose scores are known."""
    folder = tmp_path_factory.mktemp("run")
    farout.stress(Bright(), *sets(), protocols="rood", out=folder)
    return Results(folder)


def test_setups_against_scores_computed_by_hand(run: Results) -> None:
    inliers, outliers = sets()
    images = inliers.batch(range(50))
    plain, others = scores(images), scores(outliers.batch(range(40)))
    turned = [scores(farout.shift(name)(images)) for name in ("rot90", "rot270", "flip", "random_crop", "color_jitter")]
    (table, *_) = summarise(run, "rood").tables
    (line,) = table.frame.to_dict("records")
    assert (line["detector"], line["outliers"], line["n_inliers"], line["n_outliers"]) == ("Bright", "out", 50, 40)
    np.testing.assert_allclose([line["U"], line["U_low"], line["U_high"]], metrics.auroc_interval(plain, others))
    assert line["A"] == pytest.approx(metrics.auroc(np.concatenate([plain, *turned]), others))
    expected = metrics.generalizability(plain, others, turned)
    np.testing.assert_allclose([line["GS A"], line["GS A_low"], line["GS A_high"]], expected, atol=1e-9)
    assert line["GS C"] == pytest.approx(metrics.generalizability_score(line["C"], line["U"]))


def test_by_shift(run: Results) -> None:
    inliers, outliers = sets()
    images = inliers.batch(range(50))
    plain, others = scores(images), scores(outliers.batch(range(40)))
    found = {table.name: table.frame for table in summarise(run, "rood").tables}
    shifts = found["rood_shifts"].set_index("shift")
    assert len(shifts) == 24
    assert shifts.loc["flip", "GS"] == pytest.approx(0, abs=1e-9)  # turned images are as bright
    brighter = [scores(farout.shift("brightness", severity=k)(images)) for k in range(1, 6)]
    assert shifts.loc["brightness", "auroc"] == pytest.approx(metrics.auroc(np.r_[plain, np.ravel(brighter)], others))
    threshold = np.sort(plain)[int(np.ceil(0.95 * 50)) - 1]
    assert shifts.loc["brightness", "flagged"] == pytest.approx((np.array(brighter) > threshold).mean())
    severities = found["rood_severities"]
    light = severities[severities["shift"] == "brightness"].set_index("severity")
    assert light.loc["5", "auroc"] == pytest.approx(metrics.auroc(np.r_[plain, brighter[4]], others))
    assert len(severities) == 100


def test_figures(run: Results) -> None:
    figures = {figure.name: figure for figure in summarise(run, "rood").figures}
    bars: Any = figures["rood_bars_0"]
    frame = bars.panels["Bright"]
    assert list(frame["bar"][:3]) == ["none", "rot90", "rot270"]
    assert len(frame) == 25
    assert (frame["low"] <= frame["value"]).all()
    scatter: Any = figures["rood_scatter_1"]  # of the corruptions
    points = scatter.panels["Bright"]
    assert "brightness" in points
    assert (points["brightness"][:, 1] > points["brightness"][:, 0]).all()
    together = np.concatenate(list(points.values()))
    assert (together.min(), together.max()) == (0, 1)
    assert len({tuple(values[:, 0]) for values in points.values()}) == 1  # the same images, on one scale
    gallery: Any = figures["rood_false_alarms"]
    assert [strip.title for strip in gallery.strips][-1].split()[0] in points


@pytest.fixture(scope="module")
def one_class(tmp_path_factory: pytest.TempPathFactory) -> tuple[StudySpec, Path]:
    folder = tmp_path_factory.mktemp("one_class")
    weights = str(lenet_weights(folder))
    spec = {
        "name": "small",
        "inliers": {split: {"name": "toy", "split": split, "limit": 120} for split in ("train", "val", "test")},
        "outliers": [],
        "networks": [{"name": "lenet", "weights": weights}],
        "detectors": ["dn2", {"name": "knn", "k": 5}],
        "protocols": [{"name": "rood", "one_class": True, "setups": SETUPS}],
        "budget": "quick",
    }
    study = StudySpec.model_validate(spec)
    farout.run(study, folder / "run")
    return study, folder / "run"


def test_one_class_against_panels_fitted_by_hand(one_class: tuple[StudySpec, Path]) -> None:
    spec, folder = one_class
    found = {table.name: table.frame for table in summarise(Results(folder), "rood").tables}
    network = farout.networks.create("lenet", 4, 32)
    farout.networks.load_weights(network, spec.networks[0].weights)
    train, test = (farout.load("toy", split, limit=120) for split in ("train", "test"))
    copies = [farout.shift("brightness", severity=k)(test.batch(range(120))) for k in range(1, 6)]
    expected = {}
    for label, name in enumerate(test.classes):
        panel = farout.Panel(network, ["dn2"]).fit(train.subset(np.flatnonzero(train.labels == label)))
        mine = test.labels == label
        plain = panel.score(test)["dn2"]
        shifted = np.concatenate([panel.score(images)["dn2"][mine] for images in copies])
        expected[name] = (
            metrics.auroc(plain[mine], plain[~mine]),
            metrics.auroc(np.concatenate([plain[mine], shifted]), plain[~mine]),
        )
    lines = found["rood_classes"].set_index(["setup", "detector"])
    for name, (unshifted, light) in expected.items():
        assert lines.loc[("U", "dn2"), name] == pytest.approx(unshifted, abs=1e-9)
        assert lines.loc[("light", "dn2"), name] == pytest.approx(light, abs=1e-9)
    means = np.mean(list(expected.values()), axis=0)
    assert lines.loc[("light", "dn2"), "mean"] == pytest.approx(means[1])
    assert lines.loc[("light", "dn2"), "GS"] == pytest.approx(100 * (means[1] - means[0]))
    overview = found["rood"].set_index("detector")
    assert overview.loc["dn2", "outliers"] == "other classes, mean of 4"
    assert overview.loc["dn2", "GS light"] == pytest.approx(100 * (means[1] - means[0]))


def test_a_setup_is_shown_when_all_its_shifts_are_there(one_class: tuple[StudySpec, Path], tmp_path: Path) -> None:
    import shutil

    _, folder = one_class
    copy = tmp_path / "run"
    shutil.copytree(folder, copy)
    results = Results(copy)
    lost = next(row for row in results.rows if row.tags["shift"] == "rot90" and row.tags["detector"] == "dn2")
    shutil.rmtree(results.store.path(lost.cell))
    overview = {table.name: table.frame for table in summarise(Results(copy), "rood").tables}["rood"]
    by_detector = overview.set_index("detector")
    assert np.isnan(by_detector.loc["dn2", "turned"])
    assert not np.isnan(by_detector.loc["dn2", "light"])
    assert not np.isnan(by_detector.loc["knn", "turned"])
    text = str(by_detector.loc["dn2", "GS turned"])
    assert text == "nan"


def test_nothing_yet(one_class: tuple[StudySpec, Path], tmp_path: Path) -> None:
    import shutil

    copy = tmp_path / "run"
    shutil.copytree(one_class[1], copy)
    shutil.rmtree(copy / "cells")
    (copy / "cells").mkdir()
    assert summarise(Results(copy), "rood").tables == []
