"""What rood makes of scores: the tables against the metrics on scores computed by hand."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

import farout
from farout import metrics
from farout.data.file_sets import CATEGORIES
from farout.metrics import setups
from farout.protocols import plan
from farout.protocols.rood.tables import summarize
from farout.rng import balanced_indices
from farout.study.cells.cell import Entry
from farout.study.results import Results, write_plan
from farout.study.sources.images import LiveImages
from farout.study.spec import ProtocolSpec, StudySpec
from farout.study.store import Store, array_file, score_table
from farout.study.study import Inliers, Study, Trial, from_spec
from helpers.written_runs import NamedCell, lenet_weights

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
    (table, *_) = summarize(run, "rood").tables
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
    found = {table.name: table.frame for table in summarize(run, "rood").tables}
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
    figures = {figure.name: figure for figure in summarize(run, "rood").figures}
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
    assert "under one of the 3 shifts that lower AUROC most (mean over detectors)" in scatter.caption
    gallery: Any = figures["rood_false_alarms"]
    assert [strip.title for strip in gallery.strips][-1].split()[0] in points


def test_scatters_and_pictures_are_of_the_highest_severity(run: Results) -> None:
    inliers, outliers = sets()
    images = inliers.batch(range(50))
    plain, others = scores(images), scores(outliers.batch(range(40)))
    figures: dict[str, Any] = {figure.name: figure for figure in summarize(run, "rood").figures}
    points = figures["rood_scatter_1"].panels["Bright"]
    copies = {name: scores(farout.shift(name.split()[0], severity=5)(images)) for name in points}
    shown = np.concatenate([plain, *copies.values()])
    for name, values in copies.items():
        expected = (np.stack([plain, values], 1) - shown.min()) / np.ptp(shown)
        np.testing.assert_allclose(points[name], expected, atol=1e-9)
    strips = {strip.title: strip for strip in figures["rood_false_alarms"].strips}
    assert [title for title in strips if title.endswith(" 5")] == [f"{name} 5" for name in points]
    for name, values in copies.items():
        beyond = [(others < value).mean() for value in np.sort(values)[::-1][:8]]
        assert strips[f"{name} 5"].words == [f"beyond {share:.0%}" for share in beyond]


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
    found = {table.name: table.frame for table in summarize(Results(folder), "rood").tables}
    network = farout.networks.create("lenet", 4, 32)
    farout.networks.load_weights(network, spec.networks[0].weights)
    train, test = (farout.load("toy", split, limit=120) for split in ("train", "test"))
    copies = [farout.shift("brightness", severity=k)(test.batch(range(120))) for k in range(1, 6)]
    expected, unshifted_estimates, light_estimates, flagged = {}, [], [], []
    for label, name in enumerate(test.classes):
        panel = farout.Panel(network, ["dn2"]).fit(train.subset(np.flatnonzero(train.labels == label)))
        mine = test.labels == label
        plain = panel.score(test)["dn2"]
        shifted = [panel.score(images)["dn2"][mine] for images in copies]
        expected[name] = (
            metrics.auroc(plain[mine], plain[~mine]),
            metrics.auroc(np.concatenate([plain[mine], *shifted]), plain[~mine]),
        )
        places = np.r_[np.flatnonzero(mine), np.flatnonzero(~mine)]
        unshifted_estimates.append(setups.setup_auroc(plain[mine], plain[~mine]).among(places, 120))
        light_estimates.append(setups.setup_auroc(plain[mine], plain[~mine], shifted).among(places, 120))
        beyond = (np.array(shifted) > setups.recall_threshold(plain[mine])).sum(0)
        flagged.append(setups.Counts(beyond, beyond, beyond, 5).flagged().among(np.flatnonzero(mine), 120))
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
    plain_mean, light_mean = setups.mean(unshifted_estimates), setups.mean(light_estimates)
    bounds = {
        "U": plain_mean.share(),
        "light": light_mean.share(),
        "GS light": setups.points(light_mean - plain_mean),
    }
    for name, interval in bounds.items():
        found_bounds = overview.loc["dn2", [name, f"{name}_low", f"{name}_high"]].to_numpy(float)
        np.testing.assert_allclose(found_bounds, interval, atol=1e-7)
    row = found["rood_shifts"].set_index(["detector", "shift"]).loc[("dn2", "brightness")]
    expected_flagged = setups.mean(flagged).share()
    np.testing.assert_allclose(row[["flagged", "flagged_low", "flagged_high"]].to_numpy(float), expected_flagged)


def test_how_many_images_one_class_tests_have(one_class: tuple[StudySpec, Path]) -> None:
    tables = {table.name: table for table in summarize(Results(one_class[1]), "rood").tables}
    overview = tables["rood"].frame
    assert set(overview["n_inliers"]) == set(overview["n_outliers"]) == {120}  # every image is both
    assert "count the images that are so for at least one class" in tables["rood"].caption
    assert "has seen the outliers' classes too" in tables["rood"].caption
    train, test = (farout.load("toy", split, limit=120) for split in ("train", "test"))
    single = tables["rood_class_intervals"].frame
    of_dn2 = single[single["detector"] == "dn2"].set_index("class")
    for label, name in enumerate(test.classes):
        mine = int((test.labels == label).sum())
        counts = of_dn2.loc[name, ["n_train", "n_inliers", "n_outliers"]].tolist()
        assert counts == [int((train.labels == label).sum()), mine, 120 - mine]
    assert "rough where there are fewer than about 30 inliers" in tables["rood_class_intervals"].caption


def test_scatters_of_one_class_tests_show_some_of_every_class(one_class: tuple[StudySpec, Path]) -> None:
    figures: list[Any] = summarize(Results(one_class[1]), "rood").figures
    light, turned = (figure for figure in figures if figure.name.startswith("rood_scatter"))
    for figure in (light, turned):
        for points in figure.panels.values():
            assert {len(pairs) for pairs in points.values()} == {100}  # 25 of each of four classes
            for part in range(4):  # each scaled by itself
                of_class = np.concatenate([pairs[25 * part : 25 * (part + 1)] for pairs in points.values()])
                assert (of_class.min(), of_class.max()) == (0, 1)
    assert "its copy under brightness, at the highest severity" in light.caption
    assert "under one of the 2 shifts" in turned.caption
    assert "each class by itself" in turned.caption


def test_a_setup_is_shown_when_all_its_shifts_are_there(one_class: tuple[StudySpec, Path], tmp_path: Path) -> None:
    _, folder = one_class
    copy = tmp_path / "run"
    shutil.copytree(folder, copy)
    results = Results(copy)
    lost = next(row for row in results.rows if row.tags["shift"] == "rot90" and row.tags["detector"] == "dn2")
    shutil.rmtree(results.store.path(lost.cell))
    overview = {table.name: table.frame for table in summarize(Results(copy), "rood").tables}["rood"]
    by_detector = overview.set_index("detector")
    assert np.isnan(by_detector.loc["dn2", "turned"])
    assert not np.isnan(by_detector.loc["dn2", "light"])
    assert not np.isnan(by_detector.loc["knn", "turned"])
    text = str(by_detector.loc["dn2", "GS turned"])
    assert text == "nan"


def test_a_shift_is_shown_when_all_its_severities_are_there(one_class: tuple[StudySpec, Path], tmp_path: Path) -> None:
    copy = tmp_path / "run"
    shutil.copytree(one_class[1], copy)
    results = Results(copy)
    tags = {"shift": "brightness", "severity": "5", "detector": "dn2", "class": farout.load("toy").classes[2]}
    lost = next(row for row in results.rows if tags.items() <= row.tags.items())
    shutil.rmtree(results.store.path(lost.cell))
    summary = summarize(Results(copy), "rood")
    found = {table.name: table.frame.set_index("detector") for table in summary.tables}
    assert list(found["rood_shifts"].loc["dn2", "shift"]) == ["rot90", "flip"]
    assert list(found["rood_shifts"].loc["knn", "shift"]) == ["brightness", "rot90", "flip"]
    assert list(found["rood_severities"].loc["dn2", "severity"]) == ["1", "2", "3", "4", "", ""]
    lines = found["rood_classes"].loc["dn2"].set_index("setup")
    values = lines.loc["light", list(farout.load("toy").classes)].to_numpy(float)
    assert np.isnan(values).tolist() == [False, False, True, False]  # the other classes are whole
    assert np.isnan(lines.loc["light", "mean"])
    figures: dict[str, Any] = {figure.name: figure for figure in summary.figures}
    assert list(figures["rood_bars_0"].panels["dn2"]["bar"]) == ["none", "rot90", "flip"]
    (light,) = (figure for figure in figures.values() if figure.title.endswith("setup light"))
    assert {detector: list(points) for detector, points in light.panels.items()} == {"dn2": [], "knn": ["brightness"]}


def test_a_class_that_is_not_there_yet(one_class: tuple[StudySpec, Path], tmp_path: Path) -> None:
    copy = tmp_path / "run"
    shutil.copytree(one_class[1], copy)
    results = Results(copy)
    first = farout.load("toy").classes[0]
    for row in results.rows:
        if row.tags["class"] == first and row.tags["detector"] == "dn2":
            shutil.rmtree(results.store.path(row.cell))
    frame = {table.name: table.frame for table in summarize(Results(copy), "rood").tables}["rood_classes"]
    assert list(frame)[-2:] == ["mean", "GS"]
    lines = frame[frame["setup"] == "U"].set_index("detector")
    assert np.isnan(lines.loc["dn2", [first, "mean"]].to_numpy(float)).all()
    assert not lines.loc["knn"].isna().drop("GS").any()


def written(root: Path, seeds: dict[str, dict[str, np.ndarray]], setup: str = "turned") -> Results:
    """By seed, or seed and detector ("1 dn2"), the scores of inliers (""), outliers ("out…") and copies by shift."""
    store, entries = Store(root).open(), []
    for who, sets in seeds.items():
        seed, _, detector = who.partition(" ")
        for name in dict.fromkeys(["", "out", "flip", "rot90", *sets]):
            tags = {"network": "net", "seed": seed, "detector": detector or "knn", "class": "", "label": ""}
            outliers = name.startswith("out")
            tags |= {"outliers": name if outliers else "", "severity": ""}
            tags |= {"setup": setup, "shift": name} if name and not outliers else {"setup": "", "shift": ""}
            cell = NamedCell(("net", seed, detector), name)
            entries.append(Entry("rood", cell, tags))
            if name in sets:
                pictures = {"highest": np.arange(2), "highest_images": np.zeros((2, 4, 4, 3), np.uint8)}
                files = {"scores.parquet": score_table({"index": np.arange(len(sets[name])), "score": sets[name]})}
                store.write(cell.id, {}, {**files, "examples.safetensors": array_file(pictures)})
    test = LiveImages(farout.ImageSet.from_arrays(np.zeros((1, 8, 8, 3), np.uint8)))
    study = Study("written", [Trial(0, Inliers(None, None, test), {})], [ProtocolSpec(name="rood")], "quick")
    write_plan(store, study, entries)
    return Results(root)


def test_several_seeds(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    whole = {name: rng.standard_normal(20) + (name == "out") for name in ("", "out", "flip", "rot90")}
    other = {name: rng.standard_normal(20) + (name == "out") for name in whole}
    plain = [metrics.auroc(part[""], part["out"]) for part in (whole, other)]
    turned = [
        metrics.auroc(np.concatenate([part[""], part["flip"], part["rot90"]]), part["out"]) for part in (whole, other)
    ]
    frame = summarize(written(tmp_path / "both", {"1": whole, "2": other}), "rood").tables[0].frame
    (line,) = frame.to_dict("records")
    assert (line["seeds"], line["n_inliers"]) == (2, 20)
    assert line["U"] == pytest.approx(np.mean(plain))
    assert line["GS turned"] == pytest.approx(100 * (np.mean(turned) - np.mean(plain)))
    del other["rot90"]
    frame = summarize(written(tmp_path / "part", {"1": whole, "2": other}), "rood").tables[0].frame
    (line,) = frame.to_dict("records")
    assert line["U"] == pytest.approx(np.mean(plain))
    assert np.isnan(line["turned"])  # and not that of the first seed
    assert np.isnan(line["GS turned"])


def drawn(rng: np.random.Generator, apart: float, *outliers: str) -> dict[str, np.ndarray]:
    found = {name: rng.standard_normal(20) for name in ("", "flip", "rot90")}
    return found | {name: rng.standard_normal(20) + apart for name in outliers or ("out",)}


def test_figures_are_of_the_first_seed(tmp_path: Path) -> None:
    """The second one's detector is the better, and its scores are others."""
    rng = np.random.default_rng(0)
    seeds = {"1": drawn(rng, 0.5), "2": drawn(rng, 3.0)}
    figures: dict[str, Any] = {f.name: f for f in summarize(written(tmp_path, seeds), "rood").figures}
    assert list(figures) == ["rood_bars_0", "rood_scatter_0", "rood_false_alarms"]
    first = seeds["1"]
    frame = figures["rood_bars_0"].panels["knn"].set_index("bar")
    assert frame.loc["none", "value"] == metrics.auroc(first[""], first["out"])
    assert frame.loc["flip", "value"] == metrics.auroc(np.r_[first[""], first["flip"]], first["out"])
    points = figures["rood_scatter_0"].panels["knn"]["flip"]
    assert (np.argsort(points[:, 0]) == np.argsort(first[""])).all()
    assert (np.argsort(points[:, 1]) == np.argsort(first["flip"])).all()
    strip = next(strip for strip in figures["rood_false_alarms"].strips if strip.title == "flip")
    assert strip.words == [f"beyond {(first['out'] < first['flip'][place]).mean():.0%}" for place in range(2)]
    for figure in figures.values():
        assert "Of several seeds the first is shown." in figure.caption


def test_of_every_outlier_set_the_best_detector_comes_first(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    apart = {"1 bad": 0.2, "1 best": 3.0, "1 good": 1.0}
    seeds = {who: drawn(rng, far, "out b", "out a") for who, far in apart.items()}
    frame = summarize(written(tmp_path, seeds, setup="_set"), "rood").tables[0].frame
    assert frame["outliers"].tolist() == ["out b"] * 3 + ["out a"] * 3  # sets in the order of the study
    assert frame["detector"].tolist() == ["best", "good", "bad"] * 2
    assert not frame["_set"].isna().any()  # a setup's name, and no column of the table's own


def test_the_images_of_a_line_are_counted_by_kind(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    found = {name: rng.standard_normal(20) for name in ("", "flip", "rot90")} | {"out": rng.standard_normal(7)}
    (line,) = summarize(written(tmp_path, {"1": found}), "rood").tables[0].frame.to_dict("records")
    assert (line["n_inliers"], line["n_outliers"]) == (20, 7)


def test_clean_scores_alone(tmp_path: Path) -> None:
    summary = summarize(written(tmp_path, {"1": {"": np.zeros(3), "out": np.ones(3)}}), "rood")
    assert [table.name for table in summary.tables] == ["rood"]
    assert [figure.name for figure in summary.figures] == ["rood_bars_0"]


def test_categories_whose_outliers_are_their_defects(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """MVTec from invented files: good images are dark, defective ones brighter; one category against itself."""
    rng = np.random.default_rng(0)
    root = tmp_path / "mvtec" / "unpacked"
    for place, category in enumerate(CATEGORIES):
        levels = {"train/good": [20 + place] * 12, "test/good": [20 + place, 60 + place] * 2, "test/cut": [50, 90, 70]}
        for kind, some in levels.items():
            (root / category / kind).mkdir(parents=True)
            for number, level in enumerate(some):
                pixels = np.clip(rng.normal(level, 3, (32, 32, 3)), 0, 255).astype(np.uint8)
                Image.fromarray(pixels).save(root / category / kind / f"{number:03}.png")
    monkeypatch.setenv("FAROUT_DATA", str(tmp_path))
    spec = {
        "name": "small",
        "inliers": {"name": "mvtec", "options": {"side": 32}},
        "networks": [{"name": "lenet", "weights": str(lenet_weights(tmp_path)), "classes": 4}],
        "detectors": [{"name": "dn2", "k": 1}],
        "protocols": [{"name": "rood", "one_class": True, "setups": {"A": ["flip"]}, "images": 60}],
        "budget": "quick",
    }
    study = StudySpec.model_validate(spec)
    totals = {entry.tags["setup"]: entry.cell.images.about.total for entry in plan(from_spec(study))}
    assert totals == {"": 60, "A": 30}  # nobody asks for shifted defects
    farout.run(study, tmp_path / "run")
    found = {table.name: table.frame for table in summarize(Results(tmp_path / "run"), "rood").tables}
    (line,) = found["rood"].to_dict("records")
    assert line["outliers"] == "defects, mean of 15"
    assert (line["n_inliers"], line["n_outliers"]) == (30, 30)
    single = found["rood_class_intervals"].set_index("class")
    assert (single["n_inliers"] == 2).all()  # 60 images: two of either kind of every category
    assert (single["n_outliers"] == 2).all()
    network = farout.networks.create("lenet", 4, 32)
    farout.networks.load_weights(network, study.networks[0].weights)
    train, test = (farout.load("mvtec", split, side=32) for split in ("train", "test"))
    test = test.subset(balanced_indices(2 * test.labels + test.attributes["outlier"], 60))
    for label, category in enumerate(CATEGORIES):
        panel = farout.Panel(network, [farout.detectors.create("dn2", k=1)])
        panel.fit(train.subset(np.flatnonzero(train.labels == label)))
        of_class = test.subset(np.flatnonzero(test.labels == label))
        plain, good = panel.score(of_class)["dn2"], of_class.attributes["outlier"] == 0
        flipped = panel.score(farout.shift("flip")(of_class))["dn2"]
        assert single.loc[category, "U"] == metrics.auroc(plain[good], plain[~good])
        both = np.concatenate([plain[good], flipped[good]])
        assert single.loc[category, "A"] == metrics.auroc(both, plain[~good])
    assert line["U"] == pytest.approx(single["U"].mean())
    assert line["A"] == pytest.approx(single["A"].mean())


def test_nothing_yet(one_class: tuple[StudySpec, Path], tmp_path: Path) -> None:
    copy = tmp_path / "run"
    shutil.copytree(one_class[1], copy)
    shutil.rmtree(copy / "cells")
    (copy / "cells").mkdir()
    assert summarize(Results(copy), "rood").tables == []
