"""The studies that come with us: they plan what the papers did, on stand-ins for images and networks to be fetched."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from torch import Tensor, nn

from farout.core import ImageSet
from farout.data import download
from farout.data.catalog import DATASETS
from farout.data.splits import official_split, select_split
from farout.generators.mi_interval import PUBLISHED
from farout.networks import Network
from farout.networks.timm_bridge import PREFIX, load_timm
from farout.protocols import plan
from farout.study.cells import train as training
from farout.study.sources import opening as sources
from farout.study.spec import NetworkSpec, StudySpec
from farout.study.study import from_spec
from farout.training.presets import PRESETS

STUDIES = sorted((Path(__file__).parents[2] / "studies").glob("*.yaml"))
FETCHED = [path for path in STUDIES if not path.stem.startswith("shapes_chars")]
SIDES = {"mnist": 28, "fashion_mnist": 28, "imagenet": 224, "imagenet_o": 224, "imagenet_v2": 224, "mvtec": 224}
FEWER = ("imagenet_a", "imagenet_r")
"""Sets that have some of ImageNet's classes."""
PRETRAINED = sorted({n.name for path in STUDIES for n in StudySpec.read(path).networks if n.pretrained})


def spec(name: str) -> StudySpec:
    return StudySpec.read(next(path for path in STUDIES if path.stem == name))


def few(name: str) -> Any:
    """A stand-in for a set that would be fetched: a few images of each of ten classes, of the first five in `FEWER`."""

    def make(split: str = "test", **options: Any) -> ImageSet:
        count, side = (400 if official_split(split, name) == "train" else 20), options.get("side", SIDES.get(name, 32))
        pixels = np.broadcast_to(np.arange(count).astype(np.uint8)[:, None, None, None], (count, side, side, 3))
        images = ImageSet.from_arrays(pixels, np.arange(count) % (5 if name in FEWER else 10), name=name)
        return select_split(images, split)

    return make


class Small(nn.Module):
    """Stages by the names that a ResNet of timm's has, and a classifier that reads 2,048 features."""

    block_names = ("act1", "layer1", "layer2", "layer3", "layer4")

    def __init__(self, classes: int) -> None:
        super().__init__()
        for name in self.block_names:
            self.add_module(name, nn.Sequential(nn.AdaptiveAvgPool2d(4), nn.Conv2d(3, 3, 1), nn.ReLU()))
        self.wide, self.fc = nn.Linear(3, 2048), nn.Linear(2048, classes or 1)

    def forward(self, x: Tensor) -> Tensor:
        for name in self.block_names:
            x = self.get_submodule(name)(x)
        answer: Tensor = self.fc(self.wide(x.mean((2, 3))).relu())
        return answer


@pytest.fixture
def stand_ins(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is fetched."""

    def create(name: str, classes: int, side: int, channels: int = 3, **options: Any) -> Network:
        return Network(Small(classes), mean=0.5, std=0.5, head="fc")

    for name in DATASETS:
        if name not in ("toy", "noise", "shapes", "chars"):
            monkeypatch.setitem(DATASETS._makers, name, few(name))
    for module in (sources, training):
        monkeypatch.setattr(module, "create", create)


@pytest.mark.usefixtures("stand_ins")
@pytest.mark.parametrize("path", FETCHED, ids=lambda path: path.stem)
def test_every_study_can_be_planned_once_its_images_are_there(path: Path) -> None:
    study = from_spec(StudySpec.read(path))
    entries = plan(study)
    assert {entry.protocol for entry in entries} == {protocol.name for protocol in study.protocols}
    assert not study.cuts


@pytest.mark.parametrize("path", FETCHED, ids=lambda path: path.stem)
def test_a_study_without_its_images_says_which_are_missing(
    path: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def refuse(*_: Any) -> Path:
        raise OSError("no network")

    monkeypatch.setenv("FAROUT_DATA", str(tmp_path))
    monkeypatch.setattr(download, "_retrieve", refuse)
    name = StudySpec.read(path).inliers.test.name
    said = r"expected root=, .* got .*studies/imagenet" if name == "imagenet" else f"cannot download {name}/"
    with pytest.raises(OSError, match=said):
        from_spec(StudySpec.read(path))


ADVERSARIAL = {
    "": ("cifar10", ["resnet18"]),
    "_cifar100": ("cifar100", ["resnet18"]),
    "_imagenet200": ("imagenet", ["resnet18"]),
    "_imagenet": ("imagenet", ["resnet50", "swin_t"]),
}
ATTACKS = {"pgd", "fgsm", "deepfool", "masked_pgd"}


def attacked(study: StudySpec) -> dict[str, Any]:
    return next(protocol.params for protocol in study.protocols if protocol.name == "evasion")


def labels(networks: Sequence[NetworkSpec]) -> list[str]:
    return [network.label or network.name for network in networks]


@pytest.mark.usefixtures("stand_ins")
def test_table_3_and_figure_1_of_advopenood_have_their_five_rows() -> None:
    for end, (data, networks) in ADVERSARIAL.items():
        study = spec(f"adv_openood_table3{end}")
        assert (study.inliers.test.name, labels(study.networks)) == (data, networks)
        assert set(attacked(study)["attacks"]) >= ATTACKS
        assert "images" not in attacked(study)  # all of them: 10,000, and of ImageNet-1K 50,000
        measured = [entry for entry in plan(from_spec(study)) if entry.tags["role"] == "attention"]
        seen = {(entry.tags["network"], entry.tags["attack"]) for entry in measured}
        assert seen >= {(network, attack) for network in networks for attack in ATTACKS}
        assert {entry.cell.images.about.total for entry in measured} == {20}


def test_table_4_of_advopenood_has_the_detectors_of_both_openoods_beside_ours() -> None:
    paper = {"scale", "nnguide", "gen", "ash", "dice", "knn", "vim", "klm", "mls", "react", "rmds", "gram", "ebo"}
    paper |= {"odin", "mds", "msp"}
    for end, (data, networks) in ADVERSARIAL.items():
        study = spec(f"adv_openood_table4{end}")
        assert study.inliers.test.name == data
        assert labels(study.networks)[: len(networks)] == networks
        assert study.inliers.train is not None  # what is fitted on training images can be
        variants = {(d.name, d.params.get("variant", "paper")) for d in study.detectors}
        differ = {("ash", "openood"), ("nnguide", "openood"), ("odin", "openood"), ("gram", "openood-1.5")}
        assert variants >= {(name, "paper") for name in paper} | differ | {("gram", "openood")}
        assert (("vim", "openood") in variants) == (end == "_imagenet")  # elsewhere it is the same
        assert all("OpenOOD" in str(d.label) for d in study.detectors if d.params.get("variant"))


def test_faces_are_those_of_the_paper() -> None:
    for name in ("evg_table2", "evg_fig3", "evg_fig4", "evg_fig5"):
        faces = [data.options for data in spec(name).outliers if data.name == "celeba"]
        assert faces == [{"crop": 140, "side": 32}]


WEAK = {"glow", "pixelcnn", "ae"}
STRONG = {"nae", "good", "acet", "ceda", "ssd", "MD", "sngp", "atom", "oe", "rowl", "csi"}


@pytest.mark.usefixtures("stand_ins")
@pytest.mark.parametrize(
    ("name", "detectors"),
    [("evg_table2", WEAK | STRONG), ("evg_fig3", WEAK), ("evg_fig4", STRONG), ("evg_fig5", STRONG)],
)
def test_the_detectors_of_evg_are_searched_against_at_the_papers_settings(name: str, detectors: set[str]) -> None:
    labels = {entry.tags["detector"] for entry in plan(from_spec(spec(name))) if entry.tags.get("variation") == "GAN"}
    posthoc = {"msp", "ebo", "knn", "vim"} if name == "evg_fig5" else set()
    assert labels - {""} - posthoc == {label if label == "MD" else f"{label} (full)" for label in detectors}
    (md,) = [d for d in spec(name).detectors if d.label == "MD"] or [None]
    assert (md is not None) == ("MD" in detectors)
    if md is not None:
        assert (md.name, md.params) == ("mds_layers", {"epsilon": 0})
        learned = spec(name).validation_outliers
        assert learned is not None
        assert (learned.name, learned.limit) == ("svhn", 1000)


@pytest.mark.usefixtures("stand_ins")
def test_table_1_of_rood_trains_csi_on_every_class() -> None:
    entries = [e for e in plan(from_spec(spec("rood_table1"))) if e.tags["detector"].startswith("csi")]
    assert {entry.tags["label"] for entry in entries} == {str(label) for label in range(10)}
    assert {entry.tags["setup"] for entry in entries} == {"", "A", "C"}
    assert len({entry.cell.subject.fit.id for entry in entries}) == 10


def test_pretrained_weights_are_named_to_the_tag() -> None:
    assert all(name.startswith(PREFIX) and "." in name for name in PRETRAINED)
    assert {"timm:resnet50.tv_in1k", "timm:resnet152.tv_in1k"} <= set(PRETRAINED)


@pytest.mark.skipif(find_spec("timm") is None, reason='needs pip install "farout[timm]"')
@pytest.mark.parametrize("name", PRETRAINED)
def test_timm_has_the_weights(name: str) -> None:
    assert name.removeprefix(PREFIX) in load_timm(name).list_pretrained()


BAR_NETWORKS = {
    "mnist": ["lenet", "alexnet", "vgg11", "resnet18"],
    "cifar10": ["densenet121", "resnet50", "resnet110", "vgg16", "wrn28_10", "inception_v3"],
    "cifar100": ["densenet121", "resnet50", "resnet110", "vgg16", "wrn28_10", "inception_v3"],
}


@pytest.mark.usefixtures("stand_ins")
@pytest.mark.parametrize("data", BAR_NETWORKS)
def test_the_raised_bar_has_eleven_generators_and_the_papers_networks(data: str) -> None:
    study = spec(f"raised_bar_{data}")
    alone = [network for network in study.networks if not network.members and not network.pretrained]
    assert labels(alone) == BAR_NETWORKS[data]
    preset = "raised_bar_mnist" if data == "mnist" else "raised_bar_cifar"
    assert {network.train.milestones for network in alone} == {PRESETS[preset]["milestones"]}
    assert [detector.name for detector in study.detectors] == ["entropy", "msp", "mds"]
    made = {e.tags["kind"]: e.cell for e in plan(from_spec(study)) if e.tags.get("role") == "set"}
    near, shifted = made["near"], made["shifted"]
    assert near.pool.lambdas == tuple(0.5 + 0.25 * number for number in range(11))
    assert near.interval == PUBLISHED[data]
    assert near.count == 10_000
    assert {generator.cell.recipe.epochs for generator in near.pool.generators} == {100}
    assert [member.cell.spec.name for member in near.pool.ensemble.members] == BAR_NETWORKS[data]
    objective, recipe = shifted.generator.cell.objective, shifted.generator.cell.recipe
    assert (objective.lambda_p, objective.lambda_s) == (2, 1)
    assert (recipe.epochs, recipe.batch, recipe.lr, recipe.betas) == (100, 256, 2e-4, (0.5, 0.999))


@pytest.mark.usefixtures("stand_ins")
def test_table_2_of_the_raised_bar_tests_no_network_on_what_it_was_trained_on() -> None:
    entries = [e.tags for e in plan(from_spec(spec("raised_bar_cifar100"))) if e.tags.get("role") == "exposed"]
    assert {tags["network"] for tags in entries} == {"resnet50", "wrn28_10"}
    tested = {(tags["exposure"], tags["outliers"]) for tags in entries if tags["outliers"]}
    sets = {"svhn", "cifar10", "near_ood", "tiny_imagenet"}
    assert tested == {(a, b) for a in ("none", "svhn", "cifar10", "near_ood") for b in sets if a != b}


@pytest.mark.usefixtures("stand_ins")
def test_table_3_of_the_raised_bar_masks_the_logits_on_sets_of_some_classes() -> None:
    entries = [e for e in plan(from_spec(spec("raised_bar_imagenet"))) if e.tags.get("role") == "prediction"]
    further = {e.tags["of"]: e.cell.network.preview().classes for e in entries if e.tags["kind"] == "conventional"}
    assert further == {"imagenet_a": 5, "imagenet_r": 5, "imagenet_v2": 10, "imagenet_sketch": 10}
