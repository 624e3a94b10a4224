"""`farout attack`: what lies on disk is what `farout.attack` gives, rounded, with what still succeeds."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import farout
from farout import cli
from farout.networks import load_weights, save_weights
from helpers.written_runs import lenet_weights

COUNT = 70


@pytest.fixture
def attack(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Any:
    """`attack("fgsm")`: the command in a folder of its own, its exit code and all it says."""
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.delenv("FAROUT_DEBUG", raising=False)
    monkeypatch.chdir(tmp_path)
    network = ("--network", "lenet", "--weights", str(lenet_weights(tmp_path)))

    def call(name: str, *arguments: str, images: str = "toy") -> tuple[int, str]:
        options = (*network, "--out", "out", "--limit", str(COUNT), "--workers", "0", *arguments)
        monkeypatch.setattr(sys, "argv", ["farout", "attack", name, images, *options])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        return int(ended.value.code or 0), "".join(capsys.readouterr())

    return call


def test_the_set_is_what_farout_attack_gives_in_8_bits(attack: Any, tmp_path: Path) -> None:
    code, said = attack("pgd", "--set", "steps=2", "--set", "epsilon=0.05", "--seed", "4")
    assert code == 0, said
    network = load_weights(farout.networks.create("lenet", 4, 32), tmp_path / "lenet.safetensors")
    images = farout.load("toy", limit=COUNT)
    expected = farout.attack("pgd", network, images, seed=4, steps=2, epsilon=0.05)
    written = farout.load("out/pgd.npz")
    levels = written.batch(np.arange(COUNT)).mul(255)
    torch.testing.assert_close(levels, expected.images.mul(255).round(), rtol=0, atol=1e-3)
    np.testing.assert_array_equal(written.attributes["success"], expected.success_8bit.numpy())
    np.testing.assert_array_equal(written.attributes["clean_correct"], expected.clean_correct.numpy())
    facts = json.loads(Path("out/pgd.json").read_text())
    assert facts["images"] == COUNT
    assert facts["attack"]["params"]["epsilon"] == 0.05
    assert facts["success_of_clean_correct"] == int((expected.success_8bit & expected.clean_correct).sum())
    right = facts["clean_correct"]
    assert f"{right:,} ({right / COUNT:.1%}) were classified correctly" in said
    assert "without --mean and --std pixels were normalized by 0.5" in said


def test_the_same_command_again_changes_nothing_and_another_one_is_refused(attack: Any) -> None:
    assert attack("fgsm")[0] == 0
    before = Path("out/fgsm.npz").read_bytes()
    assert attack("fgsm")[0] == 0
    assert Path("out/fgsm.npz").read_bytes() == before
    code, said = attack("fgsm", "--set", "epsilon=0.2")
    assert code == 2
    assert "holds another set" in said


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("pgt",), "Did you mean 'pgd'"),
        (("pgd", "--set", "epsilom=1"), "Did you mean 'epsilon'"),
        (("pgd", "--set", "epsilon"), "--set takes NAME=VALUE"),
        (("pgd", "--option", "coarse"), "--option takes NAME=VALUE"),
        (("pgd", "--option", "coarse=true"), "coarse"),
        (("pgd", "--set", "steps=0"), "steps"),
        (("score_pgd",), "attacks a detector"),
        (("pgd", "--mean", "0.5,0.4"), "one finite number per channel"),
        (("pgd", "--std", "0.5;0.4"), "--std takes numbers with commas between them, 0.485,0.456,0.406, got '0.5;0.4'"),
        (("apgd_t", "--classes", "3", "--weights", "three.safetensors"), "needs a network with at least 4 classes"),
        (("pgd", "--classes", "3", "--weights", "three.safetensors"), "run from 0 to 3, and lenet has 3 classes"),
    ],
)
def test_wrong_arguments(attack: Any, arguments: tuple[str, ...], message: str) -> None:
    save_weights(farout.networks.create("lenet", 3, 32), Path("three.safetensors"))
    code, said = attack(*arguments)
    assert code == 2
    assert message in " ".join(said.split())
    assert not Path("out").exists()


def test_images_without_labels(attack: Any) -> None:
    code, said = attack("pgd", images="noise")
    assert code == 2
    assert "have no labels" in said
