"""Every table and figure of a run with all protocols says what it shows, what is good, and of how many images."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import farout
from farout.protocols.base import PROTOCOLS
from farout.protocols.document import document
from farout.report.content import Document, Gallery, Sheet, Shown, Table
from farout.report.html import write_report
from farout.study.spec import StudySpec
from helpers.generated_sets import MEMBERS, NEAR, SHIFTED

pytestmark = pytest.mark.slow

DIRECTION = re.compile(r"better|[Nn]either direction|Neither is good|cheaper|the less|the more|is nearer|should be")
"""Words that say which direction is good, or that none is."""
NUMBERS = re.compile(r"images|inliers|outliers|chains|detectors|results")
"""Words that say how many were measured, or where their numbers stand."""
FACTS = {"fitted", "sessions", "results"}
"""Tables that hold facts about the run, which are neither good nor bad."""


def shapes(split: str, limit: int) -> dict[str, Any]:
    return {"name": "shapes", "split": split, "limit": limit}


def study() -> StudySpec:
    inliers = {"train": shapes("train", 96), "val": shapes("val", 32), "test": shapes("test/id", 24)}
    ensemble = {"ensemble": MEMBERS}
    near = {key: value for key, value in NEAR.items() if key not in ("name", "ensemble")}
    near |= {"count": 8, "interval": [0, 1], **ensemble}
    shifted = {key: value for key, value in SHIFTED.items() if key not in ("name", "ensemble")} | {
        "count": 8,
        **ensemble,
    }
    return StudySpec.model_validate(
        {
            "name": "captions",
            "inliers": inliers,
            "outliers": [shapes("test/ood_hue", 16), shapes("test/ood_cls", 16)],
            "networks": [{"name": "lenet", "train": {"epochs": 1, "batch": 32, "augment": "none"}}],
            "detectors": ["msp", "mls", "ebo", "knn"],
            "protocols": [
                "clean",
                "cost",
                {"name": "attributes", "shift": ["hue"]},
                {
                    "name": "evg",
                    "variations": ["pixel", "affine"],
                    "chains": 4,
                    "steps": 2,
                    "detectors": ["msp", "knn"],
                },
                {"name": "rood", "setups": {"turned": ["rot90"]}, "images": 16},
                {"name": "evasion", "attacks": ["fgsm", "adaptive_pgd"], "images": 8, "adaptive_images": 2},
                {"name": "raised_bar", "near": near, "shifted": shifted, "sanity": False, "corruptions": ["fog"]},
            ],
            "budget": "quick",
        }
    )


def unexplained(one: Table | Shown) -> list[str]:
    """What the caption does not say."""
    asked = {"which direction is good": DIRECTION, "how many were measured": NUMBERS}
    return [f"{one.name}: {what}" for what, pattern in asked.items() if not pattern.search(one.caption)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("captions")
    result = farout.run(study(), folder / "run")
    assert result.outcome.failed == {}
    return folder / "run"


@pytest.fixture(scope="module")
def content(folder: Path) -> Document:
    return document(farout.study.results.Results(folder))


def test_tables(content: Document, folder: Path) -> None:
    write_report(content, folder)
    page = (folder / "report.html").read_text()
    assert set(PROTOCOLS.names()) == set(content.summaries)
    for table in content.tables:
        assert len(table.title.split()) > 1, table.name
        assert (folder / "tables" / f"{table.name}.csv").is_file(), table.name
        assert f'href="tables/{table.name}.csv"' in page, table.name
    assert len({table.name for table in content.tables}) == len(content.tables)
    assert [gap for table in content.tables if table.name not in FACTS for gap in unexplained(table)] == []


def test_figures(content: Document, folder: Path) -> None:
    write_report(content, folder)
    page = (folder / "report.html").read_text()
    for summary in content.sections.values():
        assert len({figure.name for figure in summary.figures}) == len(summary.figures), summary.title
        assert len({figure.title for figure in summary.figures}) == len(summary.figures), summary.title
    figures = [figure for summary in content.sections.values() for figure in summary.figures]
    charts = [figure for figure in figures if not isinstance(figure, Gallery | Sheet)]
    assert [figure.name for figure in figures if len(figure.title.split()) < 3] == []
    assert [figure.name for figure in charts if f'data-csv="{figure.name}"' not in page] == []
    assert [gap for figure in charts for gap in unexplained(figure)] == []
