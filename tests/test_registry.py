"""Names -> things: what is known, what is taken, what an unknown name is answered with; what users register."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import farout
from farout import registry
from farout.detectors import KNN
from farout.detectors.catalog import catalog
from farout.networks import create, own_identity
from farout.plugins import load_plugin
from farout.registry import KINDS, Registry, UnknownName, registry_of, unknown
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
def colors() -> Registry[Any]:
    known: Registry[Any] = Registry("color")

    @known.register("red")
    def red(shade: float = 0.5, *, name: str = "r") -> tuple[str, float]:
        return name, shade

    @known.register("any")
    def anything(**params: Any) -> dict[str, Any]:
        return params

    return known


def test_a_name_makes_its_thing_with_these_parameters(colors: Registry[Any]) -> None:
    assert colors.create("red") == ("r", 0.5)
    assert colors.create("red", shade=0.1, name="x") == ("x", 0.1)
    assert colors.create("any", whatever=3) == {"whatever": 3}
    assert colors["red"](0.2) == ("r", 0.2)


def test_names_are_sorted_and_asked_for_with_in(colors: Registry[Any]) -> None:
    assert colors.names() == list(colors) == ["any", "red"]
    assert "red" in colors
    assert "blue" not in colors


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("redd", "unknown color 'redd'. Did you mean 'red'? Known: any, red."),
        ("zzzzzz", "unknown color 'zzzzzz'. Known: any, red."),
        (7, "unknown color 7. Known: any, red."),
        ("RED", "unknown color 'RED'. Did you mean 'red'? Known: any, red."),
    ],
)
def test_an_unknown_name_is_answered_with_the_nearest(colors: Registry[Any], name: Any, message: str) -> None:
    with pytest.raises(UnknownName) as caught:
        colors[name]
    assert str(caught.value) == message
    assert isinstance(caught.value, KeyError)
    assert isinstance(caught.value, ValueError)


def test_an_unknown_parameter_is_answered_alike(colors: Registry[Any]) -> None:
    with pytest.raises(UnknownName) as caught:
        colors.create("red", shape=1)
    assert str(caught.value) == "unknown parameter of color 'red': 'shape'. Did you mean 'shade'? Known: name, shade."
    with pytest.raises(UnknownName, match=r"unknown parameter of detector 'knn': 'kk'. Did you mean 'k'"):
        catalog.create("knn", kk=3)


def test_nothing_known_is_said() -> None:
    assert str(unknown("thing", "x", [])) == "unknown thing 'x'. Known: none."


def test_a_taken_name_is_refused_but_the_same_thing_may_come_again(colors: Registry[Any]) -> None:
    def make(text: str) -> Any:
        def red() -> str:
            return text

        return red

    colors.register("blue")(make("first"))
    colors.register("blue")(make("second"))  # a module that is imported again brings its things again
    assert colors.create("blue") == "second"
    with pytest.raises(ValueError, match=r"color name 'red' is taken by colors.<locals>.red; choose another name"):
        colors.register("red")(make("third"))
    assert colors.create("red") == ("r", 0.5)


def test_parameters_reach_the_detector() -> None:
    assert catalog.create("knn", k=3) == KNN(k=3)
    assert catalog["knn"] is KNN


class _Broken:
    name, value = "broken", "package.of:plugin"

    def load(self) -> None:
        raise ImportError("no such package")


def test_entry_points_are_loaded_once_and_only_when_a_name_is_missing(
    colors: Registry[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    class Plugin(EntryPoint):
        def load(self) -> None:
            asked.append(self.value)

            @colors.register("green")
            def green() -> str:
                return "green"

    monkeypatch.setattr(registry, "_loaded_entry_points", False)
    monkeypatch.setattr(registry, "entry_points", lambda group: [Plugin("p", f"{group}:x", group)])
    assert colors.create("red") == ("r", 0.5)
    assert asked == []
    assert colors.create("green") == "green"
    with pytest.raises(UnknownName):
        colors["violet"]
    assert asked == ["farout:x"]


def test_a_broken_plugin_is_named(colors: Registry[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_loaded_entry_points", False)
    monkeypatch.setattr(registry, "entry_points", lambda group: [_Broken()])
    with pytest.raises(ImportError, match="no such package") as caught:
        colors["green"]
    assert caught.value.__notes__ == ["while loading the farout plugin broken = package.of:plugin"]


def test_a_thing_that_needs_more_than_its_name_says_what():
    registry: Registry[object] = Registry("thing")

    @registry.register("joined")
    def joined(of: list[str], *, glue: str = "-") -> object:
        return glue.join(of)

    assert registry.create("joined", of=["a", "b"]) == "a-b"
    with pytest.raises(TypeError, match="thing 'joined' needs more parameters: give of too"):
        registry.create("joined", glue="+")


def test_what_was_begun_is_nearer_than_what_looks_alike() -> None:
    assert "Did you mean 'epsilon'" in str(unknown("parameter", "eps", ["steps", "epsilon"]))


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Plugins that import each other, in a folder of their own."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    before = set(sys.modules)
    (tmp_path / "nets.py").write_text(NETS)
    (tmp_path / "sets.py").write_text(SETS)
    (tmp_path / "study.yaml").write_text(STUDY.replace("WIDTH", "6"))
    yield tmp_path
    for name in set(sys.modules) - before:
        if str(getattr(sys.modules[name], "__file__", "")).startswith(str(tmp_path)):
            del sys.modules[name]


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


def test_a_network_gets_what_it_names_and_its_parameters() -> None:
    farout.register(kind="network", name="doubled")(Doubled)
    network = create("doubled", 5, 8, gain=3.0)
    assert (network.classes, network.module.gain) == (5, 3.0)
    with pytest.raises(UnknownName, match=r"unknown parameter of network 'doubled': 'gian'. Did you mean 'gain'"):
        create("doubled", 5, 8, gian=3.0)
    with pytest.raises(UnknownName, match="unknown parameter of network 'resnet20': 'gain'"):
        create("resnet20", 5, 32, gain=3.0)


def test_a_function_may_make_a_network_with_its_own_normalizer() -> None:
    @farout.register(kind="network", name="ready")
    def ready(classes: int) -> farout.Network:
        return farout.Network(Doubled(classes), mean=0.2, std=0.3, side=8)

    assert create("ready", 4, 32).mean.flatten().tolist() == pytest.approx([0.2] * 3)
    given = create("ready", 4, 32, mean=0.5)
    assert (given.mean.flatten().tolist(), given.std.flatten().tolist()) == ([0.5] * 3, pytest.approx([0.3] * 3))
    assert given.side == 8


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

    with pytest.raises(
        TypeError,
        match=r"the kind of the function maker is missing: @farout.register\(kind=…\), one of detector, shift",
    ):
        farout.register(maker)
    with pytest.raises(UnknownName, match=r"unknown kind of component: 'netwrok'. Did you mean 'network'"):
        farout.register(kind="netwrok")(maker)  # type: ignore[call-overload]
    with pytest.raises(TypeError, match="must have a parameter split, such as 'test': give maker one"):
        farout.register(kind="dataset")(maker)
    with pytest.raises(TypeError, match="a shift must derive from Shift, got the class"):
        farout.register(kind="shift")(Doubled)
    with pytest.raises(TypeError, match=r"expected a class that derives from farout.Detector.*nn.Module, got 3"):
        farout.register(3)  # type: ignore[call-overload]
    with pytest.raises(TypeError, match="a detector must be registered as a class or function, got 3"):
        farout.register(kind="detector")(3)  # type: ignore[type-var]
    with pytest.raises(TypeError, match="a lambda cannot be registered as a detector"):
        farout.register(kind="detector", name="mine")(lambda: None)
    for name in ("", " "):
        with pytest.raises(ValueError, match=f"expected a name that is not empty for .*maker, got '{name}'"):
            farout.register(kind="detector", name=name)(maker)


@pytest.mark.parametrize(("kind", "base"), [("protocol", "Protocol"), ("engine", "Executor")])
def test_what_is_needed_as_a_class_is_not_registered_as_a_function(kind: Any, base: str) -> None:
    def maker() -> None: ...

    with pytest.raises(TypeError, match=f"a {kind} must be a class that derives from {base}, got the function .*maker"):
        farout.register(kind=kind)(maker)


def test_a_function_that_returns_another_kind_of_object_is_named() -> None:
    layers: Registry[Any] = Registry("layer", (nn.Linear, nn.ReLU))

    @layers.register("wrong")
    def wrong(value: object = None) -> object:
        return value

    with pytest.raises(TypeError, match=r"layer 'wrong': expected Linear or ReLU, but .*wrong returned None"):
        layers.create("wrong")
    with pytest.raises(TypeError, match=r"expected Linear or ReLU, but .*wrong returned an object of type GELU"):
        layers.create("wrong", value=nn.GELU())
    assert isinstance(layers.create("wrong", value=nn.ReLU()), nn.ReLU)


def test_the_same_image_set_in_another_split_is_not_the_same(files: Path) -> None:
    load_plugin(files / "sets.py")
    train, test = farout.load("stripes", "train"), farout.load("stripes", n=30)
    assert (len(train), len(test)) == (60, 30)
    assert not np.array_equal(train.batch([0]), test.batch([0]))


PLUGIN = """
import farout
from farout.study.engines.executor import Executor
from torch import nn

@farout.register
class Detects(farout.Detector): name = "installed"
@farout.register
class Shifts(farout.Shift): name = "installed"
@farout.register
class Attacks(farout.Attack): name = "installed"
@farout.register
class Varies(farout.Variation): name = "installed"
@farout.register
class Searches(farout.search.Search): name = "installed"
@farout.register
class Generates(farout.generators.Generator): name = "installed"
@farout.register(kind="dataset", name="installed")
def images(split="test"): ...
@farout.register(name="installed")
class Classifies(nn.Module):
    def __init__(self, classes): ...
@farout.register
class Protocols(farout.protocols.Protocol): name = "installed"
@farout.register
class Computes(Executor): name = "installed"
@farout.register(kind="adapter")
class Adapts(farout.Detector): name = "installed"
"""


@pytest.mark.parametrize("way", ["in", "names"])
@pytest.mark.parametrize("kind", KINDS)
def test_an_installed_package_brings_things_of_every_kind(
    kind: str, way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "more_farout.py").write_text(PLUGIN)
    info = tmp_path / "more_farout-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: more-farout\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[farout]\nmore = more_farout\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(registry, "_loaded_entry_points", False)
    found = {"in": lambda known: "installed" in known, "names": lambda known: "installed" in known.names()}[way]
    assert found(registry_of(kind))
    assert registry_of(kind)["installed"].__module__ == "more_farout"
    del sys.modules["more_farout"]


def test_an_installed_network_is_found_before_its_parameters_and_identity_are_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def late(classes: int, width: int = 3) -> None: ...

    class Plugin(EntryPoint):
        def load(self) -> None:
            farout.register(kind="network", name="late")(late)

    monkeypatch.setattr(registry, "_loaded_entry_points", False)
    monkeypatch.setattr(registry, "entry_points", lambda group: [Plugin("p", f"{group}:x", group)])
    assert own_identity("late", {"width": 4})["params"] == {"width": 4}
    assert farout.networks.parameters("late") == ["width"]


def test_a_detector_that_is_a_module_too_is_a_detector() -> None:
    @farout.register
    class Both(nn.Module, farout.Detector):
        name = "both"

    assert "both" in catalog
    assert "both" not in registry_of("network")
