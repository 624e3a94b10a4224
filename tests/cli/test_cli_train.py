"""`farout train` and `farout import`: files that studies take, and errors before the long work."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

import farout
from farout.api.models import DetectorModel
from farout.api.train import plan
from farout.detectors import AE
from helpers.command_line import farout as command
from helpers.command_line import refused

DATA = ("--data", "toy", "--limit", 32, "--quiet")


def test_a_detector_is_trained_to_a_file(tmp_path: Path) -> None:
    out = tmp_path / "ae.safetensors"
    settings = ("--set", "epochs=2", "--set", "width=2", "--set", "latent=2", "--set", "batch=16")
    ended = command("train", "ae", *DATA, "--out", out, "--seed", 4, *settings)
    assert ended.code == 0, ended.err
    assert ended.out.startswith("ae (small, width=2, latent=2, epochs=2, batch=16): 2 epochs, best validation error ")
    train, val = (farout.load("toy", split, limit=32) for split in ("train", "val"))
    expected = AE(width=2, latent=2, training={"epochs": 2, "batch": 16}).fit(train, val=val, seed=4)
    assert farout.detectors.load(out).digest == expected.digest  # type: ignore[attr-defined]
    course = ", ".join(f"{figure:.4g}" for figure in expected.history[0].figures)
    assert ended.out.splitlines()[0].endswith(f"(last epochs: {course})")
    assert [path.name for path in tmp_path.iterdir()] == [out.name], "no checkpoint is left"
    assert "is there already, and nothing is done" in refused("train", "ae", *DATA, "--out", out)


def test_a_generator_and_a_network_are_trained_to_files(tmp_path: Path) -> None:
    files = {name: tmp_path / f"{name}.safetensors" for name in ("dcgan", "lenet")}
    for name, width in (("dcgan", 2), ("lenet", 3)):
        ended = command("train", name, *DATA, "--out", files[name], "--set", "epochs=1", "--set", f"width={width}")
        assert ended.code == 0, ended.err
    assert farout.generators.load(files["dcgan"]).sample(2).shape == (2, 3, 32, 32)
    network = farout.networks.create("lenet", 4, 32, width=3)
    before = network.digest
    assert farout.networks.load_weights(network, files["lenet"]).digest != before


def test_an_interrupted_training_keeps_a_checkpoint_and_continues(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = {"width": 2, "latent": 2, "epochs": 2, "batch": 16}
    data = {"name": "toy", "limit": 32}
    whole = farout.train("ae", data, tmp_path / "whole.safetensors", **settings)
    errors, steps = AE.errors, list[int]()

    def stopped(self: AE, images: torch.Tensor) -> torch.Tensor:
        steps.append(1)
        if len(steps) == 3:
            raise KeyboardInterrupt
        return errors(self, images)

    out = tmp_path / "stopped.safetensors"
    monkeypatch.setattr(AE, "errors", stopped)
    with pytest.raises(KeyboardInterrupt):
        farout.train("ae", data, out, **settings)
    assert list((tmp_path / "stopped.safetensors.checkpoint").iterdir())
    assert not out.exists()
    monkeypatch.undo()
    assert farout.train("ae", data, out, **settings).digest == whole.digest
    assert not (tmp_path / "stopped.safetensors.checkpoint").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("aee",), "unknown model to train: 'aee'. Did you mean 'ae'?"),
        (("knn",), "knn is fitted, not trained"),
        (("ae", "--set", "epoch=3"), "unknown setting of ae or of its training: 'epoch'. Did you mean 'epochs'?"),
        (("ae", "--set", "witdh=3"), "unknown setting of ae or of its training: 'witdh'. Did you mean 'width'?"),
        (("ae", "--set", "epochs=1.5"), "expected a whole number for epochs, got epochs=1.5"),
        (("sngp", "--set", "depth=20"), "sngp: depth must be 6n + 4"),
        (("ae", "--preset", "medium"), "preset must be one of small, full, got 'medium'"),
        (("ae", "--outliers", "noise"), "ae does not learn from outliers: leave them out"),
        (("lenet", "--preset", "small"), "unknown preset of a training: 'small'"),
        (("lenet", "--set", "classes=3"), "unknown setting of a training: 'classes'"),
        (("dcgan", "--preset", "small"), "the generator dcgan has no presets"),
        (("ae", "--option", "side=16"), "ae takes square images with 1 or 3 channels and a side of 28, 32, 64"),
    ],
)
def test_errors_come_before_the_work(tmp_path: Path, arguments: tuple[str, ...], message: str) -> None:
    assert message in refused("train", *arguments, *DATA, "--out", tmp_path / "x.safetensors")
    assert not list(tmp_path.iterdir())


def test_weights_are_written_as_safetensors_only(tmp_path: Path) -> None:
    assert "--out takes a file that ends in .safetensors" in refused("train", "ae", *DATA, "--out", tmp_path / "x.pt")


def test_an_authors_checkpoint_is_imported_with_a_summary(tmp_path: Path) -> None:
    detector = AE(width=2, latent=2, training={"epochs": 1}).fit(farout.load("toy", "train", limit=32))
    theirs = {}
    for part in ("encoder", "decoder"):
        theirs |= {f"{part}.net.{key}": value for key, value in detector.modules[part].state_dict().items()}
    torch.save({"state_dict": {**theirs, "step": torch.ones(1)}}, tmp_path / "theirs.pt")
    settings = ("--set", "width=2", "--set", "latent=2")
    out = tmp_path / "ae.safetensors"
    ended = command("import", "ae", tmp_path / "theirs.pt", "--out", out, *settings)
    assert ended.code == 0, ended.err
    values = sum(value.numel() for key, value in theirs.items() if "tracked" not in key)
    assert ended.out.splitlines() == [
        f"mapped 40 tensors with {values:,} values to ae (full, width=2, latent=2)",
        "left out 1 tensors of the file: step",
        f"weights: {out}",
    ]
    images = farout.load("toy", limit=4).batch(range(4))
    assert torch.equal(farout.detectors.load(out).score(images), detector.score(images))
    for name, message in (("knn", "knn is fitted, not trained: import the network"), ("a", "unknown model to import")):
        assert message in refused("import", name, tmp_path / "theirs.pt", "--out", tmp_path / "b.safetensors")


def test_a_file_with_train_and_val_images_alone_can_be_trained_on(tmp_path: Path) -> None:
    toy = farout.load("toy", "train").limit(24)
    images, labels = (toy.batch(range(24)).permute(0, 2, 3, 1) * 255).byte().numpy(), toy.labels
    arrays = {"train_images": images[:16], "train_labels": labels[:16]}
    held_out = {"val_images": images[16:], "val_labels": labels[16:]}
    np.savez(tmp_path / "both.npz", **arrays, **held_out)
    np.savez(tmp_path / "train.npz", **arrays)
    for name, counts in (("both", [16, 8]), ("train", [12, 4])):  # without val, one image per class is held out
        model = plan("ae", str(tmp_path / f"{name}.npz"), tmp_path / "ae.safetensors", settings={})
        assert isinstance(model, DetectorModel)
        assert [len(model.train), len(model.val)] == counts
