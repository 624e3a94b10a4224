"""A study made ready: what it holds, and what is said before any work where it cannot be run."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import farout
from farout.detectors import KNN, MSP
from farout.networks import timm_bridge
from farout.protocols import check, plan
from farout.registry import UnknownName
from farout.study.cells.fit import FitCell
from farout.study.cells.train import TrainCell, TrainedNetwork
from farout.study.sources import opening as sources
from farout.study.sources.networks import StoredNetwork
from farout.study.spec import ProtocolSpec, StudySpec
from farout.study.study import Study, from_spec
from farout.study.subjects.images import ImageSubject
from farout.study.subjects.posthoc import PostHocSubject
from helpers.written_runs import lenet_weights

needs_timm = pytest.mark.skipif(importlib.util.find_spec("timm") is None, reason='needs pip install "farout[timm]"')

SMALL = {
    "train": {"name": "toy", "split": "val", "limit": 100},
    "val": {"name": "toy", "split": "val", "limit": 20},
    "test": {"name": "toy", "limit": 30},
}


@pytest.fixture(scope="module")
def weights(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(lenet_weights(tmp_path_factory.mktemp("weights")))


@pytest.fixture
def ready(weights: str) -> Any:
    """`ready(**changes)`: a small study with these changes, made ready."""

    def make(**changes: Any) -> Study:
        least = {
            "name": "small",
            "inliers": SMALL,
            "outliers": [{"name": "noise", "limit": 20}],
            "networks": [{"name": "lenet", "weights": weights}],
            "detectors": ["msp"],
        }
        return from_spec(StudySpec.model_validate({**least, **changes}))

    return make


def subjects_of(study: Study) -> list[tuple[Any, int]]:
    """Every subject with its seed."""
    return [(subject, trial.seed) for trial in study.trials for subject in trial.subjects]


def test_what_a_study_holds(ready: Any, weights: str) -> None:
    study = ready(detectors=["msp", {"name": "knn", "k": 3}, {"name": "knn", "k": 4, "label": "near"}])
    inliers, outliers = study.trials[0].inliers, study.trials[0].outliers
    assert [len(source.preview()) for source in (inliers.train, inliers.val, inliers.test)] == [
        100, 20, 30,
    ]  # fmt: skip
    assert {label: len(source.preview()) for label, source in outliers.items()} == {"noise": 20}
    assert [(subject.label, subject.network, seed) for subject, seed in subjects_of(study)] == [
        ("msp", "lenet", 0), ("knn", "lenet", 0), ("near", "lenet", 0),
    ]  # fmt: skip
    assert [subject.fit.detector for subject, _ in subjects_of(study)] == [MSP(), KNN(k=3), KNN(k=4)]
    network = farout.networks.create("lenet", 4, 32, mean=0.5, std=0.5)
    farout.networks.load_weights(network, weights)
    assert {subject.fit.network.identity() for subject, _ in subjects_of(study)} == {network.digest}
    assert study.spec["outliers"][0]["limit"] == 20


def test_inliers_bring_their_own_outliers(ready: Any) -> None:
    study = ready(outliers=[])
    assert list(study.trials[0].outliers) == ["toy:ood_cls", "toy:ood_pair", "toy:ood_empty"]
    expected = farout.load("toy", "test/ood_pair").fingerprint
    assert study.trials[0].outliers["toy:ood_pair"].preview().fingerprint == expected


def test_labels_of_outlier_sets(ready: Any, tmp_path: Path) -> None:
    np.savez(tmp_path / "odd.npz", images=np.zeros((2, 8, 8), np.uint8))
    outliers = [str(tmp_path / "odd.npz"), "toy:test/ood_cls", {"name": "noise", "label": "static"}, "toy:train"]
    assert list(ready(outliers=outliers).trials[0].outliers) == ["odd", "toy:ood_cls", "static", "toy:train"]


def test_validation_images_are_cut_from_training_ones(ready: Any) -> None:
    study = ready(inliers={"train": SMALL["train"], "test": SMALL["test"]})
    train, val = study.trials[0].inliers.train.preview(), study.trials[0].inliers.val.preview()
    assert (len(train), len(val)) == (92, 8)  # two of each class of 25
    assert np.bincount(val.labels).tolist() == [2, 2, 2, 2]
    everything = farout.load("toy", "val", limit=100).batch(range(100)).flatten(1)
    again = np.concatenate([train.batch(range(92)).flatten(1).numpy(), val.batch(range(8)).flatten(1).numpy()])
    assert sorted(map(bytes, again)) == sorted(map(bytes, everything.numpy()))


@pytest.mark.parametrize(
    ("budget", "train_images", "epochs"), [("quick", 5000, 8), ("standard", 5010, 10), ("full", 5010, 100)]
)
def test_a_budget_scales_the_training(ready: Any, tmp_path: Path, budget: str, train_images: int, epochs: int) -> None:
    images, labels = np.zeros((5010, 16, 16), np.uint8), np.arange(5010) % 2
    np.savez(tmp_path / "many.npz", images=images, labels=labels)
    many = str(tmp_path / "many.npz")
    inliers = {"train": many, "val": {"name": many, "limit": 4}, "test": {"name": many, "limit": 5}}
    study = ready(inliers=inliers, networks=[{"name": "lenet", "train": {"epochs": 100}}], budget=budget)
    network = study.trials[0].subjects[0].fit.network
    assert isinstance(network, TrainedNetwork)
    assert (len(network.cell.train.preview()), network.cell.recipe.epochs) == (train_images, epochs)


def test_a_budget_never_adds_epochs(ready: Any) -> None:
    study = ready(networks=[{"name": "lenet", "train": {"epochs": 2}}], budget="full")
    assert study.trials[0].subjects[0].fit.network.cell.recipe.epochs == 2


def test_every_seed_trains_a_network(ready: Any) -> None:
    study = ready(networks=[{"name": "lenet", "train": {"epochs": 1}}], seeds=[3, 5], detectors=["msp", "mls"])
    assert [(s.label, seed, s.fit.network.cell.seed) for s, seed in subjects_of(study)] == [
        ("msp", 3, 3), ("mls", 3, 3), ("msp", 5, 5), ("mls", 5, 5),
    ]  # fmt: skip
    cells = {subject.fit.network.cell.id for subject, _ in subjects_of(study)}
    assert len(cells) == 2


def test_a_detector_that_reads_images_needs_no_network(ready: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    study = ready(networks=[], detectors=[register(monkeypatch, Brightness), {"name": "brightness", "label": "b"}])
    assert [(type(s), s.label, s.network, seed) for s, seed in subjects_of(study)] == [
        (ImageSubject, "brightness", "", 0), (ImageSubject, "b", "", 0),
    ]  # fmt: skip


class Brightness(farout.Detector):
    """How bright an image is."""

    name = "brightness"

    def __init__(self, sign: int = 1) -> None:
        self.sign = sign

    def score(self, images: Any) -> Any:
        return self.sign * images.mean((1, 2, 3))


def register(monkeypatch: pytest.MonkeyPatch, cls: Any) -> str:
    from farout.detectors.catalog import catalog

    monkeypatch.setitem(catalog._makers, cls.name, cls)
    return str(cls.name)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"detectors": ["mps"]}, "unknown detector 'mps'. Did you mean 'msp'?"),
        ({"detectors": [{"name": "knn", "kk": 3}]}, "unknown parameter of detector 'knn': 'kk'. Did you mean 'k'?"),
        ({"networks": [{"name": "lent", "train": {}}]}, "unknown network 'lent'. Did you mean 'lenet'?"),
        ({"outliers": ["nose"]}, "unknown data set 'nose'. Did you mean 'noise'?"),
        ({"inliers": "tyo"}, "unknown data set 'tyo'. Did you mean 'toy'?"),
        ({"outliers": ["toy:test/ood_clss"]}, "unknown split of 'toy': 'test/ood_clss'. Did you mean 'test/ood_cls'?"),
    ],
)
def test_an_unknown_name_is_answered_with_the_nearest(ready: Any, change: dict[str, Any], said: str) -> None:
    with pytest.raises(UnknownName) as caught:
        ready(**change)
    assert said in str(caught.value)


def test_an_unknown_network_with_weights(ready: Any, weights: str) -> None:
    with pytest.raises(UnknownName, match="Did you mean 'lenet'"):
        ready(networks=[{"name": "lennet", "weights": weights}])


def test_an_unknown_protocol_is_found_before_anything_is_written(ready: Any, tmp_path: Path) -> None:
    study = ready(protocols=["claen"])
    with pytest.raises(UnknownName, match=r"unknown protocol 'claen'\. Did you mean 'clean'"):
        plan(study)
    with pytest.raises(UnknownName, match="unknown protocol 'claen'"):
        farout.run(study, tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"networks": []}, "msp read a network's activations, and the study small has no networks:"),
        (
            {"networks": [], "detectors": ["mls", "ebo"]},
            "mls, ebo read a network's activations, and the study small has no networks:",
        ),
        ({"detectors": [{"name": "knn", "k": 101}]}, "knn: k=101 needs at least that many training images, got 100"),
        ({"detectors": [{"name": "knn", "k": 0}]}, "detector knn with {'k': 0}: k must be"),
        ({"detectors": [{"name": "ebo", "temperature": "hot"}]}, "detector ebo with {'temperature': 'hot'}: "),
        (
            {"detectors": ["knn"], "inliers": {"test": SMALL["test"]}},
            "knn must be fitted, and the inliers have no train split; give both splits: inliers: {train: …, test: …}",
        ),
        (
            {"networks": [{"name": "lenet", "train": {}}], "inliers": {"test": SMALL["test"]}},
            "is to be trained, but the inliers have no train split; give both splits: inliers: {train: …, test: …}",
        ),
        ({"outliers": ["noise", "noise"]}, "two outlier sets are called 'noise'; give each a label:"),
        ({"detectors": ["msp", {"name": "mls", "label": "msp"}]}, "two detectors on 'lenet' are called 'msp'"),
        ({"detectors": ["knn", "knn"]}, "has knn twice"),
        (
            {"networks": [{"name": "lenet", "train": {}}], "inliers": {"train": "noise:test", "test": SMALL["test"]}},
            "network 'lenet' is to be trained, and the images of noise have no labels",
        ),
        ({"inliers": "noise:test"}, "have no labels: give classes: 10"),
    ],
)  # fmt: skip
def test_what_cannot_be_run_is_said_at_once(ready: Any, change: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError) as caught:
        ready(**change)
    assert said in str(caught.value)


def test_labels_may_be_words_that_tables_use(ready: Any) -> None:
    labels = ["mean", "inliers", "network", "noise", "noise_low"]
    outliers = [{"name": "noise", "label": label, "limit": 5} for label in labels]
    assert list(ready(outliers=outliers).trials[0].outliers) == labels


def test_two_networks_of_one_name_need_labels(ready: Any, weights: str, tmp_path: Path) -> None:
    """Their results would be taken for one another's."""
    networks = [{"name": "lenet", "weights": w} for w in (weights, str(lenet_weights(tmp_path, seed=1)))]
    with pytest.raises(
        ValueError, match=r"two detectors on 'lenet' are called 'msp'; give each \(or its network\) a label"
    ):
        ready(networks=networks)
    study = ready(networks=[networks[0], {**networks[1], "label": "other"}])
    assert [subject.network for subject, _ in subjects_of(study)] == ["lenet", "other"]
    assert len({subject.fit.network.identity() for subject, _ in subjects_of(study)}) == 2


def test_two_image_detectors_of_one_name_need_labels(ready: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    name = register(monkeypatch, Brightness)
    with pytest.raises(ValueError, match="two detectors are called 'brightness'"):
        ready(networks=[], detectors=[name, {"name": name, "sign": -1}])


def test_no_outliers(ready: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    np.savez(tmp_path / "plain.npz", images=np.zeros((4, 32, 32, 3), np.uint8), labels=np.arange(4))
    plain = str(tmp_path / "plain.npz")
    study = ready(inliers={"test": plain}, networks=[], detectors=[register(monkeypatch, Brightness)], outliers=[])
    for name in ("clean", "evg", "rood"):
        study.protocols[:] = [ProtocolSpec(name=name)]
        with pytest.raises(ValueError, match=f"protocol {name}: it needs outliers"):
            check(study)


def test_mds_without_labels(ready: Any, tmp_path: Path) -> None:
    np.savez(tmp_path / "plain.npz", images=np.zeros((20, 32, 32, 3), np.uint8))
    plain = str(tmp_path / "plain.npz")
    inliers = {"train": plain, "test": plain}
    network = ready().spec["networks"][0] | {"classes": 4}
    with pytest.raises(ValueError, match="mds needs the class of every training image"):
        ready(inliers=inliers, detectors=["mds"], networks=[network])


def test_missing_weights(ready: Any, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"no weights at .*gone\.pt; expected a \.safetensors"):
        ready(networks=[{"name": "lenet", "weights": str(tmp_path / "gone.pt")}])


def test_weights_of_another_shape(ready: Any, tmp_path: Path) -> None:
    path = lenet_weights(tmp_path, classes=7)
    with pytest.raises(ValueError, match=r"lenet\.safetensors has other shapes than the network"):
        ready(networks=[{"name": "lenet", "weights": str(path)}])


def test_weights_of_more_classes_than_the_inliers_have(ready: Any, tmp_path: Path) -> None:
    path = lenet_weights(tmp_path, classes=7)
    (subject,) = ready(networks=[{"name": "lenet", "weights": str(path), "classes": 7}]).trials[0].subjects
    assert isinstance(subject, PostHocSubject)
    assert isinstance(subject.fit, FitCell)
    assert isinstance(subject.fit.network, StoredNetwork)
    assert subject.fit.network.classes == 7


def test_a_normalizer_of_two_channels(ready: Any) -> None:
    with pytest.raises(ValueError, match="mean must be one finite number per channel"):
        ready(networks=[{"name": "lenet", "train": {"epochs": 1}, "mean": [0.5, 0.5]}])


def test_an_unreadable_image(ready: Any, tmp_path: Path) -> None:
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "a.png").write_bytes(b"no picture")
    with pytest.raises(ValueError, match=r"a\.png"):
        ready(outliers=[str(tmp_path / "broken")])


def test_making_ready_trains_nothing(ready: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: Any, **kwargs: Any) -> None:
        raise AssertionError("trained")

    monkeypatch.setattr("farout.study.cells.train.fit", refuse)
    study = ready(networks=[{"name": "lenet", "train": {"epochs": 1}}])
    cells = [cell for entry in plan(study) for need in entry.cell.requires for cell in need.requires]
    assert {type(cell) for cell in cells} == {TrainCell}


TRAINED = [{"name": "lenet", "label": f"net {i}", "train": {"epochs": 1}} for i in range(3)]


@pytest.mark.parametrize(
    ("budget", "networks", "seeds", "cuts"),
    [
        ("quick", 1, [4], ["2 of 3 networks to be trained: net 1, net 2", "3 of 4 seeds"]),
        ("standard", 2, [4, 5, 6], ["1 of 3 networks to be trained: net 2", "1 of 4 seeds"]),
        ("full", 3, [4, 5, 6, 7], []),
    ],
)
def test_a_budget_leaves_out_networks_and_seeds_and_says_so(
    ready: Any, weights: str, budget: str, networks: int, seeds: list[int], cuts: list[str]
) -> None:
    stored = {"name": "lenet", "label": "stored", "weights": weights}
    study = ready(networks=[*TRAINED, stored], seeds=[4, 5, 6, 7], budget=budget)
    assert [trial.seed for trial in study.trials] == seeds
    assert study.cuts == cuts
    labels = [f"net {i}" for i in range(networks)]
    assert [s.network for s in study.trials[0].subjects] == [*labels, "stored"]  # what is there costs no training
    assert all([s.network for s in trial.subjects] == labels for trial in study.trials[1:])


def test_every_seed_draws_its_own_images(ready: Any) -> None:
    splits = {split: {"name": "shapes", "split": split, "limit": 40} for split in ("train", "val", "test")}
    changes = {"inliers": splits, "outliers": ["shapes:test/ood_hue", "noise"], "networks": TRAINED[:1]}
    study = ready(**changes, seeds=[1, 2], budget="full")
    for split in ("train", "val", "test"):
        drawn = [getattr(trial.inliers, split).preview().fingerprint for trial in study.trials]
        expected = [farout.load("shapes", split, seed=seed, limit=40).fingerprint for seed in (1, 2)]
        assert drawn == expected
    odd = [trial.outliers["shapes:ood_hue"].preview().fingerprint for trial in study.trials]
    assert odd == [farout.load("shapes", "test/ood_hue", seed=seed).fingerprint for seed in (1, 2)]
    noise = {trial.outliers["noise"].preview().fingerprint for trial in study.trials}
    assert len(noise) == 1  # not drawn from a seed of the study's


def test_a_seed_that_the_study_fixes_stays(ready: Any) -> None:
    splits = {s: {"name": "shapes", "split": s, "limit": 40, "options": {"seed": 9}} for s in ("train", "val", "test")}
    study = ready(inliers=splits, outliers=["noise"], networks=TRAINED[:1], seeds=[1, 2], budget="full")
    prints = {trial.inliers.test.preview().fingerprint for trial in study.trials}
    assert prints == {farout.load("shapes", seed=9, limit=40).fingerprint}


def test_a_detector_that_cannot_read_a_network_is_left_out_and_named(ready: Any) -> None:
    """scale takes features that are not negative; a transformer's are."""
    networks = [*TRAINED[:1], {"name": "vit_tiny", "train": {"epochs": 1}}]
    study = ready(networks=networks, detectors=["msp", "scale"], seeds=[1, 2], budget="full")
    found = [(s.network, s.label, seed) for s, seed in subjects_of(study)]
    pairs = [("net 0", "msp"), ("net 0", "scale"), ("vit_tiny", "msp")]
    assert found == [(*pair, seed) for seed in (1, 2) for pair in pairs]
    (cut,) = study.cuts
    assert cut.startswith("scale on vit_tiny: scale takes features that are not negative")


@pytest.mark.parametrize(
    ("detector", "said"),
    [
        ("scale", "scale takes features that are not negative"),
        ({"name": "vim", "dim": 300}, "vim"),
        ({"name": "ash", "percentile": 99.9}, "ash: percentile=99.9 keeps none of 192 features"),
    ],
)
def test_a_detector_that_no_network_suits_is_an_error_before_training(ready: Any, detector: Any, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        ready(networks=[{"name": "vit_tiny", "train": {"epochs": 1}}], detectors=["msp", detector])


def test_equal_networks_are_not_taken_for_one_another(ready: Any) -> None:
    network = {"name": "lenet", "train": {"epochs": 1}}
    study = ready(networks=[network, network], budget="quick")
    assert [subject.network for subject, _ in subjects_of(study)] == ["lenet"]


def test_other_images_test_stored_networks_and_image_detectors_again(
    ready: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored = {"name": "lenet", "weights": str(lenet_weights(tmp_path, classes=8))}
    splits = {split: {"name": "shapes", "split": split, "limit": 40} for split in ("train", "val", "test")}
    detectors = ["msp", register(monkeypatch, Brightness)]
    study = ready(
        inliers=splits, outliers=["noise"], networks=[stored], detectors=detectors, seeds=[1, 2], budget="full"
    )
    assert [seed for _, seed in subjects_of(study)] == [1, 1, 2, 2]
    toy = ready(detectors=detectors, seeds=[1, 2], budget="full")
    assert [seed for _, seed in subjects_of(toy)] == [1, 1]


def test_epochs_that_a_budget_leaves_out_are_named(ready: Any) -> None:
    study = ready(networks=[{"name": "lenet", "train": {"epochs": 30}}], budget="standard")
    assert study.cuts == ["20 of 30 epochs of training"]


class Tower(nn.Module):
    """Features [B, 4] of images."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 4, 8, 8)

    def forward(self, images: Tensor) -> Tensor:
        features: Tensor = self.stem(images).mean((2, 3))
        return features


def test_a_network_may_have_no_classes(
    ready: Any, weights: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of one that gives features alone no accuracy can be told, and detectors of features score."""
    asked: list[int] = []

    def made(_name: str, classes: int, *_args: Any, **_options: Any) -> farout.Network:
        asked.append(classes)
        return farout.Network(Tower(), mean=0.5, std=0.5, head=False, side=32)

    monkeypatch.setattr(sources, "create", made)
    monkeypatch.setattr(sources, "load_weights", lambda *_args: None)
    study = ready(networks=[{"name": "resnet18", "weights": weights, "classes": 0}], detectors=["dn2"])
    assert set(asked) == {0}
    farout.run(StudySpec.model_validate(study.spec), tmp_path)
    results = farout.study.results.Results(tmp_path)
    assert (len(results.done("clean")), results.failures()) == (2, {})


def test_only_networks_of_timms_may_have_no_classes(ready: Any, weights: str) -> None:
    with pytest.raises(ValueError, match=r"at least 2 classes \(or 0, of timm's networks\), got classes=0 for lenet"):
        ready(networks=[{"name": "lenet", "weights": weights, "classes": 0}])


@needs_timm
@pytest.mark.parametrize(("name", "side"), [("resnet18", 96), ("resnet18", None), ("timm:resnet18", 32)])
def test_a_local_file_of_timms_weights_is_read_for_its_features(
    ready: Any, tmp_path: Path, name: str, side: int | None
) -> None:
    """Return the network of `pretrained: true`: no classifier of other classes, the normalizer of its weights."""
    theirs = timm_bridge.load_timm("timm").create_model("resnet18").eval()
    farout.networks.save_weights(theirs, tmp_path / "weights.safetensors")
    item = {"name": name, "weights": str(tmp_path / "weights.safetensors"), "side": side, "classes": 0}
    study = ready(networks=[item], detectors=["dn2"])
    network = study.trials[0].subjects[0].fit.network.preview()
    images = farout.load("toy", limit=3).batch(range(3))
    large = F.interpolate(images, (side or 32, side or 32), mode="bilinear", antialias=True) if side == 96 else images
    mean, std = (torch.tensor(theirs.pretrained_cfg[key]).view(3, 1, 1) for key in ("mean", "std"))
    with torch.inference_mode():
        expected = theirs.forward_head(theirs.forward_features((large - mean) / std), pre_logits=True)
        torch.testing.assert_close(network(images).features, expected, rtol=1e-4, atol=1e-5)
    farout.run(StudySpec.model_validate(study.spec), tmp_path / "run")
    results = farout.study.results.Results(tmp_path / "run")
    assert (len(results.done("clean")), results.failures()) == (2, {})


@needs_timm
def test_the_file_of_another_number_of_classes_says_what_to_write(ready: Any, tmp_path: Path) -> None:
    theirs = timm_bridge.load_timm("timm").create_model("resnet18")
    farout.networks.save_weights(theirs, tmp_path / "weights.safetensors")
    item = {"name": "resnet18", "weights": str(tmp_path / "weights.safetensors"), "side": 96}
    with pytest.raises(ValueError, match=r"fc\.bias \[1000\] \(expected \[4\]\).* in a study classes: 0"):
        ready(networks=[item], detectors=["dn2"])
    network = ready(networks=[{**item, "classes": 1000}]).trials[0].subjects[0].fit.network.preview()
    assert tuple(network.mean.flatten().tolist()) == pytest.approx(theirs.pretrained_cfg["mean"])
