"""Labels that are words of our tables: none is refused, and no figure is lost."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

import farout
from farout.api.run import Result
from farout.report.tables import write_tables
from farout.study.spec import StudySpec
from helpers.written_runs import lenet_weights

DETECTORS = ["auroc", "best", "n", "low"]


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> Result:
    folder = tmp_path_factory.mktemp("labels")
    spec = StudySpec.model_validate(
        {
            "name": "labels",
            "inliers": {
                "train": {"name": "toy", "split": "train", "limit": 80},
                "val": {"name": "toy", "split": "val", "limit": 40},
                "test": {"name": "toy", "limit": 40},
            },
            "outliers": [{"name": "noise", "label": label, "limit": 20} for label in ("mean", "inliers", "detector")],
            "networks": [{"name": "lenet", "weights": str(lenet_weights(folder))}],
            "detectors": [
                {"name": name, "label": label}
                for name, label in zip(("msp", "mls", "ebo", "knn"), DETECTORS, strict=True)
            ],
            "protocols": [
                "clean",
                {"name": "rood", "setups": {
                    "detector": ["flip"], "mine": ["rot90"], "GS mine": ["rot270"], "U_low": ["flip"],
                }},
                {"name": "evasion", "attention": False, "attacks": [
                    {"name": "fgsm", "label": label} for label in ("network", "pgd", "pgd_low")
                ]},
                {"name": "evg", "chains": 5, "steps": 2, "transfer": False, "control": False, "variations": [
                    {"name": "color", "label": label} for label in ("clean", "seed", "worst_case")
                ]},
            ],
        }
    )  # fmt: skip
    found = farout.run(spec, folder / "run")
    assert not found.outcome.failed
    return found


@pytest.mark.parametrize(
    ("table", "columns"),
    [
        ("clean_auroc", ["mean (outlier set)", "inliers", "detector (outlier set)", "mean"]),
        ("rood", ["U", "detector (setup)", "mine", "GS mine", "U_low (setup)", "GS mine (generalizability score)"]),
        ("evasion_auroc", ["network (attack)", "pgd", "pgd_low (attack)"]),
        ("evg_auroc", ["clean", "clean (variation)", "seed (variation)", "worst_case (variation)", "worst_case"]),
    ],
)
def test_every_figure_has_a_column_of_its_own(result: Result, table: str, columns: list[str]) -> None:
    frame = result.table(table)
    assert set(frame["detector"]) == set(DETECTORS)
    assert set(columns) <= set(frame)
    assert frame[columns].notna().all(axis=None)
    assert frame[columns].dtypes.eq(float).all()


def test_the_same_setup_by_two_labels_has_the_same_figures(result: Result) -> None:
    frame = result.table("rood")
    pd.testing.assert_series_equal(frame["detector (setup)"], frame["U_low (setup)"], check_names=False)


def test_files_have_the_columns_of_the_tables(result: Result, tmp_path: Path) -> None:
    write_tables(result.document.tables, tmp_path)
    for table in result.document.tables:
        assert list(pd.read_csv(tmp_path / f"{table.name}.csv")) == list(table.frame)
