"""OE, CEDA and ACET on any network, from trained weights."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import farout
from farout.detectors.trained.acet import ACET
from farout.detectors.trained.ceda import CEDA
from farout.detectors.trained.good import GOOD
from farout.detectors.trained.oe import OE
from farout.networks.weights import save_weights
from helpers.easy_sets import bright, halves

FROZEN = {"steps": 1, "batch": 8, "lr": 1e-12, "weight_decay": 0.0, "augment": "none"}
BRIEF = {"steps": 3, "batch": 8, "augment": "none"}
LENET = {"name": "lenet", "mean": 0.25, "std": 0.5}


def fitted(detector: OE | CEDA, seed: int = 0, outliers: int = 0) -> OE | CEDA:
    return detector.fit(halves(16), val=halves(8), auxiliary_outliers=bright(16, seed=outliers), seed=seed)


def start(path: Path, classes: int, seed: int = 5) -> farout.Network:
    """Write weights of a network; return it."""
    network = farout.networks.create("lenet", classes, halves(1).shape[1], 1, seed=seed)
    save_weights(network, path)
    return network


@pytest.mark.parametrize("kind", [OE, CEDA, ACET])
def test_training_starts_from_the_file(kind: type[OE], tmp_path: Path) -> None:
    given = start(tmp_path / "start.safetensors", 2).state_dict()
    detector = fitted(kind(architecture=LENET, start=tmp_path / "start.safetensors", training=FROZEN))
    own = detector.network.state_dict()
    assert own.keys() == given.keys()
    for key in own:
        torch.testing.assert_close(own[key], given[key], msg=key)
    gray = torch.full((1, 1, 28, 28), 0.75)
    torch.testing.assert_close(detector.network.normalize(gray), torch.ones_like(gray))


def test_the_head_is_new_if_the_classes_differ(tmp_path: Path) -> None:
    given = start(tmp_path / "start.safetensors", 7).state_dict()
    detector = fitted(OE(architecture="lenet", start=tmp_path / "start.safetensors", training=FROZEN))
    own = detector.network.state_dict()
    other = [key for key in own if own[key].shape != given[key].shape]
    assert {key.rpartition(".")[0] for key in other} == {detector.network.head_name}
    assert all(torch.allclose(own[key], given[key]) for key in own if key not in other)


def test_a_saved_detector_does_without_the_file_it_started_from(tmp_path: Path) -> None:
    file, out = tmp_path / "start.safetensors", tmp_path / "oe.safetensors"
    start(file, 2)
    detector = fitted(OE(architecture=LENET, start=file, training=BRIEF))
    detector.save(out)
    file.unlink()
    images = bright(4, seed=3).batch(range(4))
    loaded = farout.detectors.load(out)
    assert torch.equal(loaded.score(images), detector.score(images))
    assert loaded.architecture == LENET


def test_the_start_and_the_architecture_are_part_of_the_identity(tmp_path: Path) -> None:
    for name, seed in (("a", 5), ("b", 5), ("c", 6)):
        start(tmp_path / f"{name}.safetensors", 2, seed)
    a, b, c = (CEDA(architecture="lenet", start=tmp_path / f"{name}.safetensors").identity() for name in "abc")
    assert a == b != c
    assert a != CEDA(architecture="lenet").identity() != CEDA().identity()
    assert "architecture" not in CEDA().identity()["params"]  # results stored before keep their identity


def test_the_weights_of_another_network_depend_on_the_seed() -> None:
    first, again, other = (fitted(OE(architecture="lenet", training=FROZEN), seed) for seed in (1, 1, 2))
    assert first.digest == again.digest
    weight = next(key for key in first.network.state_dict() if key.endswith("weight"))
    assert not torch.allclose(first.network.state_dict()[weight], other.network.state_dict()[weight])


def test_without_weight_outliers_do_not_matter() -> None:
    plain, other = (fitted(CEDA(weight=0.0, training=BRIEF), outliers=seed) for seed in (0, 1))
    assert plain.digest == other.digest
    plain, other = (fitted(CEDA(weight=0.5, training=BRIEF), outliers=seed) for seed in (0, 1))
    assert plain.digest != other.digest


def test_kappa_rises_to_the_weight() -> None:
    detector = CEDA(weight=0.5, training={"steps": 10, "batch": 8, "augment": "none"})
    fitted(detector)
    task = detector.exposed(detector._sets(halves(16), halves(8), bright(16)))
    kappa = task.scalars["kappa"]
    positions = [farout.training.Position("", 0, step, 10, 10) for step in (0, 2, 4, 9)]
    assert [kappa(at) for at in positions] == pytest.approx([0, 0.25, 0.5, 0.5])  # over the first 40 %


def test_clear_errors(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"unknown network 'lenett'. Did you mean 'lenet'\?"):
        OE(architecture="lenett")
    with pytest.raises(ValueError, match=r"unknown parameter of network"):
        OE(architecture={"name": "lenet", "widht": 8})
    with pytest.raises(ValueError, match="oe: architecture: expected a name, or a mapping with a name and settings"):
        OE(architecture={"width": 8})
    with pytest.raises(ValueError, match="good: bounds are computed for its own network alone"):
        GOOD(architecture="lenet")
    with pytest.raises(FileNotFoundError, match=r"oe: no weights to start from at .*absent"):
        fitted(OE(architecture="lenet", start=tmp_path / "absent.safetensors"))
    start(tmp_path / "lenet.safetensors", 2)
    with pytest.raises(ValueError, match=r"lenet.safetensors lacks .* unexpected names in it"):
        fitted(OE(architecture="resnet20", start=tmp_path / "lenet.safetensors"))
