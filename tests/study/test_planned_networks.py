"""Planning draws the weights of a network to be trained once, and remembers what they are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from farout.networks import create, restrict
from farout.study.cells import train as training
from farout.study.cells.train import TrainCell, TrainedNetwork
from farout.study.sources.images import LiveImages
from farout.study.sources.networks import AboutNetwork, JoinedNetworks, LiveNetwork
from farout.study.spec import NetworkSpec
from helpers.easy_sets import halves

IMAGES = LiveImages(halves(20))


def cell(seed: int = 0, **settings: Any) -> TrainCell:
    spec = NetworkSpec.model_validate({"name": "lenet", "train": {"epochs": 1}, **settings})
    return TrainCell(spec, "lenet", seed, IMAGES, IMAGES)


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAROUT_DATA", str(tmp_path))


def forbid_building(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: TrainCell) -> None:
        raise AssertionError("a network was built")

    monkeypatch.setattr(TrainCell, "untrained", refuse)


def test_the_remembered_facts_are_those_of_the_network(monkeypatch: pytest.MonkeyPatch) -> None:
    network = create("lenet", 2, 28, 1, seed=0)
    first = cell()
    assert first.identity["untrained"] == network.digest
    assert first.about == AboutNetwork(2, ("stage1", "stage2"), True) == AboutNetwork.of(network)
    forbid_building(monkeypatch)
    again = cell()
    assert (again.id, again.about) == (first.id, first.about)
    assert TrainedNetwork(again).about == first.about


@pytest.mark.parametrize(
    "change", [{"seed": 1}, {"classes": 3}, {"side": 32}, {"params": {"width": 12}}, {"mean": 0.4}]
)
def test_another_network_is_not_taken_for_it(change: dict[str, Any]) -> None:
    known, other = cell(), cell(**change)
    assert known.weights_before != other.weights_before == other.untrained().digest


def test_a_network_of_the_users_is_built_every_time(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(training, "create", lambda *args, **options: create("lenet", 2, 28, 1, seed=5))
        changed = cell().weights_before
    assert cell().weights_before != changed


def test_an_ensemble_has_the_blocks_of_its_members_and_no_maps() -> None:
    networks = [create("lenet", 2, 28, 1, seed=seed) for seed in range(2)]
    members = tuple(LiveNetwork(network, network.digest, "lenet") for network in networks)
    assert JoinedNetworks("both", members).about == AboutNetwork(
        2, ("0.stage1", "0.stage2", "1.stage1", "1.stage2"), has_maps=False
    )
    other = LiveNetwork(create("lenet", 3, 28, 1), "", "other")
    with pytest.raises(ValueError, match="same number of classes"):
        JoinedNetworks("mixed", (*members, other)).about  # noqa: B018
    assert AboutNetwork.of(restrict(create("lenet", 5, 28, 1), [0, 2])).classes == 2
