"""Damaged files: every one is named and computed again; what is not named or not equal is found."""

from __future__ import annotations

import json
import random
import shutil
from pathlib import Path

import pytest

from farout.faults import Bench
from farout.faults.damage import flip, flipped_bytes, kind_of, truncate, truncated_files
from farout.study import records


@pytest.mark.parametrize("cause", [flipped_bytes, truncated_files])
def test_all_kinds_of_files_are_damaged_named_and_computed_again(
    bench: Bench, rng: random.Random, cause: object
) -> None:
    told: list[int] = []
    verdict = cause(bench, 14, rng, told.append)  # type: ignore[operator]
    assert verdict.problems == []
    assert verdict.count == sum(verdict.hit.values()) == sum(told) == 14
    finished = {"record.json", "scores.parquet", "state.safetensors", "examples.safetensors"}
    assert verdict.hit.keys() == finished | {"plan.json", "intervals.json", "sessions/.json"}


def test_a_store_that_trusts_its_files_is_found_out(
    bench: Bench, rng: random.Random, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert bench.expected
    monkeypatch.setattr(records, "_verify_file", lambda path, expected: None)
    verdict = flipped_bytes(bench, 4, rng, lambda done: None)
    words = " ".join(verdict.problems)
    assert "was damaged and is not named" in words
    assert "differs from the run that was left alone (score toy by lenet)" in words


def test_what_is_missing_or_left_behind_is_a_difference(bench: Bench) -> None:
    out = shutil.copytree(bench.reference, bench.folder / "run")
    assert bench.differences(out) == []
    scores = sorted(out.glob("cells/*/scores.parquet"))
    shutil.rmtree(scores[0].parent)
    scores[1].write_bytes(scores[2].read_bytes())
    (out / "partial" / "work").mkdir(parents=True)
    (out / "partial" / "work" / "part-0").touch()
    (out / "failures" / "cell.json").touch()
    found = "\n".join(bench.differences(out))
    assert f"{scores[0]} is missing, unlike in the run that was left alone" in found
    assert f"{scores[1]} differs from" in found
    assert f"{scores[1]} is damaged" in found
    assert "part-0 was left behind" in found
    assert "cell.json still tells of a failure" in found


def test_one_byte_is_changed_or_the_end_is_cut_off(tmp_path: Path, rng: random.Random) -> None:
    path = tmp_path / "file"
    for _ in range(20):
        path.write_bytes(bytes(range(50)))
        flip(path, rng)
        assert sum(a != b for a, b in zip(path.read_bytes(), range(50), strict=True)) == 1
        truncate(path, rng)
        assert len(path.read_bytes()) < 50


def test_a_space_of_a_json_file_becomes_no_other_space(tmp_path: Path, rng: random.Random) -> None:
    path = tmp_path / "file.json"
    for _ in range(300):
        path.write_text("[1,        2]")
        flip(path, rng)
        try:
            assert json.loads(path.read_bytes()) != [1, 2]
        except ValueError:
            continue


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("cells/ab/scores.parquet", "scores.parquet"),
        ("partial/ab/walk-chains-0-256-00ff.safetensors", "intermediate walk"),
        ("partial/ab/checkpoint.safetensors", "intermediate checkpoint"),
        ("sessions/20260101T000000-1.json", "sessions/.json"),
        ("plan.json", "plan.json"),
    ],
)
def test_files_are_counted_by_kind(tmp_path: Path, name: str, kind: str) -> None:
    assert kind_of(tmp_path / name, tmp_path) == kind
