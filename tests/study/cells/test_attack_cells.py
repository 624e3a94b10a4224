"""Attacked sets in a study: the same images as `farout.attack` gives, however the run is cut, and sets on disk."""

from __future__ import annotations

import signal
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import farout
from farout.api import attack_sets
from farout.api.attack_sets import write
from farout.attacks import ATTACKS, Attack
from farout.attacks.judging import run_attack
from farout.study.cells import attack as attacking
from farout.study.cells.attack import AttackCell
from farout.study.cells.attend import AttentionCell
from farout.study.cells.predict import PredictCell
from farout.study.engines import run as engine
from farout.study.sources.attacked import AttackedImages
from farout.study.sources.images import FirstImages, LiveImages, NamedImages
from farout.study.sources.networks import LiveNetwork, StoredNetwork
from farout.study.spec import DataSpec, NetworkSpec
from farout.study.store import Store
from helpers.counting import Counting
from helpers.written_runs import lenet_weights

COUNT = 150


@pytest.fixture(scope="module")
def network() -> farout.Network:
    torch.manual_seed(0)
    return farout.networks.create("lenet", 4, 16, 3)


@pytest.fixture(scope="module")
def images() -> farout.ImageSet:
    rng = np.random.default_rng(1)
    return farout.ImageSet.from_arrays(
        rng.integers(0, 256, (COUNT, 16, 16, 3), dtype=np.uint8), rng.integers(0, 4, COUNT)
    )


def cell(network: farout.Network, images: farout.ImageSet, attack: Attack, seed: int = 3) -> AttackCell:
    return AttackCell(attack, LiveImages(images), LiveNetwork(network, network.digest, "lenet"), None, seed)


def test_a_cell_holds_what_farout_attack_gives(
    network: farout.Network, images: farout.ImageSet, tmp_path: Path
) -> None:
    attack = ATTACKS.create("pgd", steps=3, epsilon=0.1)
    made = cell(network, images, attack)
    store = Store(tmp_path).open()
    engine.run([made], store)
    expected = farout.attack(attack, network, images, seed=3)
    found = AttackedImages(made).open(store)
    np.testing.assert_array_equal(found.batch(np.arange(COUNT)).numpy(), expected.images.numpy())
    for name in ("clean_correct", "success", "success_8bit", "l2", "linf"):
        np.testing.assert_array_equal(found.attributes[name], getattr(expected, name).numpy(), err_msg=name)
    np.testing.assert_array_equal(found.labels, images.labels)
    rounded = AttackedImages(made, rounded=True).open(store)
    levels = rounded.batch(np.arange(COUNT)).numpy() * 255
    np.testing.assert_allclose(levels, levels.round(), atol=1e-4)
    np.testing.assert_array_equal(rounded.attributes["success"], expected.success_8bit.numpy())


def test_a_stopped_attack_goes_on_with_the_chunks_it_has(
    network: farout.Network, images: farout.ImageSet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, begun = cell(network, images, ATTACKS.create("pgd", steps=2)), list[int]()

    def stopping(attack: Any, target: Any, batch: Any, labels: Any, order: range, *rest: Any) -> Any:
        begun.append(order.start)
        if len(begun) == 3:
            signal.raise_signal(signal.SIGINT)
        return run_attack(attack, target, batch, labels, order, *rest)

    monkeypatch.setattr(attacking, "run_attack", stopping)
    store = Store(tmp_path / "stopped").open()
    with pytest.raises(KeyboardInterrupt):
        engine.run([made], store)
    engine.run([made], store)
    assert begun == [0, 64, 128, 128]
    whole = Store(tmp_path / "whole").open()
    engine.run([made], whole)
    both = [AttackedImages(made).open(each).batch(np.arange(COUNT)) for each in (store, whole)]
    assert torch.equal(*both)


def test_any_number_of_workers_gives_the_same_images(tmp_path: Path) -> None:
    spec = NetworkSpec(name="lenet", weights=str(lenet_weights(tmp_path)))
    images = FirstImages(NamedImages(DataSpec(name="toy")), 130)
    made = AttackCell(
        ATTACKS.create("masked_pgd", steps=2, side=4), images, StoredNetwork(spec, "lenet", 4, 32, 3), None, 0
    )
    found = []
    for workers in (0, 2):
        store = Store(tmp_path / str(workers)).open()
        assert not engine.run([made], store, workers=workers).failed
        found.append(AttackedImages(made).open(store).batch(np.arange(130)))
    torch.testing.assert_close(*found, rtol=0, atol=1e-6)


def test_predictions_and_attention_are_those_of_single_passes(
    network: farout.Network, images: farout.ImageSet, tmp_path: Path
) -> None:
    made = cell(network, images, ATTACKS.create("fgsm", epsilon=0.1))
    attacked, source = AttackedImages(made), LiveNetwork(network, network.digest, "lenet")
    predicted, attention = PredictCell(source, attacked), AttentionCell(attacked)
    store = Store(tmp_path).open()
    engine.run([predicted, attention], store)
    now = attacked.open(store).batch(np.arange(COUNT))
    with torch.no_grad():
        expected = network(now).logits.argmax(1)
    np.testing.assert_array_equal(store.column(predicted.id, "prediction"), expected.numpy())
    moved = farout.attention.attention_shift(network, images.batch(np.arange(COUNT)), now)
    np.testing.assert_allclose(store.column(attention.id, "l2"), moved.l2.numpy(), atol=1e-6)
    np.testing.assert_allclose(store.column(attention.id, "ssim"), moved.ssim.numpy(), atol=1e-5)


def test_a_set_on_disk_says_which_of_its_own_images_succeed(
    network: farout.Network, images: farout.ImageSet, tmp_path: Path
) -> None:
    made = cell(network, images, ATTACKS.create("deepfool"))
    facts = write(made, tmp_path)
    loaded = farout.load(str(tmp_path / "deepfool.npz"))
    with torch.no_grad():
        wrong = network(loaded.batch(np.arange(COUNT))).logits.argmax(1).numpy() != loaded.labels
    np.testing.assert_array_equal(loaded.attributes["success"], wrong)
    assert facts["success"] == wrong.sum() < facts["wrong_before_rounding"]
    assert {path.name for path in tmp_path.iterdir()} == {"deepfool.npz", "deepfool.json"}
    assert write(made, tmp_path) == facts
    with pytest.raises(ValueError, match="holds another set"):
        write(cell(network, images, ATTACKS.create("deepfool"), seed=4), tmp_path)


def test_a_set_whose_writing_was_stopped_is_finished_by_the_next_call(
    network: farout.Network, images: farout.ImageSet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, begun = cell(network, images, ATTACKS.create("fgsm")), list[int]()

    def stopped(*_: Any) -> None:
        signal.raise_signal(signal.SIGINT)

    def counting(attack: Any, target: Any, batch: Any, labels: Any, order: range, *rest: Any) -> Any:
        begun.append(order.start)
        return run_attack(attack, target, batch, labels, order, *rest)

    monkeypatch.setattr(attacking, "run_attack", counting)
    for step in ("write_json", "_write"):
        with monkeypatch.context() as patched:
            patched.setattr(attack_sets, step, stopped)
            with pytest.raises(KeyboardInterrupt):
                write(made, tmp_path)
        assert not (tmp_path / "fgsm.npz").exists()
    other = cell(network, images, ATTACKS.create("pgd", steps=1))
    write(other, tmp_path)
    facts = write(made, tmp_path)
    assert begun == [0, 64, 128, 0, 64, 128], "only pgd was attacked again"
    loaded = farout.load(str(tmp_path / "fgsm.npz"))
    assert facts["success"] == np.sum(loaded.attributes["success"])
    assert {path.name for path in tmp_path.iterdir()} == {"fgsm.npz", "fgsm.json", "pgd.npz", "pgd.json"}


def test_networks_that_do_not_suit_are_refused_before_the_work(network: farout.Network) -> None:
    pixels = np.zeros((3, 16, 16, 3), np.uint8)
    three, labeled = farout.networks.create("lenet", 3, 16), farout.ImageSet.from_arrays(pixels, np.array([0, 1, 4]))

    def reason(network: farout.Network, images: farout.ImageSet, attack: str) -> str | None:
        return cell(network, images, ATTACKS.create(attack)).unsuited()

    assert "run from 0 to 4, and lenet has 4 classes" in str(reason(network, labeled, "fgsm"))
    assert "have no labels" in str(reason(network, farout.ImageSet.from_arrays(pixels), "fgsm"))
    suiting = farout.ImageSet.from_arrays(pixels, np.array([0, 1, 2]))
    assert reason(three, suiting, "apgd_ce") is None
    few = "apgd_t needs a network with at least 4 classes, got one with 3 (arrays on lenet)"
    assert reason(three, suiting, "apgd_t") == few
    wide = farout.ImageSet.from_arrays(np.zeros((3, 6, 16, 3), np.uint8), np.array([0, 1, 2]))
    assert "a side of 8 px, larger than the images' 6×16 px (arrays on lenet)" in str(
        reason(network, wide, "masked_pgd")
    )


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (None, "true labels"),
        ([0, 1], "expected 3 labels"),
        ([0, 1, 9], "labels run from 0 to 9"),
        ([0.0, 1, 2], "float"),
    ],
)
def test_wrong_labels(network: farout.Network, labels: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        farout.attack("fgsm", network, torch.rand(3, 3, 16, 16), labels)


def test_a_detector_that_reads_images_is_attacked_without_a_network() -> None:
    class Brightness(farout.Detector):
        name = "brightness"

        def score(self, images: torch.Tensor) -> torch.Tensor:
            return images.mean((1, 2, 3))

    images = torch.rand(3, 3, 16, 16)
    found = farout.attack("score_pgd", None, images, detector=Brightness(), epsilon=0.1)
    torch.testing.assert_close(found.images, (images - 0.1).clamp(0, 1), rtol=0, atol=1e-6)
    with pytest.raises(ValueError, match="needs the network"):
        farout.attack("adaptive_pgd", None, images, [0, 1, 2], detector=Brightness())


def test_wrong_calls(network: farout.Network) -> None:
    images = torch.rand(3, 3, 16, 16)
    with pytest.raises(TypeError, match="Network, got Conv2d"):
        farout.attack("fgsm", torch.nn.Conv2d(3, 4, 3), images, [0, 1, 2])  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="got settings steps together with an attack object"):
        farout.attack(ATTACKS.create("pgd"), network, images, [0, 1, 2], steps=1)
    with pytest.raises(ValueError, match="attacks a detector, got none"):
        farout.attack("score_pgd", network, images)


def test_what_an_attack_returns_is_clipped_and_judged(network: farout.Network) -> None:
    """The caller does not believe an attack: pixels beyond [0, 1] are cut, NaN is an error."""

    @dataclass(kw_only=True)
    class Wild(Attack):
        value: float = 7.0

        def run(self, target: Any, images: torch.Tensor, labels: torch.Tensor, rngs: Any) -> torch.Tensor:
            return torch.full_like(images, torch.nan if self.value is None else self.value)

    given = torch.rand(4, 3, 16, 16)
    with torch.no_grad():
        label = network(torch.ones(1, 3, 16, 16)).logits.argmax(1)
    found = farout.attack(Wild(), network, given, label.expand(4))
    assert (found.images == 1).all()
    assert found.asr == 0
    torch.testing.assert_close(found.linf, (1 - given).flatten(1).amax(1))
    torch.testing.assert_close(found.l2, (1 - given).flatten(1).norm(dim=1))
    with pytest.raises(ValueError, match="NaN or infinite"):
        farout.attack(Wild(value=None), network, given, label.expand(4))


@pytest.mark.parametrize("blind", [False, True])
def test_it_is_told_where_gradients_are_estimated(network: farout.Network, blind: bool) -> None:
    def mean(images: torch.Tensor) -> Any:
        scores = images.double().mean((1, 2, 3))
        return scores.detach().numpy() if blind else scores

    given = torch.full((2, 3, 16, 16), 0.5)
    found = farout.attack("score_pgd", network, given, detector=farout.adapters.Function(mean), steps=3, queries=4)
    assert found.estimated.tolist() == [blind, blind]
    assert found.success.all()


@pytest.mark.parametrize("name", ["pgd", "deepfool"])
def test_passes_add_up_however_many_there_were(
    network: farout.Network, images: farout.ImageSet, tmp_path: Path, name: str
) -> None:
    made = cell(network, images, ATTACKS.create(name, steps=5))

    listener = Counting()
    engine.run([made], Store(tmp_path).open(), progress=listener)
    assert listener.swept == listener.announced == COUNT * made.passes
    assert len(listener.steps) > 3


def test_a_default_spelled_out_gives_the_same_images(network: farout.Network, images: farout.ImageSet) -> None:
    first, second = (
        farout.attack("pgd", network, images.limit(5), steps=2, **given) for given in ({}, {"epsilon": 8 / 255})
    )
    assert torch.equal(first.images, second.images)


def test_wrong_detectors(network: farout.Network, images: farout.ImageSet) -> None:
    with pytest.raises(ValueError, match="got str"):
        farout.attack("adaptive_pgd", network, images, detector="knn")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="the classifier alone"):
        farout.attack("pgd", network, images, detector=farout.detectors.MSP())


def test_images_by_name(network: farout.Network) -> None:
    with pytest.raises(ValueError, match="unknown data set 'toi'"):
        farout.attack("fgsm", network, "toi")
