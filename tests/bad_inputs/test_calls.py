"""Wrong arguments, in Python and on the command line: one clear error each."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import farout
from farout import metrics
from helpers.command_line import refused
from helpers.written_runs import lenet_weights

METRICS = ["auroc", "aupr", "fpr_at_95_id_recall", "fpr_at_95_ood_recall", "min_rank", "overlap", "auroc_interval"]
SCORES: list[Any] = [[], [np.nan], [np.inf], [[1.0, 2.0]], "x", None, ["a"], {}, [1j], np.zeros((2, 0)), object()]


@pytest.mark.parametrize("scores", SCORES, ids=lambda scores: f"{scores!r}".split(" at ")[0])
@pytest.mark.parametrize("name", METRICS)
def test_scores_that_are_none(name: str, scores: Any) -> None:
    for arguments in ((scores, [1.0, 2.0]), ([1.0, 2.0], scores)):
        with pytest.raises((ValueError, TypeError), match=r"(in|out)lier"):
            getattr(metrics, name)(*arguments)


def test_overlap_of_the_largest_scores_does_not_overflow() -> None:
    plain = np.linspace(-1, 1, 50)
    expected = metrics.overlap(plain, plain + 0.5)
    assert metrics.overlap(1e308 * plain, 1e308 * (plain + 0.5)) == pytest.approx(expected, abs=1e-9)
    assert metrics.overlap([-1.7e308, 1.7e308], [-1.7e308, 1.7e308]) == pytest.approx(1)
    assert metrics.overlap([-1.7e308, -1.7e308], [1.7e308, 1.7e308]) == 0


ARRAYS: list[Any] = [
    np.zeros((2, 4, 4)), np.zeros((2, 4, 4, 3)), np.full((2, 3, 4, 4), 2.0), np.full((2, 3, 4, 4), -0.1),
    np.full((2, 3, 4, 4), np.nan), np.zeros((0, 3, 4, 4)), np.zeros((2, 3, 4, 4), complex), np.zeros(3), "x", None, [],
    np.zeros((2, 4, 4, 3), np.int64), np.zeros((2, 4, 4, 4), np.uint8), np.array(["a"]), np.zeros((2, 4, 4, 3), bool),
    np.zeros((2, 3, 0, 0)), torch.zeros(2, 3, 4, 4, dtype=torch.int32), {},
]  # fmt: skip


@pytest.mark.parametrize("images", ARRAYS, ids=[f"{type(a).__name__}-{i}" for i, a in enumerate(ARRAYS)])
def test_arrays_that_are_no_images(images: Any) -> None:
    with pytest.raises((ValueError, TypeError), match=r"images|empty"):
        farout.ImageSet.from_arrays(images)


@pytest.mark.parametrize(
    "labels",
    [
        [-1, 0],
        [0],
        [0.5, 1],
        ["a", "b"],
        [[0, 1]],
        [None, 1],
        np.array([2**64 - 1, 0], np.uint64),
        [100_000, 0],
        3,
        "ab",
    ],
    ids=repr,
)
def test_labels_that_are_none(labels: Any) -> None:
    with pytest.raises(ValueError, match="labels"):
        farout.ImageSet.from_arrays(np.zeros((2, 8, 8, 3), np.uint8), labels)


BATCHES: list[Any] = [torch.rand(3, 8, 8), torch.rand(1, 2, 8, 8), torch.rand(1, 3, 0, 0), 9 * torch.ones(1, 3, 8, 8),
                      torch.full((1, 3, 8, 8), torch.nan), torch.zeros(1, 3, 8, 8, dtype=torch.int),
                      "x", None, 3]  # fmt: skip


@pytest.mark.parametrize("images", BATCHES, ids=range(len(BATCHES)))
def test_batches_that_are_none(images: Any) -> None:
    with pytest.raises((ValueError, TypeError), match="expected"):
        farout.shift("contrast", severity=3)(images)


@pytest.mark.parametrize(
    ("name", "classes", "side"),
    [(None, 4, 32), (3, 4, 32), ("", 4, 32), ("none", 4, 32), ("lenet", 0, 32), ("lenet", 1, 32), ("lenet", -1, 32),
     ("lenet", "4", 32), ("lenet", 2.5, 32), ("lenet", 4, 0), ("lenet", 4, -1), ("lenet", 4, "32"), ("lenet", 4, 3)],
)  # fmt: skip
def test_networks_that_cannot_be_created(name: Any, classes: Any, side: Any) -> None:
    with pytest.raises((ValueError, TypeError), match=r"network|classes|side"):
        farout.networks.create(name, classes, side)


@pytest.mark.parametrize("value", [0, 6, -1, "x", None, 2.5, float("nan"), [], True + 9])
def test_severities_that_are_none(value: Any) -> None:
    with pytest.raises((ValueError, TypeError), match="severity"):
        farout.shift("fog", severity=value)


ATTACK = [
    ("--set", "epsilon"), ("--set", "=1"), ("--set", "epsilon=["), ("--set", "epsilon=x"), ("--set", "epsilon=.nan"),
    ("--set", "epsilon=-1"), ("--set", "epsilon=1e999"), ("--set", "epsilon=[1]"), ("--set", "epsilon={a: 1}"),
    ("--set", "epsilon=" + "[" * 500), ("--set", "none=1"), ("--mean", "x"), ("--mean", "nan"), ("--std", "0"),
    ("--std", "-1"), ("--classes", "1"), ("--classes", "7"), ("--side", "0"), ("--limit", "0"), ("--limit", "x"),
    ("--seed", "-1"), ("--device", "none"), ("--workers", "-1"), ("--split", "none"), ("--plugin", "none.py"),
    ("--network", "none"), ("--weights", "none.pt"), ("--none",),
]  # fmt: skip


@pytest.mark.parametrize("arguments", ATTACK, ids=lambda a: "".join(a)[:40])
def test_attacks_with_wrong_arguments(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    network = ("--network", "lenet", "--weights", lenet_weights(tmp_path), "--workers", "0")
    refused("attack", "fgsm", "toy", "--limit", "4", "--out", tmp_path / "out", *network, *arguments)
    assert not (tmp_path / "out" / "fgsm.npz").exists()


COMMANDS = [
    ("none",), ("--none",), ("list",), ("list", "none"), ("check", "none"), ("check", "none.py:X"), ("check", "onnx"),
    ("check", "a.py"), ("report", "none"), ("report", "."), ("report", "a.txt"), ("render", "shapes"),
    ("render", "none", "--out", "r"), ("render", "shapes", "--out", "r", "--split", "none"),
    ("render", "shapes", "--out", "r", "--split", "test/ood_"), ("render", "shapes", "--out", "a.txt"),
    ("render", "shapes", "--out", "r", "--side", "3"), ("render", "shapes", "--out", "r", "--font", "a.txt"),
    ("render", "chars", "--out", "r", "--limit", "1", "--font", "a.txt"),
    ("render", "shapes", "--out", "r", "--limit", "0"),
    ("corrupt", "toy"), ("corrupt", "toy", "--out", "a.txt"), ("corrupt", "none", "--out", "q"),
    ("corrupt", "toy", "--out", "q", "--shift", "none"), ("corrupt", "toy", "--out", "q", "--severity", "9"),
    ("corrupt", "toy", "--out", "q", "--shift", "frost", "--frost-dir", "."), ("corrupt", "a.txt", "--out", "q"),
    ("corrupt", "toy", "--out", "q", "--limit", "-3"), ("run", "none.yaml"), ("run", "."), ("run", "a.txt"),
    ("run", "study.yaml", "--device", "none"), ("run", "study.yaml", "--budget", "none"),
    ("run", "study.yaml", "--out", "a.txt"), ("run", "study.yaml", "--plugin", "none.py"),
    ("run", "study.yaml", "--plugin", "a.txt"), ("plan", "none.yaml"), ("plan", "/dev/zero"),
    ("demo", "--out", "a.txt"),
    ("demo", "--device", "none"),
]  # fmt: skip


@pytest.mark.parametrize("arguments", COMMANDS, ids=" ".join)
def test_commands_with_wrong_arguments(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.txt").write_text("hello")
    (tmp_path / "study.yaml").write_text("inliers: {test: {name: toy, limit: 8}}\noutliers: [noise]\ndetectors: [mine]")
    refused(*arguments)


def test_an_error_that_nobody_foresaw_is_one_line_with_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    from farout.cli import reports

    def broken(*_: object) -> None:
        raise KeyError("lost")

    monkeypatch.setattr(reports, "load_plugins", broken)
    said = refused("report", "none")
    assert said.startswith("error: KeyError: 'lost' (")
    assert "test_calls.py, line " in said
    assert "FAROUT_DEBUG=1" in said


def test_a_missing_package_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    from farout.cli import studies

    def missing(*_: object) -> None:
        raise ImportError("timm:resnet50 needs timm: pip install farout[timm]")

    monkeypatch.setattr(studies, "load_plugins", missing)
    assert refused("plan", "none").startswith("error: timm:resnet50 needs timm: pip install farout[timm]")
