"""What users register: every kind by class or function, in studies with workers, with errors that name their line."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import farout
from farout.data.catalog import DATASETS
from farout.detectors.catalog import catalog as detectors
from farout.networks import NETWORKS, create, own_identity
from farout.plugins import load_plugin
from farout.registering import register_as
from farout.registry import Registry, UnknownName
from farout.shifts.catalog import catalog as shifts
from farout.user_code import raised_at

NETS = """
import farout, sets
from torch import nn

SLOPE = 0.1

@farout.register
class Tiny(nn.Module):
    def __init__(self, classes, channels, width=8):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(channels, width, 3, 2, 1), nn.LeakyReLU(SLOPE))
        self.head = nn.Linear(width, classes)

    def forward(self, x):
        return self.head(self.body(x).mean((2, 3)))

@farout.register(kind="network")
def broken(classes):
    return {}["missing"]
"""
SETS = """
import farout, nets
import numpy as np

@farout.register(kind="dataset", name="stripes")
def stripes(split="test", n=60):
    drawn = np.random.default_rng(["train", "val", "test"].index(split)).integers(0, 80, (n, 16, 16, 3), np.uint8)
    classes = np.arange(n) % 3
    drawn[classes == 1, ::2] += 150
    drawn[classes == 2, :, ::2] += 150
    return farout.ImageSet.from_arrays(drawn, classes, name="stripes")

@farout.register
class Dim(farout.Shift):
    name, random = "dim", False

    def apply(self, images, params):
        return images / 2

@farout.register
class Flat(farout.PostHoc):
    name = "flat"

    def score(self, activations):
        return activations.logits.double()
"""
STUDY = """
inliers: stripes
outliers: [noise]
networks: [{name: Tiny, width: WIDTH, train: {epochs: 1, augment: none}, mean: 0.5, std: 0.25}]
detectors: [msp]
protocols: [clean, {name: rood, setups: {dimmed: [dim]}}]
budget: quick
"""


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Plugins that import each other, in a folder of their own; what they register is forgotten afterwards."""
    for registry in _registries():
        monkeypatch.setattr(registry, "_makers", dict(registry._makers))
    monkeypatch.setattr(sys, "path", list(sys.path))
    before = set(sys.modules)
    (tmp_path / "nets.py").write_text(NETS)
    (tmp_path / "sets.py").write_text(SETS)
    (tmp_path / "study.yaml").write_text(STUDY.replace("WIDTH", "6"))
    yield tmp_path
    for name in set(sys.modules) - before:
        if str(getattr(sys.modules[name], "__file__", "")).startswith(str(tmp_path)):
            del sys.modules[name]


def _registries() -> list[Registry[Any]]:
    return [NETWORKS, DATASETS, detectors, shifts]


def run(files: Path, **options: Any) -> farout.Result:
    plugins = (str(files / "nets.py"), str(files / "sets.py"))
    return farout.run(files / "study.yaml", files / "out", plugins=plugins, **options)


@pytest.mark.slow
def test_a_study_of_ones_own_network_set_and_shift_runs_in_workers_and_is_reused(files: Path) -> None:
    first = run(files, workers=1)
    assert not first.outcome.failed
    assert set(first.table()["detector"]) == {"msp"}
    assert run(files).outcome.reused == len(first.outcome.done)
    (files / "study.yaml").write_text(STUDY.replace("WIDTH", "7"))
    assert run(files).outcome.done


def test_parameters_and_what_the_code_reads_are_part_of_a_networks_identity(files: Path) -> None:
    module = load_plugin(files / "nets.py")
    before = own_identity("Tiny", {"width": 6})
    assert before == own_identity("Tiny", {"width": 6})
    assert before != own_identity("Tiny", {"width": 7})
    module.SLOPE = 0.3
    assert before != own_identity("Tiny", {"width": 6})
    assert own_identity("resnet20", {}) == {}


def test_an_error_in_a_plugin_names_its_line(files: Path) -> None:
    load_plugin(files / "nets.py")
    with pytest.raises(KeyError) as caught:
        create("broken", 3, 16)
    line = NETS.splitlines().index('    return {}["missing"]') + 1
    assert raised_at(caught.value) == f" ({files / 'nets.py'}, line {line})"


def test_a_score_of_the_wrong_shape_names_the_class_and_line(files: Path) -> None:
    detector = load_plugin(files / "sets.py").Flat()
    line = SETS.splitlines().index("        return activations.logits.double()")
    panel = farout.Panel(create("resnet20", 3, 16), [detector])
    with pytest.raises(
        ValueError, match=rf"flat \(Flat.score in .*sets.py, line {line}\) returned scores of shape \(2, 3\)"
    ):
        panel.score(torch.zeros(2, 3, 16, 16))


def test_plugins_that_import_each_other_are_imported_once(files: Path) -> None:
    nets, sets = load_plugin(files / "nets.py"), load_plugin(files / "sets.py")
    assert sets.nets is nets
    assert nets.sets is sets


class Doubled(nn.Module):
    def __init__(self, classes: int, gain: float = 2.0) -> None:
        super().__init__()
        self.gain, self.head = gain, nn.Linear(3, classes)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.gain * x.mean((2, 3)))


@pytest.fixture
def forgetful(monkeypatch: pytest.MonkeyPatch) -> None:
    for registry in _registries():
        monkeypatch.setattr(registry, "_makers", dict(registry._makers))


@pytest.mark.usefixtures("forgetful")
def test_a_network_gets_what_it_names_and_its_parameters() -> None:
    farout.register(kind="network", name="doubled")(Doubled)
    network = create("doubled", 5, 8, gain=3.0)
    assert (network.classes, network.module.gain) == (5, 3.0)
    with pytest.raises(UnknownName, match=r"unknown parameter of network 'doubled': 'gian'. Did you mean 'gain'"):
        create("doubled", 5, 8, gian=3.0)
    with pytest.raises(UnknownName, match="unknown parameter of network 'resnet20': 'gain'"):
        create("resnet20", 5, 32, gain=3.0)


@pytest.mark.usefixtures("forgetful")
def test_a_function_may_make_a_network_with_its_own_normalizer() -> None:
    @farout.register(kind="network", name="ready")
    def ready(classes: int) -> farout.Network:
        return farout.Network(Doubled(classes), mean=0.2, std=0.3, side=8)

    assert create("ready", 4, 32).mean.flatten().tolist() == pytest.approx([0.2] * 3)
    given = create("ready", 4, 32, mean=0.5)
    assert (given.mean.flatten().tolist(), given.std.flatten().tolist()) == ([0.5] * 3, pytest.approx([0.3] * 3))
    assert given.side == 8


@pytest.mark.usefixtures("forgetful")
def test_every_kind_is_known_by_its_class() -> None:
    class Half(farout.Shift):
        name, random = "half", False

        def apply(self, images: Tensor, params: Any) -> Tensor:
            return images / 2

    class Gray(farout.ImageSet):
        labels, shape = None, (3, 8, 8)

        def __init__(self, split: str = "test") -> None:
            self.name = split

        def __len__(self) -> int:
            return 4

        def batch(self, indices: Any) -> Tensor:
            return torch.full((len(indices), 3, 8, 8), 0.5)

        def _fingerprint(self) -> str:
            return "gray"

    for cls in (Half, Gray, Doubled):
        assert farout.register(cls) is cls
    assert farout.shift("half")(torch.ones(1, 3, 2, 2)).max() == 0.5
    assert farout.load("Gray", "train").name == "train"
    assert create("Doubled", 3, 8).classes == 3
    farout.register(name="half_again")(Half)
    assert farout.shift("half_again").name == "half_again"


def test_what_cannot_be_registered_says_why() -> None:
    def maker(n: int) -> None: ...

    with pytest.raises(TypeError, match=r"say what maker makes: @farout.register\(kind=…\), one of detector, network"):
        farout.register(maker)
    with pytest.raises(UnknownName, match=r"unknown kind of thing to register: 'netwrok'. Did you mean 'network'"):
        register_as(maker, "netwrok", None)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="give maker a parameter split"):
        farout.register(kind="dataset")(maker)
    with pytest.raises(TypeError, match="a shift derives Shift, got the class"):
        farout.register(kind="shift")(Doubled)
    with pytest.raises(TypeError, match=r"expected a class that derives farout.Detector.*nn.Module, got 3"):
        farout.register(3)  # type: ignore[call-overload]


def test_the_same_image_set_in_another_split_is_not_the_same(files: Path) -> None:
    load_plugin(files / "sets.py")
    train, test = farout.load("stripes", "train"), farout.load("stripes", n=30)
    assert (len(train), len(test)) == (60, 30)
    assert not np.array_equal(train.batch([0]), test.batch([0]))
