"""Running a study, and what comes back."""

from __future__ import annotations

import gc
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml

import farout
from farout import metrics
from farout.core import Activations, PostHoc
from farout.detectors.catalog import catalog
from farout.registry import UnknownName
from farout.report.html import render
from farout.report.notebook import notebook
from farout.study.spec import StudySpec
from farout.study.store import StoreError
from farout.study.study import from_spec
from helpers.written_runs import lenet_weights


@pytest.fixture
def study(tmp_path: Path) -> Path:
    """A small study file: an untrained LeNet on toy images."""
    lenet_weights(tmp_path)
    content = {
        "inliers": {"train": {"name": "toy", "split": "val", "limit": 100}, "test": {"name": "toy", "limit": 80}},
        "outliers": [{"name": "noise", "limit": 70}, {"name": "toy", "split": "test/ood_cls", "limit": 66}],
        "networks": [{"name": "lenet", "weights": "lenet.safetensors"}],
        "detectors": ["msp", {"name": "knn", "k": 5}],
        "budget": "quick",
    }
    (tmp_path / "study.yaml").write_text(yaml.safe_dump(content))
    return tmp_path / "study.yaml"


def change(study: Path, **changes: Any) -> Path:
    study.write_text(yaml.safe_dump({**yaml.safe_load(study.read_text()), **changes}))
    return study


def test_a_run_gives_what_a_panel_gives(study: Path, tmp_path: Path) -> None:
    result = farout.run(study, tmp_path / "out")
    network = farout.networks.create("lenet", 4, 32)
    farout.networks.load_weights(network, study.with_name("lenet.safetensors"))
    parts = from_spec(StudySpec.read(study)).trials[0].inliers
    assert parts.train is not None
    assert parts.val is not None
    panel = farout.Panel(network, ["msp", farout.detectors.KNN(k=5)]).fit(parts.train.preview(), parts.val.preview())
    sets = {
        "": farout.load("toy", limit=80),
        "noise": farout.load("noise", limit=70),
        "toy:ood_cls": farout.load("toy", "test/ood_cls", limit=66),
    }
    direct = {name: panel.score(images) for name, images in sets.items()}
    rows = result.results.done("clean")
    assert len(rows) == 6
    for row in rows:
        expected = direct[row.tags["outliers"]][row.tags["detector"]]
        np.testing.assert_allclose(result.results.scores(row), expected, rtol=1e-9, atol=1e-12)
    table = result.table()
    assert len(table) == 4
    for _, line in table.iterrows():
        x, y = direct[""][line["detector"]], direct[line["outliers"]][line["detector"]]
        assert line["auroc"] == pytest.approx(metrics.auroc(x, y), abs=1e-9)
        assert (line["n_inliers"], line["n_outliers"]) == (len(x), len(y))
    assert (result.outcome.reused, len(result.outcome.done), result.outcome.failed) == (0, 9, {})


def test_the_same_run_again_computes_nothing(study: Path, tmp_path: Path) -> None:
    first = farout.run(study, tmp_path / "out")
    again = farout.run(str(study), str(tmp_path / "out"))
    assert (again.outcome.reused, again.outcome.done) == (9, [])
    assert again.table().equals(first.table())
    assert farout.run(StudySpec.read(study), tmp_path / "out").outcome.reused == 9


def test_tables_by_name(study: Path, tmp_path: Path) -> None:
    result = farout.run(change(study, detectors=["msp"]), tmp_path / "out")
    assert result.table().equals(result.table("clean"))
    details, overview = result.table("clean"), result.table("clean_auroc")
    assert overview["noise"].item() == details.set_index("outliers")["auroc"]["noise"]
    with pytest.raises(UnknownName, match=r"unknown table 'clen'\. Did you mean 'clean'"):
        result.table("clen")


def test_the_report_is_written_where_asked(study: Path, tmp_path: Path) -> None:
    result = farout.run(change(study, detectors=["msp"]), tmp_path / "out")
    path = result.report(str(tmp_path / "page.html"))
    assert path == tmp_path / "page.html"
    source = path.read_text(encoding="utf-8")
    assert source == render(result.document, "page_tables")
    assert "toy:ood_cls" in source
    assert (tmp_path / "page_tables" / "clean.tex").is_file()
    assert result.report(tmp_path / "folder") == tmp_path / "folder" / "report.html"


def test_a_notebook_shows_verdicts_table_and_figures(study: Path, tmp_path: Path) -> None:
    result = farout.run(change(study, detectors=["msp"]), tmp_path / "out")
    shown = result._repr_html_()
    assert shown == notebook(result.document)
    auroc = result.table("overview").iloc[0]["clean: clean"]
    assert f">{auroc:.3f}</td>" in shown
    assert "On clean images: AUROC, mean over 2 outlier sets" in shown
    assert shown.count("data:image/png;base64,") == 1


def test_without_a_folder_results_live_as_long_as_the_result(study: Path) -> None:
    result = farout.run(change(study, detectors=["msp"]))
    path = result.path
    assert path.is_dir()
    assert path.name.startswith("farout-")
    assert len(result.table()) == 2
    gone = weakref.ref(result)
    del result
    gc.collect()
    assert gone() is None
    assert not path.exists()


def test_a_folder_that_was_given_stays(study: Path, tmp_path: Path) -> None:
    farout.run(change(study, detectors=["msp"]), tmp_path / "out")
    gc.collect()
    assert (tmp_path / "out" / "plan.json").is_file()


def test_a_folder_that_cannot_be_written(study: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setattr("farout.study.engines.run.run", lambda *args, **kwargs: pytest.fail("work began"))
    with pytest.raises(StoreError, match=r"cannot write results to .*file/out: Not a directory; choose another folder"):
        farout.run(study, tmp_path / "file" / "out")


@pytest.mark.parametrize("thing", [5, None, {"name": "x"}])
def test_what_is_no_study(thing: Any) -> None:
    with pytest.raises(TypeError, match=f"expected a study or the path of its YAML file, got {type(thing).__name__}"):
        farout.run(thing)


class Broken(PostHoc):
    """Cannot be fitted, and does not say so before."""

    name = "broken"
    fits_on = "train"

    def fit(self, activations: Activations, labels: Any) -> Any:
        raise ValueError("no <light> in here")

    def score(self, activations: Activations) -> torch.Tensor:
        return activations.logits.double().amax(1)


class Silly(PostHoc):
    """Scores what is dark with NaN."""

    name = "silly"

    def score(self, activations: Activations) -> torch.Tensor:
        scores = activations.logits.double().amax(1)
        return torch.where(torch.arange(len(scores)) < 2, torch.nan, scores)


def test_a_detector_that_fails_leaves_the_others_be(
    study: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(catalog._makers, "broken", Broken)
    whole = farout.run(change(study, detectors=["msp"]), tmp_path / "whole")
    result = farout.run(change(study, detectors=["msp", "broken"]), tmp_path / "out")
    assert len(result.outcome.failed) == 4
    assert result.table().equals(whole.table())
    failed = "4 of 9 results are missing, 4 of them failed:\n  broken on lenet: ValueError: no <light> in here"
    assert failed in repr(result)
    report = render(result.document)
    assert "ValueError: no &lt;light&gt; in here" in report
    assert "in fit\n" in report  # the traceback of the fit itself, not only that it failed
    assert "no <light>" not in report


def test_scores_that_are_no_numbers(study: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(catalog._makers, "silly", Silly)
    path = change(study, detectors=["silly"], inliers={"test": {"name": "toy", "limit": 80}})
    result = farout.run(path, tmp_path / "out")
    assert "NonFiniteScores: silly gave 4 NaN and 0 infinite scores among 80 on toy" in repr(result)
    with pytest.raises(ValueError, match="there is no table, because there are no results: study") as caught:
        result.table()
    assert "silly gave 4 NaN and 0 infinite scores among 70 on noise" in str(caught.value)


def test_a_failure_is_tried_again(study: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(catalog._makers, "broken", Broken)
    path = change(study, detectors=["broken"])
    assert len(farout.run(path, tmp_path / "out").outcome.failed) == 4
    monkeypatch.setattr(Broken, "fit", PostHoc.fit)
    result = farout.run(path, tmp_path / "out")
    assert (len(result.outcome.done), result.outcome.failed) == (4, {})
    assert result.results.failures() == {}
    assert "missing" not in repr(result)
