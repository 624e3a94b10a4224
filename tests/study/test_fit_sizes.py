"""Fit sizes: what networks are trained and detectors fitted on is told wherever it matters."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import farout
from farout.protocols import cuts
from farout.protocols.document import document
from farout.report.html import render
from farout.report.tables import text
from farout.study import study as studies
from farout.study.budget import SHARED, Shared
from farout.study.fit_sizes import fit_cuts, fit_lines, fit_text
from farout.study.results import Results
from farout.study.spec import StudySpec
from farout.study.study import from_spec
from helpers.written_runs import lenet_weights

SMALL = Shared(train_images=60, val_images=20, epochs=1, trained_networks=1, seeds=1)


@pytest.fixture(autouse=True)
def budget(monkeypatch: pytest.MonkeyPatch) -> None:
    """A quick budget that is quicker still."""
    monkeypatch.setitem(SHARED, "quick", SMALL)


def spec(folder: Path, **changes: Any) -> StudySpec:
    return StudySpec.model_validate(
        {
            "name": "sizes",
            "budget": "quick",
            "inliers": {
                "train": {"name": "toy", "split": "train", "limit": 150},
                "val": {"name": "toy", "split": "val", "limit": 30},
                "test": {"name": "toy", "limit": 24},
            },
            "outliers": [{"name": "noise", "limit": 20}],
            "networks": [{"name": "lenet", "weights": str(lenet_weights(folder))}],
            "detectors": ["msp", "knn", "mds", "temp_scaling"],
            **changes,
        }
    )


def test_lines_say_what_is_fitted_on_how_many_of_how_many(tmp_path: Path) -> None:
    lines = fit_lines(from_spec(spec(tmp_path)).trials)
    found = {line["fitted"]: (line["training"], line["of_training"], line["validation"]) for line in lines}
    assert found == {"msp": (0, 0, 0), "knn, mds": (60, 150, 0), "temp_scaling": (0, 0, 20)}
    assert lines[2]["of_validation"] == 30


def test_a_trained_network_has_a_line(tmp_path: Path) -> None:
    trials = from_spec(spec(tmp_path, networks=[{"name": "lenet", "train": {}}], detectors=["msp"])).trials
    first = fit_lines(trials)[0]
    assert (first["fitted"], first["training"], first["of_training"]) == ("network lenet", 60, 150)
    assert fit_cuts(trials) == [
        "90 of 150 training images: networks are trained and detectors fitted on the other 60",
        "10 of 30 validation images: 20 are used",
    ]


def test_the_cut_is_left_out_by_name(tmp_path: Path) -> None:
    assert cuts(from_spec(spec(tmp_path))) == [
        "90 of 150 training images: detectors are fitted on the other 60",
        "10 of 30 validation images: 20 are used",
    ]


@pytest.mark.parametrize("changes", [{"budget": "full"}, {"detectors": ["msp"]}])
def test_nothing_is_left_out_where_nothing_is(tmp_path: Path, changes: dict[str, Any]) -> None:
    """All images are used at full budget, and a detector that is not fitted loses none."""
    assert cuts(from_spec(spec(tmp_path, **changes))) == []


def test_text_page_and_table_tell_them(tmp_path: Path) -> None:
    farout.run(spec(tmp_path), tmp_path / "run")
    results = Results(tmp_path / "run")
    lines = text(document(results)).splitlines()
    assert lines[1:5] == [
        "fitted on 60 of 150 training images: knn, mds",
        "fitted on 20 of 30 validation images: temp_scaling",
        "left out: 90 of 150 training images: detectors are fitted on the other 60",
        "left out: 10 of 30 validation images: 20 are used",
    ]
    (table,) = [table for table in document(results).tables if table.name == "fitted"]
    assert table.frame["of_training"].tolist() == [0, 150, 0]
    assert "of_outlier" not in table.frame  # no detector learns from outliers here
    page = render(document(results))
    assert "Number of images used for training and fitting" in page
    assert "<li>90 of 150 training images: detectors are fitted on the other 60</li>" in page


def test_all_images_are_called_all() -> None:
    line = dict.fromkeys(("training", "of_training"), 45_000) | dict.fromkeys(("validation", "of_validation"), 0)
    line |= dict.fromkeys(("outlier", "of_outlier"), 0)
    assert fit_text([{"fitted": "knn", **line}]) == ["fitted on all 45,000 training images: knn"]


def test_stress_tells_what_it_has_fitted_a_panel_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(studies, "SHARED", {**SHARED, "quick": SMALL})
    panel = farout.Panel(farout.networks.create("lenet", 4, 32), ["msp", "knn"])
    result = farout.stress(panel, "toy", farout.load("noise", limit=20), protocols="clean")
    assert "fitted on 60 of 4,000 training images: knn" in repr(result)
    again = farout.stress(panel, "toy", farout.load("noise", limit=20), protocols="clean")
    assert "fitted on" not in repr(again)  # it was fitted before
