"""Scores of drawn images, computed again: equal for the same weights, and not for those of another network."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from farout.leaderboard import check, rerun
from farout.leaderboard.drawing import draw
from farout.leaderboard.rerun import read_rerun, result_path
from helpers.command_line import farout, refused
from helpers.submissions import NETWORKS, copied, forge


@pytest.fixture
def weights(submission: Path) -> dict[str, Path]:
    return {f"files/{name}.safetensors": submission.parent / f"{name}.safetensors" for name in NETWORKS}


def test_the_same_weights_give_the_same_scores(submission: Path, weights: dict[str, Path], tmp_path: Path) -> None:
    mine = copied(submission, tmp_path)
    before = sorted(path for path in mine.rglob("*"))
    outcome = rerun(mine, sample=60, paths=weights, models=submission.parent / "run")
    assert outcome.passed
    assert outcome.sample == 60
    assert outcome.largest_difference < 1e-4
    assert outcome.computed == []
    assert result_path(mine) == tmp_path / "submission.rerun.json"
    assert read_rerun(result_path(mine)) == outcome
    assert sorted(path for path in mine.rglob("*")) == before


def test_a_consistent_forgery_passes_the_check_and_not_the_rerun(
    submission: Path, weights: dict[str, Path], tmp_path: Path
) -> None:
    mine = copied(submission, tmp_path)
    forge(mine, "msp")
    assert check(mine).errors == []  # as it says: forgery is not found
    outcome = rerun(mine, sample=120, paths=weights, models=submission.parent / "run")
    assert not outcome.passed
    assert outcome.detectors["msp"] > 0.1 > 1e-3 > max(outcome.detectors["mls"], outcome.detectors["knn"])
    assert outcome.worst.endswith(", msp")


def test_the_command_ends_with_the_outcome(submission: Path, weights: dict[str, Path], tmp_path: Path) -> None:
    mine = copied(submission, tmp_path)
    forge(mine, "mls")
    files = [part for name, path in weights.items() for part in ("--file", f"{name}={path}")]
    ended = farout("leaderboard", "rerun", mine, "--sample", 120, "--quiet", *files)
    assert ended.code == 1, ended.err
    assert "other scores, most of" in ended.out
    assert "computed here: fit on first" in ended.out


def test_files_must_be_named(submission: Path) -> None:
    said = refused("leaderboard", "rerun", submission, "--quiet")
    assert "--file files/first.safetensors=PATH --file files/second.safetensors=PATH" in said


def test_other_weights_are_no_rerun(submission: Path, weights: dict[str, Path], tmp_path: Path) -> None:
    names = list(weights)
    exchanged = {names[0]: weights[names[1]], names[1]: weights[names[0]]}
    with pytest.raises(ValueError, match="the images or weights here are others"):
        rerun(copied(submission, tmp_path), paths=exchanged)


def test_every_image_is_drawn_once_at_most_and_with_the_same_chance() -> None:
    counts = {"a": 300, "b": 100, "c": 0, "d": 600}
    everything = draw(counts, 5000, 0)
    assert {name: len(places) for name, places in everything.items()} == {"a": 300, "b": 100, "d": 600}
    drawn = draw(counts, 200, 1)
    assert sum(map(len, drawn.values())) == 200
    assert all(len(np.unique(places)) == len(places) for places in drawn.values())
    assert all(places.min() >= 0 and places.max() < counts[name] for name, places in drawn.items())
    many = [draw(counts, 100, seed) for seed in range(40)]
    shares = [np.mean([len(one.get(name, [])) for one in many]) for name in "abd"]
    assert np.allclose(shares, [30, 10, 60], atol=3)
    again = draw(counts, 200, 1)
    assert all(np.array_equal(places, again[name]) for name, places in drawn.items())
