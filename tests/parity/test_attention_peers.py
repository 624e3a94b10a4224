"""Grad-CAM beside pytorch-grad-cam, SSIM beside scikit-image and torchmetrics."""

from __future__ import annotations

import importlib
import importlib.util
import math
import warnings
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

import farout
from farout.attention import grad_cam
from farout.metrics import ssim
from farout.networks.network import Network
from farout.optional import mend_torchvision
from helpers.peer import images, small_network

needs_timm = pytest.mark.skipif(importlib.util.find_spec("timm") is None, reason='needs pip install "farout[timm]"')


def peer(name: str) -> Any:
    """A package; the tests that ask are skipped where it cannot be imported."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            if importlib.util.find_spec("torchvision"):
                mend_torchvision()  # which is broken on CPU builds of torch
            return importlib.import_module(name)
        except ImportError as error:
            pytest.skip(f"{name} cannot be imported ({error}); `make parity` installs what benchmarks/ names")


def patches(tokens: Tensor) -> Tensor:
    """Tokens behind a class token as maps, as its users are told to write it."""
    side = math.isqrt(tokens.shape[1] - 1)
    return tokens[:, 1:].reshape(len(tokens), side, side, -1).permute(0, 3, 1, 2)


def channels_first(maps: Tensor) -> Tensor:
    return maps.permute(0, 3, 1, 2)


def theirs(network: Network, layer: str, given: Tensor, classes: list[int] | None, reshape: Any = None) -> Tensor:
    """Its maps, scaled before and after the resizing: the first scaling is undone by the second."""
    package = peer("pytorch_grad_cam")
    targets = [package.utils.model_targets.ClassifierOutputTarget(one) for one in classes] if classes else None
    with package.GradCAM(network.module, [network.module.get_submodule(layer)], reshape_transform=reshape) as cam:
        return torch.from_numpy(cam(network.normalize(given), targets))


def farthest(ours: Tensor, other: Tensor) -> float:
    """The largest difference, where the maps say something."""
    assert ours.shape == other.shape
    assert (ours.amax((1, 2)) == 1).sum() > len(ours) / 2  # nothing may speak for a class that is not predicted
    assert ours.std() > 0.1
    return float((ours - other).abs().max())


@pytest.mark.parametrize("classes", [None, [3, 1, 4, 1, 5, 9]])
@pytest.mark.parametrize("layer", [None, "layer2"])
def test_a_residual_network(layer: str | None, classes: list[int] | None) -> None:
    network, given = small_network(), images(6, seed=1)
    other = theirs(network, layer or "layer3", given, classes)
    assert farthest(grad_cam(network, given, classes, layer), other) < 1e-5


def test_our_transformer_at_the_norm_it_recommends() -> None:
    network, given = farout.networks.create("vit_tiny", classes=10, side=32), images(4, seed=1)
    assert farthest(grad_cam(network, given), theirs(network, "blocks.11.norm1", given, None, patches)) < 1e-5


@needs_timm
def test_timms_transformer_at_the_norm_it_recommends() -> None:
    network = farout.networks.create("vit_tiny", classes=10, side=96)
    given = torch.nn.functional.interpolate(images(3, seed=1), (96, 96), mode="bilinear")
    assert type(network.module).__module__.startswith("timm")
    assert farthest(grad_cam(network, given), theirs(network, "blocks.11.norm1", given, None, patches)) < 1e-5
    earlier = theirs(network, "blocks.10", given, [1, 2, 3], patches)
    assert farthest(grad_cam(network, given, [1, 2, 3], "blocks.10"), earlier) < 1e-5


@needs_timm
@pytest.mark.parametrize("layer", [None, "layers.2.blocks.1.norm1"])
def test_timms_swin_with_its_channels_last(layer: str | None) -> None:
    network = farout.networks.create("swin_t", classes=10, side=96)
    given = torch.nn.functional.interpolate(images(3, seed=1), (96, 96), mode="bilinear")
    other = theirs(network, layer or "layers.3", given, None, channels_first)
    assert farthest(grad_cam(network, given, layer=layer), other) < 1e-5


def maps(side: int) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Attention maps of two batches of images, [6, side, side], and one pair alike."""
    network = small_network()
    before, after = (grad_cam(network, images(6, seed)) for seed in (1, 2))
    after[3] = before[3]
    resized = (torch.nn.functional.interpolate(one[:, None], (side, side), mode="bilinear") for one in (before, after))
    first, second = (one[:, 0].clamp(0, 1).numpy() for one in resized)
    return first, second


@pytest.mark.parametrize("side", [32, 47, 11])
def test_ssim_of_scikit_image(side: int) -> None:
    """Its mean leaves the border out; of the full map, the border is cut off here."""
    metrics, (first, second) = peer("skimage.metrics"), maps(side)
    found = ssim(torch.from_numpy(first), torch.from_numpy(second)).numpy()
    options = {"data_range": 1, "gaussian_weights": True, "sigma": 1.5, "use_sample_covariance": False}
    for one, other, ours in zip(first.astype(float), second.astype(float), found, strict=True):
        mean, full = metrics.structural_similarity(one, other, full=True, **options)
        assert abs(mean - ours) < 1e-10
        assert abs(full[5:-5, 5:-5].mean() - ours) < 1e-10
    assert found.std() > 0.1


@pytest.mark.parametrize("side", [32, 47])
def test_ssim_of_torchmetrics(side: int) -> None:
    """Its mean takes in the mirrored border; of the full map, the windows that lie inside are ours."""
    package = peer("torchmetrics.functional.image")
    first, second = (torch.from_numpy(one)[:, None].double() for one in maps(side))
    measure = package.structural_similarity_index_measure
    mean, full = measure(first, second, data_range=1.0, reduction="none", return_full_image=True)
    found = ssim(first[:, 0], second[:, 0])
    torch.testing.assert_close(found, full[:, 0, 5:-5, 5:-5].mean((1, 2)), rtol=0, atol=1e-10)
    assert (found - mean).abs().max() > 0.01
