"""`farout plan`: totals, the same counts as run and report, and no downloads."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from farout import cli
from farout.data import download
from farout.study.results import Results
from helpers.written_runs import lenet_weights


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Any:
    """`command("plan", "study.yaml")`: exit code, output and errors."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FAROUT_DATA", str(tmp_path / "cache"))
    monkeypatch.setattr(download, "_retrieve", lambda *args: pytest.fail("something was downloaded"))

    def call(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["farout", *arguments])
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            cli.main()
        said = capsys.readouterr()
        return int(ended.value.code or 0), said.out, said.err

    return call


def write(folder: Path, **changes: Any) -> None:
    content = {
        "inliers": {"train": {"name": "toy", "split": "train", "limit": 50}, "test": {"name": "toy", "limit": 40}},
        "outliers": [{"name": "noise", "limit": 30}],
        "networks": [{"name": "lenet", "train": {"epochs": 1}}],
        "detectors": ["msp", {"name": "knn", "k": 3}],
        "protocols": ["clean", {"name": "rood", "setups": {"dark": ["contrast"]}}],
        "budget": "quick",
    }
    (folder / "study.yaml").write_text(yaml.safe_dump({**content, **changes}))


def test_totals_come_first_and_the_list_on_request(command: Any, tmp_path: Path) -> None:
    write(tmp_path)
    code, out, _ = command("plan", "study.yaml", "--no-calibrate")
    assert code == 0
    assert "estimate" not in out
    head, *lines = out.splitlines()
    assert head.split() == ["protocol", "results", "missing", "images", "to", "compute"]
    # a training, two fits, two sets by two detectors, the network's classes; then five severities by two detectors,
    # and the clean images again, which the two protocols share
    numbers = {line.split()[0]: line.split()[1:] for line in lines[:3]}
    assert numbers["clean"] == ["8", "8", "166", "166"]
    assert numbers["rood"] == ["17", "17", "366", "366"]
    assert numbers["together"] == ["18", "18", "366", "366"]
    assert lines[-1] == "18 of 18 results are missing at budget quick"
    _, listed, _ = command("plan", "study.yaml", "--list", "--no-calibrate")
    works = [line for line in listed.splitlines() if re.match(r" +[\d,]+ images", line)]
    assert len(works) == 1 + 1 + 2 + 5
    assert sum(int(line.split()[0]) for line in works) == 366


def test_plan_run_and_report_count_alike(command: Any, tmp_path: Path) -> None:
    write(tmp_path)
    _, out, _ = command("plan", "study.yaml", "--workers", "3")
    assert "estimate of what is missing, to about a factor of 3, from trying out" in out
    assert re.search(r"\n  time    about .* of one core of this machine \(.*training \d+%.*\)\n", out)
    assert "with --workers 3, if as many cores are free" in out
    assert re.search(r"\n  memory  .* per process and .* for activations to fit on\n  disk    .* for results\n", out)
    assert not (tmp_path / "runs").exists(), "nothing is stored"
    _, out, _ = command("run", "study.yaml", "--workers", "0")
    assert "18 results computed, 0 there already, 0 failed" in out
    code, out, _ = command("plan", "study.yaml")
    assert code == 0
    assert out.splitlines()[-1] == "0 of 18 results are missing at budget quick"
    assert "estimate" not in out
    assert out.splitlines()[1].split() == ["clean", "8", "0", "166", "0"]
    command("report", "runs/study")
    page = Path("runs/study/report.html").read_text(encoding="utf-8")
    assert "<b>18</b> of 18 results" in page
    counts = Results("runs/study").counts()
    assert counts == (18, 0, 0)


def test_what_is_missing_is_counted_alike(command: Any, tmp_path: Path) -> None:
    write(tmp_path, protocols=["clean"])
    command("run", "study.yaml", "--workers", "0")
    results = Results("runs/study")
    for path in (results.store.root / "cells").iterdir():
        if results.store.facts(path.name)["identity"]["kind"] == "network":  # no row of the plan, but required
            (path / "record.json").unlink()
    assert Results("runs/study").counts() == (8, 1, 0)
    assert (
        command("plan", "study.yaml", "--no-calibrate")[1].splitlines()[-1]
        == "1 of 8 results are missing at budget quick"
    )
    command("report", "runs/study")
    assert "1 of 8 results are missing" in Path("runs/study/report.html").read_text(encoding="utf-8")


def test_all_missing_downloads_are_named_at_once(command: Any, tmp_path: Path) -> None:
    write(tmp_path, inliers="cifar10", outliers=["mnist", "svhn", {"name": "celeba", "options": {"side": 32}}])
    code, out, err = command("plan", "study.yaml")
    assert (code, out) == (2, "")
    assert err.startswith("error: 6 files are missing, and `farout plan` downloads nothing:\n")
    for key in (
        "cifar10/cifar-10-binary.tar.gz", "mnist/t10k-images-idx3-ubyte.gz", "mnist/t10k-labels-idx1-ubyte.gz",
        "svhn/test_32x32.mat", "celeba/list_eval_partition.txt", "celeba/img_align_celeba.zip",
    ):  # fmt: skip
        assert f"  {key} from http" in err
    assert not (tmp_path / "cache").exists()


def test_a_file_with_another_checksum_is_missing_too(command: Any, tmp_path: Path) -> None:
    (tmp_path / "cache" / "svhn").mkdir(parents=True)
    (tmp_path / "cache" / "svhn" / "test_32x32.mat").write_bytes(b"something else")
    write(tmp_path, outliers=["svhn"], networks=[{"name": "lenet", "weights": str(lenet_weights(tmp_path))}])
    code, _, err = command("plan", "study.yaml")
    assert code == 2
    assert err.startswith(
        "error: 1 file is missing, and `farout plan` downloads nothing:\n  svhn/test_32x32.mat from http"
    )


def test_arrays_of_slurm_are_listed_with_their_hours_and_what_they_wait_for(command: Any, tmp_path: Path) -> None:
    write(tmp_path)
    code, out, _ = command("plan", "study.yaml", "--engine", "slurm", "--task-minutes", "60")
    assert code == 0
    arrays = [line.strip() for line in out.splitlines() if line.strip().startswith("array ")]
    starts = [
        re.match(r"array (\d): 1 task, [\d.e-]+ core hours, the longest about \d+ s(, after \d)?: ", one)
        for one in arrays
    ]
    assert [(one[1], one[2]) for one in starts if one] == [("1", None), ("2", ", after 1"), ("3", ", after 2")]
    assert [one.partition(": ")[2].partition(": ")[2].partition(" ")[0] for one in arrays] == ["train", "fit", "score"]
    assert "arrays of tasks of about 60 minutes (--task-minutes):" in out
