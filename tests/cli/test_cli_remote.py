"""The command line with a run at an address."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from farout.api.run import run
from farout.api.view import RunView
from farout.study.remote import owner
from farout.study.remote.address import Remote
from farout.study.remote.session import local_folder
from farout.study.status import FINISHED, RUNNING
from helpers.command_line import farout, refused
from helpers.written_runs import lenet_weights

STUDY = """
inliers: {test: {name: toy, limit: 8}, train: {name: toy, split: train, limit: 16}}
outliers: [{name: noise, limit: 8}]
networks: [{name: lenet, weights: lenet.safetensors}]
detectors: [msp, {name: knn, k: 3}]
"""
ADDRESS = "memory://bucket/study"


@pytest.fixture(autouse=True)
def study(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("FAROUT_DATA", str(tmp_path / "cache"))
    monkeypatch.setattr(owner, "SETTLE", 0.0)
    lenet_weights(tmp_path)
    path = tmp_path / "study.yaml"
    path.write_text(STUDY)
    return path


def test_a_run_at_an_address_from_the_first_command_to_the_last(study: Path, tmp_path: Path) -> None:
    ended = farout("run", study, "--out", ADDRESS, "--workers", "0")
    assert ended.code == 0, ended.err
    assert "0 there already, 0 failed; in memory://bucket/study" in ended.out
    assert "for the report: farout report memory://bucket/study" in ended.out
    shutil.rmtree(local_folder(ADDRESS))
    again = farout("run", study, "--out", ADDRESS, "--workers", "0")
    computed = ended.out.partition(" results computed")[0].split()[-1]
    assert f"0 results computed, {computed} there already" in again.out
    shutil.rmtree(local_folder(ADDRESS))
    report = farout("report", ADDRESS)
    assert "wrote memory://bucket/study/report.html" in report.out
    page = (local_folder(ADDRESS) / "report.html").read_bytes()
    assert Remote(ADDRESS).read("report.html") == page
    assert {"report.html", "tables/clean.csv", "plan.json"} <= Remote(ADDRESS).list().keys()
    assert f"0 of {computed} results are missing" in farout("plan", study, "--out", ADDRESS, "--no-calibrate").out
    assert farout("compare", ADDRESS, ADDRESS).code == 0
    packed = farout("leaderboard", "pack", ADDRESS, "--out", tmp_path / "submission")
    assert (packed.code, "check it" in packed.out) == (0, True), packed.err
    assert farout("report", local_folder(ADDRESS), "--out", tmp_path / "r.html").code == 0
    view = RunView(ADDRESS)
    assert (view.status()["state"], view.status()["done"]) == (FINISHED, int(computed))
    with owner.RemoteLock(Remote(ADDRESS)).held():
        assert RunView(ADDRESS).status()["state"] == RUNNING


def test_an_address_that_became_a_path_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="give an address as text"):
        run(tmp_path / "study.yaml", Path("s3://bucket/run"))


def test_what_cannot_be_done_is_said_before_the_work(study: Path) -> None:
    said = refused("run", study, "--out", "memory://bucket/none", "--engine", "slurm")
    assert "--engine slurm needs a folder that all nodes share" in said
    assert "use --engine local" in said
    assert "holds no run (no plan.json)" in refused("report", "memory://bucket/none")
    assert "give its place with --out" in refused("report", ADDRESS, "--export", "png")
    assert "there is no file system 'nothing'" in refused("run", study, "--out", "nothing://bucket/none")
    assert not local_folder("memory://bucket/none").exists()
