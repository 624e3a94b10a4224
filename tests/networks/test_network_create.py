"""`create`: every name runs at every small side, weights come from the seed alone, and errors say what to do."""

from __future__ import annotations

import random

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from farout import networks
from farout.networks.timm_bridge import TIMM_ONLY
from farout.registry import UnknownName

OURS = [name for name in networks.names() if name not in TIMM_ONLY]
LIGHT = [name for name in OURS if name not in {"resnet152", "wrn28_10", "inception_v3"}]


def test_all_names_are_there() -> None:
    asked = (
        "lenet alexnet vgg11 vgg16 resnet18 resnet20 resnet32 resnet34 resnet44 resnet50 resnet56 resnet110 resnet152 "
        "allconv densenet121 densenet_bc100 wrn28_10 wrn40_2 inception_v3 vit_tiny vit_b16 vit_b32 vit_l16 vit_l32 "
        "swin_t mobilenet_v3_large efficientnet_b0"
    )
    assert networks.names() == sorted(asked.split())


@pytest.mark.parametrize("name", OURS)
def test_logits_are_the_head_applied_to_the_features(name: str) -> None:
    network = networks.create(name, 7, 32)
    with torch.no_grad():
        found = network(torch.rand(2, 3, 32, 32, generator=torch.Generator().manual_seed(0)))
    assert not network.training
    torch.testing.assert_close(found.logits, F.linear(found.features, *network.head))
    assert found.logits.shape == (2, 7)
    assert (found.logits[0] - found.logits[1]).abs().max() > 0
    assert list(found.blocks) == list(network.module.block_names)
    assert all(len(block) == 2 and block.isfinite().all() for block in found.blocks.values())


@pytest.mark.parametrize("name", OURS)
def test_the_known_head_of_a_built_in_network_is_the_one_that_a_pass_finds(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(networks.Network, "_probe", lambda self: pytest.fail("it was run"))
        network = networks.create(name, 7, 32)
    found = networks.Network(network.module, mean=0.5, std=0.5)
    assert found.head_name == network.head_name
    assert found.digest == network.digest


@pytest.mark.parametrize("name", LIGHT)
@pytest.mark.parametrize(("side", "channels"), [(16, 3), (28, 1), (64, 3)])
def test_small_sides_and_gray_images_pass(name: str, side: int, channels: int) -> None:
    network = networks.create(name, 4, side, channels)
    assert network.side == side
    with torch.inference_mode():
        logits = network(torch.rand(2, channels, side, side, generator=torch.Generator().manual_seed(0))).logits
    assert logits.shape == (2, 4)
    assert logits.isfinite().all()


@pytest.mark.parametrize("name", ["lenet", "alexnet", "resnet20", "wrn40_2"])
def test_networks_without_a_large_form_take_large_images(name: str) -> None:
    with torch.inference_mode():
        logits = networks.create(name, 4, 96)(torch.rand(1, 3, 96, 96)).logits
    assert logits.shape == (1, 4)


def test_weights_depend_on_the_seed_and_not_on_the_global_generators() -> None:
    first = networks.create("vit_tiny", 10, 32).digest
    torch.rand(5)
    assert networks.create("vit_tiny", 10, 32).digest == first
    assert networks.create("vit_tiny", 10, 32, seed=1).digest != first


@pytest.mark.parametrize("name", LIGHT)
def test_no_global_generator_is_changed(name: str) -> None:
    before = torch.get_rng_state(), random.getstate(), np.random.get_state()[1].copy()  # noqa: NPY002
    networks.create(name, 10, 32)
    assert torch.equal(torch.get_rng_state(), before[0])
    assert random.getstate() == before[1]
    assert np.array_equal(np.random.get_state()[1], before[2])  # noqa: NPY002


def test_he_initialization_keeps_the_scale_of_what_passes() -> None:
    weight = networks.create("vgg16", 10, 32).module.get_submodule("stage5.0").weight
    assert weight.std().item() == pytest.approx((2 / (9 * 512)) ** 0.5, rel=0.01)  # He et al. 2015, eq. 14


def test_the_normalizer_is_the_callers_or_a_half() -> None:
    network = networks.create("lenet", 10, 28, 1)
    assert network.mean.item() == network.std.item() == 0.5
    network = networks.create("lenet", 10, 28, mean=(0.1, 0.2, 0.3), std=0.4)
    torch.testing.assert_close(network.mean.flatten(), torch.tensor([0.1, 0.2, 0.3]))
    torch.testing.assert_close(network.std.flatten(), torch.tensor([0.4, 0.4, 0.4]))


def test_a_near_miss_is_offered_the_right_name() -> None:
    with pytest.raises(UnknownName, match="Did you mean 'resnet18'"):
        networks.create("resnet-18", 10, 32)


@pytest.mark.parametrize("wrong", [{"classes": 1}, {"side": 8}, {"channels": 2}])
def test_impossible_sizes_are_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(ValueError, match=f"got .*{next(iter(wrong))}={next(iter(wrong.values()))}"):
        networks.create("resnet20", **{"classes": 10, "side": 32, "channels": 3} | wrong)


def test_vit_tiny_needs_whole_patches() -> None:
    with pytest.raises(ValueError, match="patch of 4 px, got 30; use side=28"):
        networks.create("vit_tiny", 10, 30)


def test_pretrained_weights_are_refused_where_there_are_none() -> None:
    with pytest.raises(ValueError, match=r"no pretrained weights for 'resnet20'; there are for .*resnet50"):
        networks.create("resnet20", 10, 32, pretrained=True)


@pytest.mark.parametrize("name", ["vit_b16", "vit_l32", "swin_t"])
def test_transformers_that_want_larger_images_name_the_small_networks(name: str) -> None:
    with pytest.raises(ValueError, match=r"got 28\. Networks for small images: .*vit_tiny"):
        networks.create(name, 10, 28)


def test_name_is_the_one_it_was_created_by_else_the_class_of_its_module() -> None:
    vgg, lenet = networks.create("vgg11", 4, 16), networks.create("lenet", 4, 16)
    assert vgg.name == "vgg11"
    assert networks.Network(vgg.module, mean=0.5, std=0.5).name == type(vgg.module).__name__
    assert networks.Ensemble([vgg, lenet]).name == "vgg11 + lenet"
