"""`farout check --faults`: options, the toy study, and what is printed."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
import yaml

import farout
from farout.faults import FAULTS, Verdict, toy_study
from farout.faults.report import markdown, write_figures
from farout.faults.series import as_json, counts, sentences
from farout.study.spec import StudySpec
from helpers.command_line import farout as command
from helpers.command_line import refused

MINE = """
import farout


class Mine(farout.Detector):
    def score(self, images):
        return images.mean((1, 2, 3))


def function(images):
    return images.mean((1, 2, 3))


mine = Mine()
"""


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("knn", "--kills", 3), "--kills needs --faults"),
        (("knn", "--seed", 3), "--seed needs --faults"),
        (("knn", "--faults", "--kills", 0), "--kills"),
        (("knn", "--faults", "--kills", "x"), "--kills"),
        (("knn", "--faults", "--seed", -1), "--seed"),
        (("knn", "--faults", "--data", "toy"), "takes no --data"),
        (("none", "--faults"), "unknown detector 'none'"),
        (("none.py:Mine", "--faults"), "no such plugin"),
        (("mine.py:Other", "--faults"), "'Other'"),
        (("mine.py:farout", "--faults"), "expected a farout.Detector or a farout.PostHoc, got module"),
        (("onnx", "--faults"), "is an adapter"),
    ],
)
def test_wrong_options(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[object, ...], words: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mine.py").write_text(MINE)
    assert words in refused("check", *arguments)


@pytest.mark.parametrize("name", ["Mine", "function", "mine"])
def test_the_toy_study_of_a_users_class_function_or_object(tmp_path: Path, name: str) -> None:
    (tmp_path / "mine.py").write_text(MINE)
    bench = toy_study(f"{tmp_path / 'mine.py'}:{name}", tmp_path)
    spec = StudySpec.read(bench.study)
    assert [one.label for one in spec.detectors] == ["tested", None]
    for plugin in bench.plugins:
        farout.plugins.load_plugin(plugin)  # type: ignore[attr-defined]
    images = farout.load("toy", limit=3).batch(range(3))
    made = farout.detectors.create(spec.detectors[0].name)
    assert made.score(images).tolist() == pytest.approx(images.mean((1, 2, 3)).tolist(), rel=1e-6)  # type: ignore[arg-type, union-attr]


def test_the_toy_study_of_detectors_by_name(tmp_path: Path) -> None:
    found = {}
    for name in ("knn", "ae", "oe"):
        found[name] = yaml.safe_load(toy_study(name, tmp_path).study.read_text())
    assert found["knn"]["detectors"] == [{"name": "knn", "label": "tested"}, "msp"]
    assert found["ae"]["detectors"][0]["training"] == {"epochs": 1}
    assert "auxiliary_outliers" in found["oe"]
    assert "auxiliary_outliers" not in found["ae"]


def test_counts_follow_the_kills() -> None:
    assert counts(10) == {
        "kills": 10, "full disks": 3, "changed bytes": 20, "files cut off": 5, "stopped worker": 1
    }  # fmt: skip
    assert min(counts(1).values()) == 1
    assert counts(1).keys() == FAULTS.keys()


def test_a_verdict_in_words_and_figures(tmp_path: Path) -> None:
    good = Verdict("one changed byte", 3, Counter({"plan.json": 1, "record.json": 2}))
    bad = Verdict("full disk", 2, Counter({"start": 2}), ["a is lost", "a is lost"], "a tmpfs")
    assert list(sentences(good)) == [
        "one changed byte, 3 times: all results are there, equal to those of the run that was left alone, "
        "byte for byte",
        "  plan.json 1, record.json 2",
    ]
    assert list(sentences(bad)) == ["full disk (a tmpfs), 2 times: 2 problems", "  start 2", "  a is lost"]
    assert markdown([as_json(good), as_json(bad)])[2:] == [
        "| one changed byte | 3 | plan.json 1, record.json 2 | 0 |",
        "| full disk (a tmpfs) | 2 | start 2 | 2 |",
    ]
    write_figures(tmp_path, [good, bad], seed=1)
    write_figures(tmp_path, [Verdict("full disk", 5)], seed=1)
    assert (tmp_path / "faults.md").read_text().splitlines()[2:] == [
        "| one changed byte | 3 | plan.json 1, record.json 2 | 0 |",
        "| full disk | 5 |  | 0 |",
    ]


def test_a_verdict_with_problems_ends_in_exit_code_1(monkeypatch: pytest.MonkeyPatch) -> None:
    for problems, code in (([], 0), (["a is lost"], 1)):
        found = [Verdict("full disk", 1, problems=problems)]
        monkeypatch.setattr("farout.faults.run_series", lambda *_, found=found: iter(found))
        ended = command("check", "knn", "--faults", "--quiet")
        assert (ended.code, "full disk, 1 times" in ended.out) == (code, True), ended.err
