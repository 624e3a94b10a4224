"""`width`: layers scale with it, its default is the published network, and wrong values are refused."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from farout import networks
from farout.networks import NETWORKS
from farout.registry import UnknownName

DEFAULTS = {
    "lenet": 6, "alexnet": 64, "vgg11": 64, "vgg16": 64, "resnet18": 64, "resnet34": 64, "resnet50": 64,
    "resnet152": 64, "allconv": 96, "densenet121": 64, "densenet_bc100": 24, "wrn28_10": 16, "wrn40_2": 16,
    **{f"resnet{depth}": 16 for depth in (20, 32, 44, 56, 110)},
}  # fmt: skip
"""Channels of the first convolution of the published networks."""


def shapes(name: str, **params: Any) -> list[tuple[str, torch.Size]]:
    with torch.device("meta"):
        module: nn.Module = NETWORKS[name](classes=10, side=32, channels=3, **params)
    return [(key, value.shape) for key, value in module.state_dict().items()]


def test_all_networks_with_a_width_are_known() -> None:
    assert {name for name in networks.names() if networks.parameters(name) == ["width"]} == set(DEFAULTS)
    assert networks.parameters("vit_tiny") == networks.parameters("vit_b16") == []


@pytest.mark.parametrize(("name", "width"), DEFAULTS.items())
def test_layers_scale_with_the_width(name: str, width: int) -> None:
    """Every number of channels but those of images and classes is doubled; kernels stay."""
    published, doubled = shapes(name), dict(shapes(name, width=2 * width))
    assert published == shapes(name, width=width)
    for key, shape in published:
        fixed = [key in ("conv1.weight", "stage1.0.weight") and axis == 1 for axis in range(len(shape))]
        fixed = [here or (key.startswith("linear.") and axis == 0) for axis, here in enumerate(fixed)]
        expected = [n if stays or axis > 1 else 2 * n for axis, (n, stays) in enumerate(zip(shape, fixed, strict=True))]
        assert list(doubled[key]) == expected, key


def test_a_narrow_resnet18_has_stages_of_these_channels() -> None:
    network = networks.create("resnet18", 10, 28, 1, width=16)
    blocks = network(torch.rand(2, 1, 28, 28, generator=torch.Generator().manual_seed(0))).blocks
    assert [block.shape[1] for block in blocks.values()] == [16, 32, 64, 128]
    assert network.head is not None
    assert network.head.weight.shape == (10, 128)


def test_the_published_width_is_the_same_network() -> None:
    assert networks.create("lenet", 10, 28, 1, width=6).digest == networks.create("lenet", 10, 28, 1).digest
    assert networks.create("lenet", 10, 28, 1, width=5).digest != networks.create("lenet", 10, 28, 1).digest


@pytest.mark.parametrize("width", [0, -4, 2.5, "16", True, 10**6, None])
def test_a_width_is_a_number_of_channels(width: Any) -> None:
    with pytest.raises(ValueError, match=r"network 'lenet': expected width from 1 to 1024, got"):
        networks.create("lenet", 10, 28, 1, width=width)


def test_a_densenet_needs_an_even_width() -> None:
    with pytest.raises(ValueError, match="twice the growth rate, expected an even number, got 15"):
        networks.create("densenet121", 10, 32, width=15)


def test_unknown_parameters_are_refused_with_the_known_ones() -> None:
    with pytest.raises(UnknownName, match=r"unknown parameter of network 'resnet18': 'widht'. Did you mean 'width'\?"):
        networks.create("resnet18", 10, 32, widht=16)
    with pytest.raises(UnknownName, match=r"unknown parameter of network 'vit_tiny': 'width'. Known: none"):
        networks.create("vit_tiny", 10, 32, width=16)


def test_the_large_form_has_its_published_width() -> None:
    pytest.importorskip("timm")
    with pytest.raises(ValueError, match="resnet18 is built by timm, without parameters, got width: from 96 px on"):
        networks.create("resnet18", 10, 224, width=16)
