"""The export for the Hugging Face Hub: files in the Hub's format, and the values of the tables."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import yaml

from farout import metrics
from farout.api.hugging_face import export_for_hub
from farout.protocols.document import document
from farout.report.hugging_face import check_repository, unique
from farout.study import score_files
from farout.study.results import Results
from helpers.command_line import farout, refused
from helpers.written_runs import INLIERS, Outcome, Subject, write_run

RNG = np.random.default_rng(0)
OUTCOMES: dict[Subject, dict[str, Outcome]] = {
    ("net", "0", "a"): {INLIERS: RNG.random(40), "near": RNG.random(30) + 0.3, "far": RNG.random(20) + 0.7},
    ("other net", "0", "a"): {INLIERS: RNG.random(40), "near": RNG.random(30) + 0.1, "far": None},
    ("", "0", "own"): {INLIERS: RNG.random(40), "near": RNG.random(30), "far": RNG.random(20)},
}


def attributes(count: int) -> dict[str, Any]:
    """Attributes of n images; the type of one depends on the set."""
    return {"place": np.arange(count), "size": np.arange(count, dtype=np.float32 if count == 30 else np.int64)}


@pytest.fixture
def run(tmp_path: Path) -> Results:
    return write_run(tmp_path / "run", OUTCOMES, attributes=attributes)


@pytest.fixture
def home(run: Results, tmp_path: Path) -> Path:
    export_for_hub(run, document(run), tmp_path, "me/scores")
    return tmp_path / "huggingface"


def test_results_are_entries_of_the_documented_format_with_the_values_of_the_table(run: Results, home: Path) -> None:
    files = {str(path.relative_to(home / "models")): path for path in (home / "models").rglob("*.yaml")}
    assert sorted(files) == [
        "net/.eval_results/net-a.yaml",
        "other-net/.eval_results/other-net-a.yaml",
        "own_network/.eval_results/own.yaml",
    ]
    table = document(run).overview.table.frame
    assert len(table) == 3
    for line in table.to_dict("records"):
        (path,) = [path for key, path in files.items() if _is(key, line)]
        (entry,) = yaml.safe_load(path.read_text())
        assert list(entry) == ["dataset", "value", "date", "source", "notes"]
        assert entry["dataset"] == {"id": "me/scores", "task_id": "clean_clean"}
        assert entry["value"] == line["clean: clean"]
        assert entry["source"] == {"url": "https://huggingface.co/datasets/me/scores", "name": "per-image scores"}
        assert f"[{line['clean: clean_low']:.3f}, {line['clean: clean_high']:.3f}]" in entry["notes"]
        assert isinstance(entry["date"], str)


def _is(key: str, line: dict[Any, Any]) -> bool:
    return key.startswith({"": "own_network/", "net": "net/", "other net": "other-net/"}[line["network"]])


def test_the_figures_of_the_tables_follow_from_the_score_file(run: Results, home: Path) -> None:
    scores = pd.read_parquet(home / "dataset" / "scores" / "clean.parquet")
    assert len(scores) == 40 * 3 + 30 * 3 + 20 * 2
    for line in document(run).summaries["clean"].tables[-1].frame.to_dict("records"):
        mine = scores[(scores["network"] == line["network"]) & (scores["detector"] == line["detector"])]
        inliers, outliers = (mine[mine["outliers"] == name]["score"] for name in ("", line["outliers"]))
        if not np.isnan(line.get("auroc", np.nan)):
            assert metrics.auroc(inliers.to_numpy(), outliers.to_numpy()) == line["auroc"]
    assert scores["attribute:size"].dtype == np.float64  # one type for all sets
    first = scores[(scores["detector"] == "own") & (scores["outliers"] == "far")]
    np.testing.assert_array_equal(first["score"], OUTCOMES["", "0", "own"]["far"])
    assert first["index"].tolist() == first["attribute:place"].tolist() == list(range(20))


def test_the_card_names_every_file(home: Path) -> None:
    text = (home / "dataset" / "README.md").read_text()
    head = yaml.safe_load(text.split("---\n")[1])
    configs = {one["config_name"]: one["data_files"][0]["path"] for one in head["configs"]}
    files = {str(path.relative_to(home / "dataset")) for path in (home / "dataset").rglob("*.parquet")}
    assert set(configs.values()) == files
    assert configs["scores_clean"] == "scores/clean.parquet"
    assert configs["table_overview"] == "tables/overview.parquet"
    assert [one["config_name"] for one in head["configs"] if one.get("default")] == ["table_overview"]
    assert {one["data_files"][0]["split"] for one in head["configs"]} == {"test"}
    assert head["size_categories"] == ["n<1K"]


def test_large_files_are_written_in_groups(run: Results, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole, parts = tmp_path / "whole.parquet", tmp_path / "parts.parquet"
    rows = score_files.scored_rows(run, "clean")
    assert score_files.write_scores(run, rows, whole) == 250
    monkeypatch.setattr(score_files, "GROUP", 60)
    assert score_files.write_scores(run, rows, parts) == 250
    assert pa.parquet.ParquetFile(whole).num_row_groups == 1
    assert pa.parquet.ParquetFile(parts).num_row_groups > 2
    pd.testing.assert_frame_equal(pd.read_parquet(whole), pd.read_parquet(parts))


@pytest.mark.parametrize("name", ["me/data", "Some-Org/x.y_z", "a/b"])
def test_names_of_repositories(name: str) -> None:
    assert check_repository(name) == name


@pytest.mark.parametrize(
    "name", ["", "me", "me/", "/x", "a/b/c", "a b/c", "../x", "me/x--y", "me/..", "me/<b>", "-a/b"]
)
def test_names_that_no_repository_has(name: str) -> None:
    with pytest.raises(ValueError, match="--hub-dataset takes OWNER/NAME"):
        check_repository(name)


def test_unique_names_are_plain_and_differ_also_without_capitals() -> None:
    assert unique(["a b", "A b", "a/b", "../..", "", "a-b-2"]) == [
        "a-b",
        "A-b-2",
        "a-b-3",
        "unnamed",
        "unnamed-2",
        "a-b-2-2",
    ]


def test_the_command_writes_all_and_refuses_before_the_work(run: Results, tmp_path: Path) -> None:
    root = run.store.root
    assert "belong together" in refused("report", root, "--export", "huggingface")
    assert "belong together" in refused("report", root, "--hub-dataset", "me/x")
    assert "OWNER/NAME" in refused("report", root, "--export", "huggingface", "--hub-dataset", "x")
    message = refused("report", root, "--export", "gif,png")
    assert "cannot export 'gif'; the formats are parquet, png, svg, pdf, huggingface" in message
    assert not (root / "report.html").exists()
    ended = farout("report", root, "--out", tmp_path / "r", "--export", "parquet,huggingface", "--hub-dataset", "me/x")
    assert ended.code == 0
    assert (tmp_path / "r" / "huggingface" / "dataset" / "README.md").is_file()
    assert (tmp_path / "r" / "tables" / "clean.parquet").is_file()
