"""Notes: a tuned detector says so in the text, the report and the result, and plainly where it meets images again."""

from __future__ import annotations

import html
import json
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import farout
from farout import ImageSet, Panel
from farout.detectors import KNN
from farout.protocols.document import document
from farout.report.html import render
from farout.report.tables import text
from farout.study.results import FORMAT, PLAN, Results, write_plan
from farout.study.spec import ProtocolSpec
from farout.study.store import Store
from farout.study.study import Study
from helpers.written_runs import INLIERS, write_run

stress = partial(farout.stress, protocols="clean")


def pictures(seed: int, count: int, name: str, low: float = 0.0) -> ImageSet:
    given = torch.rand(count, 3, 8, 8, generator=torch.Generator().manual_seed(seed))
    return ImageSet.from_arrays(low + (1 - low) * given, torch.arange(count) % 4, name=name)


TRAIN, VAL, TEST = pictures(0, 90, "train"), pictures(1, 60, "val"), pictures(2, 50, "test")
TUNED_ON, NEW = pictures(3, 40, "<seen>", 0.5), pictures(4, 30, "new", 0.5)
RECORD = "selected among 2 by AUROC on val against <seen>, 60 + 40 images"


@pytest.fixture
def panel() -> Panel:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        module = nn.Sequential(nn.Conv2d(3, 6, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(6, 4))
    network = farout.Network(module, mean=0.5, std=0.5)
    members = {"knn": KNN(), "msp": "msp"}
    return Panel(network, members).tune({"knn": {"k": [1, 10]}}, TRAIN, VAL, outliers=TUNED_ON)


def test_a_tuned_detector_says_so(panel: Panel, tmp_path: Path) -> None:
    result = stress(panel, TEST, NEW, out=tmp_path)
    k = panel.detectors["knn"].params["k"]
    expected = f"knn: k={k}, {RECORD}"
    assert result.notes == [expected]
    assert f"note: {expected}\n" in repr(result)
    assert f"<li>{html.escape(expected)}</li>" in render(result.document)
    assert json.loads((tmp_path / PLAN).read_text())["notes"] == [expected]


def test_tested_on_what_it_was_tuned_on(panel: Panel, tmp_path: Path) -> None:
    """Also after the panel was saved and loaded, and beside sets it has not met."""
    panel.save(tmp_path / "panel")
    for one in (panel, Panel.load(tmp_path / "panel", panel.network)):
        (told,) = stress(one, TEST, [NEW, TUNED_ON]).notes
        assert told.endswith(f"{RECORD}; tested on the outliers it was tuned on (<seen>)")
    (told,) = stress(panel, VAL, NEW).notes
    assert told.endswith(f"{RECORD}; tested on the inliers it was tuned on (val)")


def test_one_member_keeps_its_record(panel: Panel) -> None:
    (told,) = stress(panel["knn"], TEST, TUNED_ON).notes
    assert told.endswith("tested on the outliers it was tuned on (<seen>)")
    assert stress(panel["msp"], TEST, TUNED_ON).notes == []


def test_the_record_is_no_part_of_a_results_identity(panel: Panel, tmp_path: Path) -> None:
    """Parameters and what was learned decide the scores, however they were chosen."""
    stress(panel, TEST, NEW, out=tmp_path)
    plain = Panel(panel.network, {"knn": KNN(k=panel.detectors["knn"].params["k"]), "msp": "msp"}).fit(TRAIN, VAL)
    again = stress(plain, TEST, NEW, out=tmp_path)
    assert (again.outcome.done, again.outcome.failed) == ([], {})
    assert again.notes == []


def test_notes_of_a_study_are_shown_and_escaped(tmp_path: Path) -> None:
    before = write_run(tmp_path, {("net", "0", "a"): {INLIERS: np.arange(30.0), "far": np.arange(9.0, 39.0)}})
    assert before.notes == []
    assert "note:" not in text(document(before))
    study = Study("noted", [], [ProtocolSpec(name="clean")], "quick", notes=["<b>mind</b> the gap", "and this"])
    write_plan(Store(tmp_path), study, [])
    results = Results(tmp_path)
    assert results.notes == ["<b>mind</b> the gap", "and this"]
    assert text(document(results)).splitlines()[1:3] == ["note: <b>mind</b> the gap", "note: and this"]
    page = render(document(results))
    assert "<li>&lt;b&gt;mind&lt;/b&gt; the gap</li>" in page
    assert "<b>mind" not in page


def test_a_plan_of_the_format_without_notes_is_to_be_written_again(tmp_path: Path) -> None:
    (tmp_path / PLAN).write_text('{"format": 2}')
    with pytest.raises(ValueError, match=f"has format 2, this version reads format {FORMAT}; run it again"):
        Results(tmp_path)
