"""OpenOOD's conventions through its adapter: wrapped nets, loaders, deep copies, GPUs that are not there, refusals."""

from __future__ import annotations

import random
import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import farout
from farout.adapters import OpenOOD, cuda_on
from farout.adapters.openood_rules import REFUSED, SPECIAL_NETS, WRAPPERS
from farout.identity import describe
from helpers import openood_standins as standins

TRAIN = farout.load("toy", "train", limit=90)
IMAGES = farout.load("toy").batch(range(20))


@pytest.fixture
def network() -> farout.Network:
    return farout.networks.create("resnet20", 4, 32, mean=0.5, std=0.25, seed=2)


def theirs(name: str, base: type = standins.BasePostprocessor, **values: Any) -> Any:
    """An object of a class that says it comes from OpenOOD."""
    return type(name, (base,), {"__module__": "openood.postprocessors.some_postprocessor", **values})()


def imported(monkeypatch: pytest.MonkeyPatch, place: str, net: type) -> None:
    """Make a net importable from where OpenOOD has its own."""
    file, _, name = place.partition(".")
    for path in ("openood", "openood.networks", f"openood.networks.{file}"):
        monkeypatch.setitem(sys.modules, path, ModuleType(path))
    setattr(sys.modules[f"openood.networks.{file}"], name, net)


def halved_energy(network: farout.Network) -> Tensor:
    """The negative energy of the larger half of the features, by hand."""
    features, head = network(IMAGES).features, network.head
    assert head is not None
    upper = features > features.quantile(0.5, dim=1, keepdim=True)
    return -head.logits(torch.where(upper, features, 0.0)).logsumexp(1)


def test_ash_runs_on_the_net_that_openood_wraps_for_it(
    network: farout.Network, monkeypatch: pytest.MonkeyPatch
) -> None:
    imported(monkeypatch, WRAPPERS["ASHPostprocessor"], standins.HalvingNet)  # type: ignore[arg-type]
    by_name = OpenOOD(theirs("ASHPostprocessor", standins.ASHPostprocessor), network).score(IMAGES)
    given = OpenOOD(standins.ASHPostprocessor(), network, wrap=standins.HalvingNet).score(IMAGES)
    energy = farout.Panel(network, ["ebo"]).score(IMAGES)["ebo"]
    with torch.no_grad():
        expected = halved_energy(network).numpy()
    assert by_name.numpy() == pytest.approx(expected, rel=1e-5)
    assert torch.equal(given, by_name)
    assert np.abs(expected - energy).min() > 1e-3  # what clipping at "90" gave


def test_a_wrapper_that_cannot_be_imported_is_named(network: farout.Network, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "openood", None)
    with pytest.raises(ImportError, match=r"ASH runs on openood\.networks\.ash_net\.ASHNet, which cannot be imported"):
        OpenOOD(theirs("ASHPostprocessor", standins.ASHPostprocessor), network)


def test_forward_threshold_without_a_wrapper_is_refused(network: farout.Network) -> None:
    network.module.forward_threshold = lambda x, _: network.module(x)
    with pytest.raises(NotImplementedError, match=r"ASH calls net\.forward_threshold, .* wrap="):
        OpenOOD(standins.ASHPostprocessor(), network).score(IMAGES)


def test_the_settings_name_adascales_net(network: farout.Network, monkeypatch: pytest.MonkeyPatch) -> None:
    class Settled(standins.ASHPostprocessor):
        def set_hyperparam(self, values: list[float]) -> None:
            self.percentile = values[0]  # type: ignore[assignment]

        def get_hyperparam(self) -> list[float]:
            return [75.0]

        def setup(self, *_: Any) -> None:
            pass

    made = {}
    for kind in ("adascale_a", "adascale_l", "other"):
        made[kind] = theirs("AdaScalePostprocessor", Settled)
        made[kind].config = SimpleNamespace(postprocessor=SimpleNamespace(name=kind))
    with pytest.raises(ValueError, match="has the name 'other', expected one of adascale_a, adascale_l"):
        OpenOOD(made["other"], network)
    imported(monkeypatch, "adascale_net.AdaScaleLNet", standins.HalvingNet)
    detector = OpenOOD(made["adascale_l"], network)
    detector.fit(TRAIN)
    assert detector.wrap is standins.HalvingNet
    assert detector.ready.percentile == 75.0  # what set_hyperparam learns, OpenOOD's search of settings would call
    with pytest.raises(ImportError, match=r"adascale_net\.AdaScaleANet"):
        OpenOOD(made["adascale_a"], network)


def test_deep_copies_of_labels_and_gpus_that_are_not_there(network: farout.Network) -> None:
    detector = OpenOOD(standins.PrototypePostprocessor(), network)
    detector.fit(TRAIN)
    with torch.no_grad():
        train = torch.cat([network(batch).features for batch in TRAIN])
        found = network(IMAGES)
    assert TRAIN.labels is not None
    means = torch.stack([train[torch.from_numpy(TRAIN.labels) == label].mean(0) for label in range(4)])
    expected = -(found.features * means[found.logits.argmax(1)]).sum(1)
    assert detector.score(IMAGES).numpy() == pytest.approx(expected.numpy(), rel=1e-4)


def test_cuda_means_another_device_only_meanwhile() -> None:
    original = torch.cuda.FloatTensor  # type: ignore[attr-defined]
    with cuda_on("meta"):
        moved = [torch.ones(2).cuda(), torch.ones(2).to("cuda:1"), torch.zeros(2, device="cuda")]
        moved += [nn.Linear(2, 1).cuda().weight, torch.cuda.FloatTensor([1.0])]  # type: ignore[attr-defined]
        assert {one.device.type for one in moved} == {"meta"}
        assert torch.ones(2).device.type == "cpu"
    assert torch.cuda.FloatTensor is original  # type: ignore[attr-defined]
    if not torch.cuda.is_available():
        with pytest.raises((RuntimeError, AssertionError)):
            torch.ones(2).cuda()


@pytest.mark.parametrize(("batch_size", "bank"), [(200, 90), (4, 12), (10, 10)])
def test_loaders_say_their_batch_size(network: farout.Network, batch_size: int, bank: int) -> None:
    """A tenth of 90 images is 9: reached by the first batch larger than that, or by the third of 4."""
    detector = OpenOOD(standins.FirstBatchesPostprocessor(), network, batch_size=batch_size)
    detector.fit(TRAIN)
    assert detector.ready.bank == bank


def test_the_list_of_maps_starts_with_what_enters_the_first_block(network: farout.Network) -> None:
    detector = OpenOOD(standins.LayersPostprocessor(), network)
    detector.fit(TRAIN)
    scores = detector.score(IMAGES)
    module: Any = network.module
    with torch.no_grad():
        stem = F.relu(module.bn1(module.conv1(network.normalize(IMAGES))))
    assert scores.numpy() == pytest.approx(-stem.mean((1, 2, 3)).double().numpy(), rel=1e-5)
    assert detector.ready.shapes == [(16, 32, 32), (16, 32, 32), (32, 16, 16), (64, 1, 1)]


def test_draws_start_from_the_seed_and_spare_the_global_generators(network: farout.Network) -> None:
    def draws(seed: int) -> list[float]:
        detector = OpenOOD(standins.DrawingPostprocessor(), network, seed=seed)
        detector.fit(TRAIN)
        assert detector.score(IMAGES).shape == (20,)
        return detector.ready.draws  # type: ignore[no-any-return]

    before = (random.getstate(), np.random.get_state()[1].tolist(), torch.get_rng_state().tolist())  # type: ignore[index]  # noqa: NPY002
    first, again, other = draws(0), draws(0), draws(1)
    after = (random.getstate(), np.random.get_state()[1].tolist(), torch.get_rng_state().tolist())  # type: ignore[index]  # noqa: NPY002
    assert before == after
    assert first == again
    assert all(a != b for a, b in zip(first, other, strict=True))


def test_what_the_data_lack_is_told(network: farout.Network) -> None:
    unlabeled = farout.ImageSet.from_arrays(IMAGES.numpy(), name="bare")
    with pytest.raises(ValueError, match="Prototype fits on labeled images, and 'bare' has no label"):
        OpenOOD(standins.PrototypePostprocessor(), network).fit(unlabeled)
    learning = standins.LayersPostprocessor()
    learning.outliers = True
    with pytest.raises(ValueError, match=r"Layers learns from outliers \(val\), which this adapter does not provide"):
        OpenOOD(learning, network).fit(TRAIN)


def test_what_the_network_lacks_is_told(network: farout.Network) -> None:
    class Rank(standins.BasePostprocessor):
        block = 4

        def postprocess(self, net: Any, data: Any) -> tuple[Tensor, Tensor]:
            maps = net.intermediate_forward(data, layer_index=self.block)
            return data, net.avgpool(maps)

    with pytest.raises(ValueError, match=r"Rank reads block 4 of its net, and the network has blocks 1 to 3 \(layer1"):
        OpenOOD(Rank(), network).score(IMAGES)
    Rank.block = 3
    with pytest.raises(AttributeError, match=r"Rank asks its net for 'avgpool', and ResNet has none; .* wrap="):
        OpenOOD(Rank(), network).score(IMAGES)


def test_confidences_of_another_shape_are_refused(network: farout.Network) -> None:
    class Wide(standins.BasePostprocessor):
        def postprocess(self, net: Any, data: Any) -> tuple[Tensor, Tensor]:
            return data, net(data)

    with pytest.raises(ValueError, match=r"Wide gave confidences \[20, 4\] for 20 images, expected \[B\] or \[B, 1\]"):
        OpenOOD(Wide(), network).score(IMAGES)


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_those_that_cannot_be_adapted_are_refused_by_name(network: farout.Network, name: str) -> None:
    with pytest.raises(ValueError, match=rf"{name.removesuffix('Postprocessor')} of OpenOOD cannot be adapted: \w"):
        OpenOOD(theirs(name), network)
    OpenOOD(type(name, (standins.BasePostprocessor,), {})(), network)  # a class of the user's of that name is not


@pytest.mark.parametrize("name", sorted(SPECIAL_NETS))
def test_those_that_read_another_net_need_it(network: farout.Network, name: str) -> None:
    with pytest.raises(ValueError, match=r"of OpenOOD reads a net with .* wrap=lambda net"):
        OpenOOD(theirs(name), network)
    assert OpenOOD(theirs(name), network, wrap=standins.HalvingNet).score(IMAGES).shape == (20,)


def test_settings_that_openood_would_search_are_told(network: farout.Network) -> None:
    with pytest.warns(UserWarning, match="fDBD has APS_mode on, by which OpenOOD's evaluator searches its settings"):
        OpenOOD(theirs("fDBDPostprocessor", APS_mode=True), network)
    OpenOOD(theirs("fDBDPostprocessor", APS_mode=True, hyperparam_search_done=True), network)
    OpenOOD(theirs("fDBDPostprocessor", APS_mode=False), network)


def test_the_net_is_part_of_the_identity(network: farout.Network) -> None:
    def told(**given: Any) -> Any:
        return describe(OpenOOD(standins.ASHPostprocessor(), network, **given))

    different = [told(), told(wrap=standins.HalvingNet), told(batch_size=10), told(seed=1)]
    assert None not in different
    assert all(a != b for place, a in enumerate(different) for b in different[:place])
    assert told(wrap=standins.HalvingNet) == told(wrap=standins.HalvingNet)
