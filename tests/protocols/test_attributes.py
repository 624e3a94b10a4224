"""Protocol `attributes`: what it plans, and what it makes of stored scores."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import farout
from farout import metrics
from farout.data.scenes.worlds import ATTRIBUTES
from farout.protocols import Attributes, plan
from farout.protocols.document import document
from farout.report.content import HeatMap, Histograms, Summary
from farout.report.html import render
from farout.study.cells.cell import Entry
from farout.study.cells.score import ScoreCell
from farout.study.spec import Budget, StudySpec
from farout.study.study import from_spec
from helpers.written_runs import INLIERS, Outcome, Subject, lenet_weights, write_run

SETS = {INLIERS: 0.0, "hue": -1.0, "class": 1.0}
SUBJECTS: list[Subject] = [(net, seed, det) for net in ("n", "m") for seed in ("1", "2", "3") for det in ("a", "b")]


def severities(count: int) -> dict[str, np.ndarray]:
    """Every fourth image is corrupted."""
    return {"severity": np.where(np.arange(count) % 4 == 0, 1 + np.arange(count) % 2, 0)}


def scores(subject: Subject) -> dict[str, Outcome]:
    rng = np.random.default_rng(SUBJECTS.index(subject))
    return {images: rng.normal(middle, 1, 80 if images else 100) for images, middle in SETS.items()}


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Summary:
    outcomes = {subject: scores(subject) for subject in SUBJECTS}
    root = tmp_path_factory.mktemp("run")
    results = write_run(root, outcomes, protocol="attributes", attributes=severities)
    return Attributes().summarize(results)


def table(shown: Summary, name: str) -> pd.DataFrame:
    return next(table.frame for table in shown.tables if table.name == name)


def figure(shown: Summary, name: str) -> Any:
    return next(figure for figure in shown.figures if figure.name == name)


def parts(subject: Subject, outliers: str, corrupted: bool) -> list[np.ndarray]:
    """Inlier and outlier scores of one condition."""
    both = [scores(subject)[images] for images in (INLIERS, outliers)]
    return [values[(np.arange(len(values)) % 4 == 0) == corrupted] for values in both]  # type: ignore[arg-type]


@pytest.mark.parametrize("condition", ["clean", "corrupted"])
@pytest.mark.parametrize("outliers", ["hue", "class"])
def test_corrupted_images_are_compared_with_corrupted_ones(shown: Summary, outliers: str, condition: str) -> None:
    frame = table(shown, "attributes")
    assert len(frame) == 12 * 2 * 2
    for subject in SUBJECTS:
        inliers, others = parts(subject, outliers, condition == "corrupted")
        wanted = dict(zip(("network", "seed", "detector"), subject, strict=True))
        wanted |= {"outliers": outliers, "condition": condition}
        (line,) = frame[(frame[list(wanted)] == pd.Series(wanted)).all(axis=1)].to_dict("records")
        assert (line["auroc"], line["auroc_low"], line["auroc_high"]) == metrics.auroc_interval(inliers, others)
        assert line["overlap"] == metrics.overlap(inliers, others)
        assert (line["n_inliers"], line["n_outliers"]) == (len(inliers), len(others))
        assert (len(inliers), len(others)) == ((25, 20) if condition == "corrupted" else (75, 60))


def test_median_and_deviation_over_seeds(shown: Summary) -> None:
    frame = table(shown, "attributes_median")
    values = [metrics.auroc(*parts(("m", seed, "b"), "class", False)) for seed in ("1", "2", "3")]
    wanted = {"network": "m", "detector": "b", "condition": "clean", "outliers": "class"}
    (line,) = frame[(frame[list(wanted)] == pd.Series(wanted)).all(axis=1)].to_dict("records")
    middle = sorted(values)[1]
    assert line["auroc"] == middle
    assert line["auroc_mad"] == sorted(abs(value - middle) for value in values)[1]
    assert line["seeds"] == 3


def test_the_first_table_is_by_attribute_and_the_best_comes_first(shown: Summary) -> None:
    frame = shown.tables[0].frame
    assert list(frame.columns) == ["network", "detector", "hue", "class", "mean"]
    assert len(frame) == 4
    assert frame["mean"].is_monotonic_decreasing
    assert (frame["hue"] < 0.5).all()
    assert (frame["class"] > 0.5).all()
    assert np.allclose(frame["mean"], (frame["hue"] + frame["class"]) / 2)


def test_heat_maps(shown: Summary) -> None:
    maps = [figure for figure in shown.figures if isinstance(figure, HeatMap)]
    assert [m.name for m in maps] == [
        "by_network_clean", "by_outliers_clean", "by_network_corrupted", "by_outliers_corrupted",
    ]  # fmt: skip
    by_network, by_attribute = maps[:2]
    assert list(by_network.panels) == ["hue", "class"]
    assert list(by_attribute.panels) == ["n", "m"]
    cell = by_network.panels["class"].loc["b", "m"]
    assert cell == by_attribute.panels["m"].loc["b", "class"]
    values = [metrics.auroc(*parts(("m", seed, "b"), "class", False)) for seed in ("1", "2", "3")]
    assert cell == sorted(values)[1]


def test_overlaps_of_all_detectors_networks_and_seeds(shown: Summary) -> None:
    overlaps = figure(shown, "overlaps")
    assert isinstance(overlaps, Histograms)
    assert list(overlaps.panels) == ["hue", "class"]
    expected = [metrics.overlap(*parts(subject, "hue", True)) for subject in SUBJECTS]
    assert sorted(overlaps.panels["hue"]["corrupted"]) == sorted(expected)
    assert overlaps.limits == (0, 1)


def test_with_one_network_no_figure_by_network(tmp_path: Path) -> None:
    outcomes = {subject: scores(subject) for subject in SUBJECTS if subject[0] == "n"}
    shown = Attributes().summarize(write_run(tmp_path, outcomes, protocol="attributes", attributes=severities))
    (heat_map,) = [f for f in shown.figures if isinstance(f, HeatMap)]
    assert list(heat_map.panels) == ["clean images", "corrupted images"]
    values = [metrics.auroc(*parts(("n", seed, "a"), "hue", True)) for seed in ("1", "2", "3")]
    assert heat_map.panels["corrupted images"].loc["a", "hue"] == sorted(values)[1]


def test_of_one_seed_the_best_is_marked_and_what_cannot_be_told_from_it(tmp_path: Path) -> None:
    subjects = [subject for subject in SUBJECTS if subject[:2] == ("n", "1")]
    outcomes = {subject: scores(subject) for subject in subjects}
    results = write_run(tmp_path, outcomes, protocol="attributes", attributes=severities)
    overview = Attributes.summarize(results).tables[0]
    columns = {column.name: column for column in overview.marks}
    for scenario in ("hue", "class"):
        clean = {subject[2]: parts(subject, scenario, False) for subject in subjects}
        first, second = sorted(clean, key=lambda name: -metrics.auroc(*clean[name]))
        tied = metrics.paired_test(*clean[first], *clean[second]).p_value >= 0.05
        marks = dict(zip(overview.frame["detector"], overview.marks[columns[scenario]], strict=True))
        assert marks == {first: "best", second: "tied" if tied else ""}


def test_densities_are_those_of_uncorrupted_images(shown: Summary) -> None:
    curves = figure(shown, "densities_m_1_clean").panels["b"]
    inliers, outliers = parts(("m", "1", "b"), "class", False)
    assert curves.inliers.tolist() == inliers.tolist()
    assert curves.outliers["class"].tolist() == outliers.tolist()


def test_without_corrupted_images_the_clean_figures_stand(tmp_path: Path) -> None:
    outcomes = {subject: scores(subject) for subject in SUBJECTS[:2]}
    run = write_run(tmp_path, outcomes, protocol="attributes", attributes=lambda n: {"severity": np.zeros(n, int)})
    shown = Attributes().summarize(run)
    frame = table(shown, "attributes")
    assert frame[frame["condition"] == "clean"]["auroc"].notna().all()
    assert frame[frame["condition"] == "corrupted"]["auroc"].isna().all()


def test_an_unfinished_run_shows_what_is_there(tmp_path: Path) -> None:
    outcomes: dict[Subject, dict[str, Outcome]] = {subject: scores(subject) for subject in SUBJECTS[:4]}
    outcomes[SUBJECTS[0]]["hue"] = None
    outcomes[SUBJECTS[1]][INLIERS] = "failed"
    shown = Attributes().summarize(write_run(tmp_path, outcomes, protocol="attributes", attributes=severities))
    assert len(table(shown, "attributes")) == (1 + 0 + 2 + 2) * 2


def test_an_empty_run(tmp_path: Path) -> None:
    outcomes = {SUBJECTS[0]: dict.fromkeys(SETS)}
    assert Attributes().summarize(write_run(tmp_path, outcomes, protocol="attributes")).tables == []


def spec(tmp_path: Path, budget: Budget = "full", **changes: Any) -> StudySpec:
    values = {
        "name": "s",
        "inliers": "shapes",
        "networks": [{"name": "lenet", "weights": str(lenet_weights(tmp_path, classes=8))}],
        "detectors": ["msp"],
        "protocols": ["attributes"],
        "budget": budget,
    }
    return StudySpec.model_validate({**values, **changes})


def scored(entries: list[Entry]) -> list[Entry]:
    """The entries that score images, without the network's classes."""
    return [entry for entry in entries if isinstance(entry.cell, ScoreCell)]


@pytest.mark.parametrize(("budget", "count"), [("quick", 2000), ("standard", 5000), ("full", 5000)])
def test_scenarios_of_the_paper(tmp_path: Path, budget: Budget, count: int) -> None:
    entries = scored(plan(from_spec(spec(tmp_path, budget, seeds=[3]))))
    assert [entry.tags["outliers"] for entry in entries] == ["", "hue", "class", "hue+class"]
    for entry, split in zip(entries, ("id", "ood_hue", "ood_cls", "ood_both"), strict=True):
        assert isinstance(entry.cell, ScoreCell)
        images = entry.cell.images.preview()
        assert len(images) == count
        if count == 5000:
            assert images.fingerprint == farout.load("shapes", f"test/{split}", seed=3).fingerprint


def test_any_shift(tmp_path: Path) -> None:
    shift = [*ATTRIBUTES, ["size", "rotation"], "lighting+hue"]
    entries = scored(plan(from_spec(spec(tmp_path, protocols=[{"name": "attributes", "shift": shift}]))))
    names = ["", *ATTRIBUTES, "size+rotation", "hue+lighting"]
    assert [entry.tags["outliers"] for entry in entries] == names


def test_scores_are_stored_with_attributes(tmp_path: Path) -> None:
    changes = {"inliers": {"test": {"name": "shapes", "limit": 60}}, "seeds": [1]}
    result = farout.run(spec(tmp_path, **changes), tmp_path / "run")
    row = next(row for row in result.results.rows if row.tags["outliers"] == "hue")
    images = farout.load("shapes", "test/ood_hue", limit=60)
    assert result.results.attribute(row, "hue").tolist() == images.attributes["hue"].tolist()
    assert result.results.attribute(row, "corruption").tolist() == images.attributes["corruption"].tolist()
    frame = result.table()
    assert set(frame["condition"]) == {"clean", "corrupted"}
    assert frame["n_inliers"].tolist()[:2] == [
        int((farout.load("shapes", limit=60).attributes["severity"] == 0).sum()),
        int((farout.load("shapes", limit=60).attributes["severity"] > 0).sum()),
    ]
    page = result.report(tmp_path / "report.html").read_text(encoding="utf-8")
    assert "AUROC by shifted attribute, clean images" in page


@pytest.mark.parametrize(
    ("shift", "message"),
    [
        (["hoe"], "unknown attribute to shift: 'hoe'. Did you mean 'hue'"),
        ("hue", "shift must list scenarios"),
        ([], "shift must list scenarios"),
        ([[]], "a scenario must shift at least one attribute"),
        ([5], "a scenario is an attribute or a list of them, got 5"),
    ],
)
def test_wrong_shifts(shift: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Attributes(shift)


def test_inliers_without_attributes(tmp_path: Path) -> None:
    changes = {"inliers": "toy", "networks": [{"name": "lenet", "train": {"epochs": 1}}]}
    with pytest.raises(ValueError, match=r"protocol attributes: it needs inliers .* shapes or chars, got toy"):
        plan(from_spec(spec(tmp_path, **changes)))


def test_inliers_that_are_shifted_already(tmp_path: Path) -> None:
    study = spec(tmp_path, inliers={"test": "shapes:test/ood_hue"}, outliers=["noise"])
    with pytest.raises(ValueError, match="the inliers' test split must be test/id, got test/ood_hue"):
        plan(from_spec(study))


class Greenish(farout.Detector):
    """Blue is odd."""

    def score(self, images: Any) -> Any:
        return (images[:, 2] - images[:, 1]).amax((1, 2))


def test_all_protocols_are_those_that_can_be_had() -> None:
    shapes = farout.load("shapes", limit=80)
    odd = farout.load("shapes", "test/ood_hue", limit=80)
    result = farout.stress(Greenish(), shapes, odd)
    expected = [name for name in farout.protocols.names() if name not in ("attributes", "cost", "raised_bar")]
    assert [protocol.name for protocol in result.results.protocols] == expected
    with pytest.raises(ValueError, match="protocol attributes: it needs inliers"):
        farout.stress(Greenish(), shapes, odd, protocols="attributes")


def test_a_detector_of_color_sees_the_hue_and_not_the_class() -> None:
    frame = farout.stress(Greenish(), "shapes", protocols="attributes").table()
    clean = frame[frame["condition"] == "clean"].set_index("outliers")["auroc"]
    assert clean["hue"] > 0.99
    assert abs(clean["class"] - 0.5) < 0.1
    assert clean["hue+class"] > 0.99


@pytest.mark.parametrize("count", [1, 2])
def test_a_run_without_clean_images_still_gives_a_report(tmp_path: Path, count: int) -> None:
    """Figures that cannot be had are dashes, and nobody is dropped."""
    outcomes: dict[Subject, dict[str, Outcome]] = {
        subject: {images: values[:count] for images, values in scores(subject).items() if values is not None}
        for subject in SUBJECTS[:2]
    }
    run = write_run(tmp_path, outcomes, protocol="attributes", attributes=lambda n: {"severity": np.ones(n, np.int64)})
    shown = Attributes().summarize(run)
    assert shown.tables[0].frame["detector"].tolist() == ["a", "b"]
    assert shown.tables[0].frame["hue"].isna().all()
    assert "AUROC by shifted attribute, clean images" in render(document(run))


def test_inliers_of_another_split(tmp_path: Path) -> None:
    study = spec(tmp_path, inliers={"test": "shapes:val"}, outliers=["noise"])
    with pytest.raises(ValueError, match="the inliers' test split must be test/id, got val"):
        plan(from_spec(study))


def test_detectors_without_a_network_have_a_name_in_the_figures(tmp_path: Path) -> None:
    outcomes = {subject: scores(SUBJECTS[0]) for subject in (SUBJECTS[0], ("", "1", "mine"))}
    shown = Attributes().summarize(write_run(tmp_path, outcomes, protocol="attributes", attributes=severities))
    assert set(shown.tables[0].frame["network"]) == {"n", "own networks"}
    by_network = figure(shown, "by_network_clean")
    assert list(by_network.panels["hue"].columns) == ["n", "own networks"]
