"""Checkpoints of the authors of OE, GOOD and ATOM: files in their layout give the networks that they describe."""

from __future__ import annotations

import math
from typing import TypeVar

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from farout.detectors.trained.atom import ATOM
from farout.detectors.trained.ceda import CEDA
from farout.detectors.trained.classifier import ClassifierDetector
from farout.detectors.trained.detector import INPUTS, Inputs
from farout.detectors.trained.good import GOOD
from farout.detectors.trained.oe import OE
from farout.detectors.trained.rowl import ROWL

IMAGES = torch.rand(2, 3, 32, 32, generator=torch.Generator().manual_seed(0))
Layers = dict[str, nn.Module]
D = TypeVar("D", bound=ClassifierDetector)


def filled(layers: Layers) -> dict[str, Tensor]:
    """Give layers random weights of a usual size; return them by the layers' names."""
    rng = torch.Generator().manual_seed(1)
    for layer in layers.values():
        for value in layer.state_dict().values():
            if value.is_floating_point():
                fan = value[0].numel() if value.ndim > 1 else 0
                drawn = torch.rand(value.shape, generator=rng)
                value.copy_((2 * drawn - 1) * math.sqrt(3 / fan) if fan else 0.5 + drawn)
        layer.eval()
    return {f"{name}.{key}": value for name, one in layers.items() for key, value in one.state_dict().items()}


def loaded(detector: D, tensors: dict[str, Tensor]) -> D:
    """Load tensors of the authors' names, for images of CIFAR-10."""
    detector.load_state_dict({INPUTS: torch.tensor(Inputs(3, 32, 10)), **detector.import_state(tensors)})
    return detector


@torch.no_grad()
def test_oe() -> None:
    layers: Layers = {"classifier": nn.Linear(192, 10)}
    inputs = 3
    for number, outputs in zip((0, 3, 6, 11, 14, 17, 22, 25, 28), (96,) * 3 + (192,) * 6, strict=True):
        kernel, padding = (1, 1) if number > 22 else (3, int(number < 22))
        layers[f"features.{number}"] = nn.Conv2d(inputs, outputs, kernel, padding=padding)
        layers[f"features.{number + 1}"] = nn.BatchNorm2d(outputs)
        inputs = outputs
    detector = loaded(OE(preset="full"), filled(layers))
    x = (IMAGES - torch.tensor([125.3, 123.0, 113.9]).view(3, 1, 1) / 255) / (
        torch.tensor([63.0, 62.1, 66.7]).view(3, 1, 1) / 255
    )
    for number in (0, 3, 6, 11, 14, 17, 22, 25, 28):
        x = layers[f"features.{number + 1}"](layers[f"features.{number}"](x))
        x = x * (1.702 * x).sigmoid()
        x = F.max_pool2d(x, 2) if number in (6, 17) else x
    logits = layers["classifier"](F.avg_pool2d(x, 8).flatten(1))
    torch.testing.assert_close(detector.network(IMAGES).logits, logits, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(detector.score(IMAGES), 1 - logits.double().softmax(1).amax(1), rtol=1e-3, atol=1e-6)


@pytest.mark.parametrize("kind", [CEDA, GOOD])
@torch.no_grad()
def test_good_and_its_kin(kind: type[CEDA]) -> None:
    widths, strides = (3, 128, 128, 256, 256, 256), (1, 1, 2, 1, 1)
    layers: Layers = {
        f"C{index + 1}": nn.Conv2d(widths[index], widths[index + 1], 3, stride, 1)
        for index, stride in enumerate(strides)
    }
    layers |= {"L6": nn.Linear(256 * 16 * 16, 512), "L7": nn.Linear(512, 512), "L8": nn.Linear(512, 10)}
    detector = loaded(kind(preset="full"), filled(layers))
    x = IMAGES
    for index in range(1, 6):
        x = layers[f"C{index}"](x).relu()
    logits = layers["L8"](layers["L7"](layers["L6"](x.flatten(1)).relu()).relu())
    torch.testing.assert_close(detector.network(IMAGES).logits, logits, rtol=1e-4, atol=1e-4)


@torch.no_grad()
def test_atom_and_rowl() -> None:
    layers: Layers = {"conv1": nn.Conv2d(3, 24, 3, padding=1, bias=False)}
    width = 24
    for block in (1, 2, 3):
        for index in range(16):
            name = f"block{block}.layer.{index}"
            layers |= {f"{name}.bn1": nn.BatchNorm2d(width), f"{name}.conv1": nn.Conv2d(width, 48, 1, bias=False)}
            layers |= {f"{name}.bn2": nn.BatchNorm2d(48), f"{name}.conv2": nn.Conv2d(48, 12, 3, padding=1, bias=False)}
            width += 12
        if block < 3:
            layers[f"trans{block}.bn1"] = nn.BatchNorm2d(width)
            layers[f"trans{block}.conv1"] = nn.Conv2d(width, width // 2, 1, bias=False)
            width //= 2
    layers |= {"bn1": nn.BatchNorm2d(width), "fc": nn.Linear(width, 11)}
    state = filled(layers)
    x = (IMAGES - torch.tensor([125.3, 123.0, 113.9]).view(3, 1, 1) / 255) / (
        torch.tensor([63.0, 62.1, 66.7]).view(3, 1, 1) / 255
    )
    x = layers["conv1"](x)
    for block in (1, 2, 3):
        for index in range(16):
            name = f"block{block}.layer.{index}"
            out = layers[f"{name}.conv1"](layers[f"{name}.bn1"](x).relu())
            x = torch.cat([x, layers[f"{name}.conv2"](layers[f"{name}.bn2"](out).relu())], 1)
        if block < 3:
            x = F.avg_pool2d(layers[f"trans{block}.conv1"](layers[f"trans{block}.bn1"](x).relu()), 2)
    logits = layers["fc"](F.avg_pool2d(layers["bn1"](x).relu(), 8).flatten(1))
    for detector in (loaded(ATOM(preset="full"), state), loaded(ROWL(preset="full"), state)):
        torch.testing.assert_close(detector.network(IMAGES).logits, logits, rtol=1e-3, atol=1e-3)


def test_a_missing_layer_is_named() -> None:
    with pytest.raises(KeyError, match=r"C2\.weight"):
        GOOD(preset="full").import_state({"C1.weight": torch.zeros(1)})
