"""Damaged files in a run: found by their checksums, named, and computed anew."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from farout.study import records
from farout.study.records import Damaged
from farout.study.store import Store, array_file, score_table
from farout.training import checkpoint
from farout.training.checkpoint import Checkpoint
from helpers.command_line import farout, refused
from helpers.written_runs import lenet_weights, rewrite_plan

STUDY = """
inliers: {test: {name: toy, limit: 8}, train: {name: toy, split: train, limit: 16}}
outliers: [{name: noise, limit: 8}]
networks: [{name: lenet, weights: lenet.safetensors}]
detectors: [msp, {name: knn, k: 3}]
"""


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run of a study."""
    folder = tmp_path_factory.mktemp("finished")
    (folder / "study.yaml").write_text(STUDY)
    lenet_weights(folder)
    assert farout("run", folder / "study.yaml", "--out", folder / "run", "--workers", "0").code == 0
    return folder


@pytest.fixture
def study(finished: Path, tmp_path: Path) -> Path:
    """A copy of it."""
    shutil.copytree(finished, tmp_path / "copy")
    return tmp_path / "copy"


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "run").open()


def put(store: Store, cell: str = "cell") -> None:
    scores = score_table({"score": np.linspace(-1, 1, 50)})
    store.write(
        cell, {"accuracy": 0.912}, {"scores.parquet": scores, "found.safetensors": array_file({"a": np.eye(3)})}
    )


def flip(path: Path, place: int = -20) -> None:
    """Change one byte and neither size nor name."""
    content = bytearray(path.read_bytes())
    content[place] ^= 1
    path.write_bytes(bytes(content))


def files(run: Path, name: str) -> list[Path]:
    return sorted((run / "cells").glob(f"*/{name}"))


@pytest.mark.parametrize("name", ["scores.parquet", "found.safetensors"])
@pytest.mark.parametrize("place", [0, 10, 100, -1])
def test_one_changed_byte_is_found(store: Store, name: str, place: int) -> None:
    put(store)
    assert (store.has("cell"), store.damaged("cell")) == (True, None)
    flip(path := store.path("cell") / name, place)
    assert not store.has("cell")
    assert store.damaged("cell") == f"{path} is damaged (its checksum does not match)"
    for read in (lambda: store.scores("cell"), lambda: store.arrays("cell", "found.safetensors")):
        with pytest.raises(Damaged, match=name):
            read()
    put(store)
    assert (store.has("cell"), store.damaged("cell")) == (True, None)


def test_a_changed_figure_in_the_record_is_found(store: Store) -> None:
    put(store)
    path = store.path("cell") / "record.json"
    path.write_text(path.read_text().replace("0.912", "0.992"))
    assert not store.has("cell")
    assert store.damaged("cell") == f"{path} is damaged (its checksum does not match)"


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ("", "Expecting value"),
        ("[]", "no checksum"),
        ("3", "no checksum"),
        ('{"files": []}', "no checksum"),
        ('{"files": {"scores.parquet": 120}}', "no checksum; files of older versions have none"),
        ('{"files": {}, "sha256": "0"}', "its checksum does not match"),
        ("[" * 100_000, "recursion"),
    ],
)
def test_odd_records_count_as_missing(store: Store, content: str, why: str) -> None:
    put(store)
    (store.path("cell") / "record.json").write_text(content)
    assert not store.has("cell")
    assert why in str(store.damaged("cell"))


@pytest.mark.parametrize(
    ("facts", "why"),
    [
        ({}, "it has format 1, and this version reads format 2"),
        ({"format": 2, "files": {"scores.parquet": {"bytes": "x"}}}, "names, sizes and checksums"),
        ({"format": 2, "files": {"../x": {"bytes": 1, "sha256": ""}}}, "names, sizes and checksums"),
        ({"format": 2, "files": 3}, "names, sizes and checksums"),
    ],
)
def test_records_of_other_forms_count_as_missing(store: Store, facts: dict[str, object], why: str) -> None:
    put(store)
    records.write_verified_json(store.path("cell") / "record.json", facts)
    assert not store.has("cell")
    assert why in str(store.damaged("cell"))


def test_missing_files_and_records_are_told_apart(store: Store) -> None:
    put(store)
    (store.path("cell") / "found.safetensors").unlink()
    assert "found.safetensors is damaged (it is missing)" in str(store.damaged("cell"))
    (store.path("cell") / "record.json").unlink()
    assert "record.json is damaged (it is missing)" in str(store.damaged("cell"))
    assert not store.has("cell")
    assert (store.has("none"), store.damaged("none")) == (False, None)


def test_a_pipe_in_a_record_is_refused_and_not_waited_for(store: Store) -> None:
    put(store)
    (store.path("cell") / "scores.parquet").unlink()
    os.mkfifo(store.path("cell") / "scores.parquet")
    with pytest.raises(OSError, match=r"scores\.parquet is not a regular file"):
        store.has("cell")


def test_a_file_is_read_once_for_its_proof(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    put(store)
    read = list[str]()
    plain = records.sha256
    monkeypatch.setattr(records, "sha256", lambda path, *rest: (read.append(path.name), plain(path, *rest))[1])
    for _ in range(3):
        assert store.has("cell")
        store.scores("cell")
    assert sorted(read) == ["found.safetensors", "scores.parquet"]


def test_the_record_tells_size_and_checksum_of_every_file(store: Store) -> None:
    import hashlib

    put(store)
    found = json.loads((store.path("cell") / "record.json").read_text())["files"]
    for name in ("scores.parquet", "found.safetensors"):
        content = (store.path("cell") / name).read_bytes()
        assert found[name] == {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}


def test_a_part_with_a_changed_byte_is_as_good_as_none(store: Store) -> None:
    store.put_part("work", {"a": {"x": np.ones(3)}})
    store.put_part("work", {"b": {"x": np.zeros(3)}})
    first = sorted(store.scratch("work").glob("part-*"))[0]
    flip(first, -1)
    assert len(dict(store.parts("work"))) == 1
    assert not first.exists()


def test_kept_work_is_replaced_and_proven(store: Store) -> None:
    store.keep("work", "walk-chains-0-256", {"z": np.ones(2)})
    store.keep("work", "walk-chains-0-2560", {"z": np.full(2, 5.0)})
    store.keep("work", "walk-chains-0-256", {"z": np.zeros(2)})
    kept = store.kept("work", "walk-chains-0-256")
    assert kept is not None
    assert kept["z"].tolist() == [0, 0]
    assert len(list(store.scratch("work").iterdir())) == 2
    flip(next(store.scratch("work").glob("walk-chains-0-256-*")), -1)
    assert store.kept("work", "walk-chains-0-256") is None
    assert store.kept("work", "walk-chains-0-2560") is not None


def test_training_does_not_go_on_from_a_damaged_checkpoint(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint.safetensors"
    checkpoint.save(path, "id", Checkpoint({"epoch": 3}, {"weights/a": torch.ones(3)}))
    found = checkpoint.load(path, "id")
    assert found is not None
    assert (found.position, found.under("weights")["a"].tolist()) == ({"epoch": 3}, [1, 1, 1])
    assert checkpoint.load(path, "another") is None
    whole = path.read_bytes()
    for place in (-1, whole.index(b"epoch"), whole.index(b": 3") + 2):
        flip(path, place)
        assert checkpoint.load(path, "id") is None
        path.write_bytes(whole)


@pytest.mark.parametrize("name", ["scores.parquet", "state.safetensors", "examples.safetensors", "record.json"])
def test_a_run_computes_damaged_results_anew_and_names_them(study: Path, name: str) -> None:
    hit = files(study / "run", name)[0]
    before = hit.read_bytes()
    flip(hit, len(before) // 2)
    ended = farout("run", study / "study.yaml", "--out", study / "run", "--workers", "0")
    assert ended.code == 0, ended.err
    assert f"computed again: {hit} is damaged" in ended.out
    assert "1 results computed" in ended.out
    if name != "record.json":  # it tells when it was made
        assert hit.read_bytes() == before
    again = farout("run", study / "study.yaml", "--out", study / "run", "--workers", "0")
    assert "0 results computed" in again.out
    assert "computed again" not in again.out


@pytest.mark.parametrize("damage", [b"", b"PAR1", b"hello", b"PAR1" + bytes(100) + b"PAR1"])
def test_a_report_goes_on_without_damaged_results_and_names_them(study: Path, damage: bytes) -> None:
    hit = files(study / "run", "scores.parquet")[0]
    hit.write_bytes(damage)
    ended = farout("report", study / "run")
    assert ended.code == 0, ended.err
    assert f"left out: {hit} is damaged" in ended.out
    page = (study / "run" / "report.html").read_text()
    assert f"{hit} is damaged" in page
    assert "thrift" not in page + ended.err


def test_a_file_of_the_right_checksum_that_is_no_table_is_named(store: Store) -> None:
    store.write("cell", {}, {"scores.parquet": lambda path: path.write_bytes(b"PAR1" * 10) and None})
    with pytest.raises(Damaged, match=r"scores\.parquet is damaged \("):
        store.scores("cell")


@pytest.mark.parametrize(
    ("change", "where"),
    [
        ({"rows": [3]}, "rows.0"),
        ({"rows": {}}, "rows"),
        ({"rows": [{}]}, "rows.0.protocol"),
        ({"rows": [{"protocol": "clean", "cell": 3, "title": "", "tags": {}, "requires": []}]}, "rows.0.cell"),
        ({"rows": [{"protocol": "clean", "cell": "a", "title": "", "tags": [], "requires": []}]}, "rows.0.tags"),
        ({"rows": [{"protocol": "clean", "cell": "a/b", "title": "", "tags": {}, "requires": []}]}, "rows.0.cell"),
        (
            {"rows": [{"protocol": "clean", "cell": "a", "title": "", "tags": {}, "requires": [".."]}]},
            "rows.0.requires",
        ),
        ({"name": 3}, "name"),
        ({"budget": None}, "budget"),
        ({"cuts": "x"}, "cuts"),
        ({"notes": [1]}, "notes.0"),
        ({"protocols": [3]}, "protocols.0"),
        ({"protocols": None}, "protocols"),
        ({"format": "x"}, "format"),
        ({"format": None}, "format"),
        ({"format": 2}, None),
    ],
)
def test_odd_plans_are_one_clear_error(study: Path, change: dict[str, object], where: str | None) -> None:
    path = rewrite_plan(study / "run", lambda plan: {**plan, **change})
    said = refused("report", study / "run")
    assert str(path) in said
    assert f"is damaged ({where}" in said if where else "has format 2" in said


@pytest.mark.parametrize("key", ["rows", "name", "budget", "cuts", "notes", "protocols", "format"])
def test_plans_with_missing_keys_are_one_clear_error(study: Path, key: str) -> None:
    path = rewrite_plan(study / "run", lambda plan: {name: value for name, value in plan.items() if name != key})
    assert f"{path} is damaged ({key}: Field required); the same run command writes it again" in refused(
        "report", study / "run"
    )


def test_rows_without_the_tags_of_their_protocol_are_one_clear_error(study: Path) -> None:
    rewrite_plan(study / "run", lambda plan: {**plan, "rows": [{**row, "tags": {}} for row in plan["rows"]]})
    assert "does not hold what clean reads" in refused("report", study / "run")


FULL_DISK = """
import resource, sys
import farout.cli, farout.api.run, farout.study.results, farout.report.html, farout.protocols, farout.detectors
resource.setrlimit(resource.RLIMIT_FSIZE, ({bytes}, {bytes}))
sys.argv = ["farout", *{arguments}]
farout.cli.main()
"""


@pytest.mark.parametrize("limit", [100, 20_000])
def test_a_full_disk_is_one_clear_error(study: Path, limit: int) -> None:
    """A file-size limit stands for a full disk: the plan does not fit, or it does and the weights do not."""
    text = STUDY.replace("weights: lenet.safetensors", "train: {epochs: 1}")
    (study / "study.yaml").write_text(text)
    arguments = ["run", str(study / "study.yaml"), "--out", str(study / "new"), "--workers", "0"]
    code = FULL_DISK.format(bytes=limit, arguments=arguments)
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False)
    assert ended.returncode in (1, 2), ended.stderr
    assert "Traceback" not in ended.stderr
    assert "File too large" in ended.stderr
    assert f"{study / 'new'}" in ended.stderr
