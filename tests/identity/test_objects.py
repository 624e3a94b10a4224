"""What a detector reads from outside its class is part of what it is."""

import sys

import pytest

from farout.identity import describe
from farout.plugins import load_plugin

PLUGIN = """
import farout
import torch
from dataclasses import dataclass
import {library}

SIGN = {sign}


def helper(x):
    return {factor} * x


class Images(farout.Detector):
    net = torch.nn.Linear(1, 1, bias=False).requires_grad_(False)
    net.weight.fill_({weight})

    def score(self, images, power={power}):
        return SIGN * helper({library}.f(images.mean((1, 2, 3)))) ** power + self.net.weight.sum()


@dataclass(kw_only=True)
class Activated(farout.PostHoc):
    def score(self, activations, power={power}):
        return SIGN * helper({library}.f(activations.logits[:, 0].double())) ** power
"""


@pytest.fixture
def identities(tmp_path, monkeypatch):
    """Of a detector of images and one of activations, from files that differ by some changes only."""

    def load(**changes: object) -> tuple[object, object]:
        facts = {"sign": 1, "factor": 2, "weight": 3, "power": 1, "shift": 0} | changes
        folder = tmp_path / str(len(list(tmp_path.iterdir())))
        folder.mkdir()
        (folder / "its_library.py").write_text(f"def f(x):\n    return x + {facts['shift']}\n")
        (folder / "plugin.py").write_text(PLUGIN.format(library="its_library", **facts))
        monkeypatch.syspath_prepend(folder)
        sys.modules.pop("its_library", None)
        plugin = load_plugin(folder / "plugin.py")
        return describe(plugin.Images()), plugin.Activated().identity()

    return load


def test_the_same_code_is_the_same_wherever_it_lies(identities):
    assert identities() == identities()


@pytest.mark.parametrize("changed", ["sign", "factor", "power", "shift"])
def test_what_a_detector_reads_from_outside_is_part_of_its_identity(identities, changed):
    before, after = identities(), identities(**{changed: 7})
    assert None not in (*before, *after)
    assert before[0] != after[0]
    assert before[1] != after[1]


def test_a_network_that_a_class_holds_is_part_of_its_identity(identities):
    (before, _), (same, _), (after, _) = identities(), identities(), identities(weight=4)
    assert before["code"]["holds"] == same["code"]["holds"] != after["code"]["holds"]


FACTORY = """
from dataclasses import dataclass, field

import farout


@dataclass(kw_only=True)
class Bounded(farout.Variation):
    bounds: list = field(default_factory=lambda: [0, {most}])
    dim = 1

    def decode(self, z, base):
        return base + z
"""


def test_a_dataclass_with_a_default_factory_is_the_same_in_every_process(tmp_path):
    """What `dataclass` writes holds functions that cannot be told; the class's own source says it all."""

    def told(folder: str, most: int) -> object:
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "bounded.py").write_text(FACTORY.format(most=most))
        return load_plugin(tmp_path / folder / "bounded.py").Bounded().identity()

    first, same, other = told("a", 1), told("b", 1), told("c", 2)
    assert first == same
    assert first != other
