"""Parameter counts, derived from published ones: what a small-image form takes away and adds is spelled out."""

from __future__ import annotations

import pytest
import torch

from farout.networks import NETWORKS

STEM = 3 * 7 * 7 * 64, 3 * 3 * 3 * 64
"""Weights of the 7×7 convolution of ImageNet networks and of the 3×3 one that replaces it."""

# Counts of torchvision's ImageNet networks, 1000 classes: `num_params` in the meta data of its weights (0.28.0).
IMAGENET = {
    "alexnet": 61_100_840,
    "densenet121": 7_978_856,
    "inception_v3": 27_161_264,
    "resnet18": 11_689_512,
    "resnet34": 21_797_672,
    "resnet50": 25_557_032,
    "resnet152": 60_192_808,
    "vgg11": 132_868_840,
    "vgg16": 138_365_992,
}
DEIT_TINY = 5_717_416  # timm's vit_tiny_patch16_224, counted in test_timm_bridge.py


def count(name: str, classes: int = 10, side: int = 32, channels: int = 3) -> int:
    with torch.device("meta"):
        return sum(p.numel() for p in NETWORKS[name](classes=classes, side=side, channels=channels).parameters())


def linear(inputs: int, outputs: int) -> int:
    return inputs * outputs + outputs


@pytest.mark.parametrize(
    ("name", "width"), [("resnet18", 512), ("resnet34", 512), ("resnet50", 2048), ("resnet152", 2048)]
)
def test_resnets_are_those_of_imagenet_with_another_stem_and_head(name: str, width: int) -> None:
    assert count(name) == IMAGENET[name] - linear(width, 1000) + linear(width, 10) - STEM[0] + STEM[1]


def test_densenet_is_that_of_imagenet_without_the_stems_batch_norm() -> None:
    head = linear(1024, 10) - linear(1024, 1000)
    assert count("densenet121") == IMAGENET["densenet121"] + head - STEM[0] - 2 * 64 + STEM[1]


@pytest.mark.parametrize("name", ["vgg11", "vgg16"])
def test_vgg_is_that_of_imagenet_with_one_linear_layer_for_three(name: str) -> None:
    three = linear(512 * 7 * 7, 4096) + linear(4096, 4096) + linear(4096, 1000)
    assert count(name) == IMAGENET[name] - three + linear(512, 10)


def test_alexnet_is_that_of_imagenet_with_one_linear_layer_for_three() -> None:
    three = linear(256 * 6 * 6, 4096) + linear(4096, 4096) + linear(4096, 1000)
    assert count("alexnet") == IMAGENET["alexnet"] - three + linear(256, 10)


def test_inception_is_that_of_imagenet_without_the_auxiliary_head() -> None:
    auxiliary = 768 * 128 + 2 * 128 + 5 * 5 * 128 * 768 + 2 * 768 + linear(768, 1000)
    assert count("inception_v3", classes=1000) == IMAGENET["inception_v3"] - auxiliary


@pytest.mark.parametrize(("depth", "millions"), [(20, "0.27"), (32, "0.46"), (44, "0.66"), (56, "0.85"), (110, "1.7")])
def test_cifar_resnets_have_the_counts_of_he_2016_table_6(depth: int, millions: str) -> None:
    n = (depth - 2) // 6
    convolutions = 3 * 16 + 16 * 32 + 32 * 64  # the stem and the first of stages 2 and 3, times 3 × 3
    convolutions += 2 * n * 16**2 + (2 * n - 1) * (32**2 + 64**2)
    norms = 2 * 16 + 2 * 2 * n * (16 + 32 + 64)
    assert count(f"resnet{depth}") == 9 * convolutions + norms + linear(64, 10)
    assert f"{count(f'resnet{depth}') / 1e6:.{len(millions) - 2}f}" == millions


@pytest.mark.parametrize(("name", "depth", "k", "millions"), [("wrn28_10", 28, 10, 36.5), ("wrn40_2", 40, 2, 2.2)])
def test_wide_resnets_have_the_counts_of_zagoruyko_2016(name: str, depth: int, k: int, millions: float) -> None:
    n, widths = (depth - 4) // 6, (16 * k, 32 * k, 64 * k)
    total, inputs = 9 * 3 * 16, 16
    for width in widths:
        total += 9 * (inputs * width + (2 * n - 1) * width**2) + inputs * width  # 3×3 convolutions, 1×1 shortcut
        total += 2 * (inputs + (2 * n - 1) * width)  # batch norms
        inputs = width
    assert count(name) == total + 2 * inputs + linear(inputs, 10)
    assert round(count(name) / 1e6, 1) == millions


def test_wrn28_10_has_the_count_public_model_zoos_assert() -> None:
    assert count("wrn28_10") == 36_479_194


@pytest.mark.parametrize(("channels", "known"), [(1, 61_706), (3, 62_006)])
def test_lenet_layer_by_layer(channels: int, known: int) -> None:
    layers = linear(25 * channels, 6) + linear(25 * 6, 16) + linear(400, 120) + linear(120, 84) + linear(84, 10)
    assert count("lenet", channels=channels) == layers == known


def test_vit_tiny_is_deit_tiny_with_other_patches() -> None:
    def of(patch: int, tokens: int, classes: int) -> int:
        block = linear(192, 576) + linear(192, 192) + linear(192, 768) + linear(768, 192) + 2 * 2 * 192
        ends = linear(3 * patch**2, 192) + 192 + (tokens + 1) * 192 + 2 * 192 + linear(192, classes)
        return 12 * block + ends

    assert of(16, 14 * 14, 1000) == DEIT_TINY
    assert count("vit_tiny") == of(4, 8 * 8, 10)
    assert count("vit_tiny", side=64) == of(8, 8 * 8, 10)


def test_allconv_and_densenet_bc100_have_the_counts_of_the_authors_files() -> None:
    assert count("allconv") == 1_409_674
    assert count("densenet_bc100", classes=11) == 769_505
