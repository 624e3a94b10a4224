"""Autoencoder: reconstruction error (Yoon et al. 2022, "Evaluating Out-of-Distribution Detectors Through Adversarial
Generation of Outliers", appendix E and Table 4)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from farout.core import ImageSet
from farout.detectors.catalog import register
from farout.detectors.trained.detector import BY_PRESET, INPUTS, Inputs, Preset, TrainedDetector, TrainingSets
from farout.identity import Json
from farout.training import Batch, Context, Recipe, Stage, Task

ENCODER = {0: "conv1", 1: "norm", 3: "conv2", 4: "norm", 6: "conv3", 7: "norm", 9: "conv4", 10: "norm", 12: "fc1",
           13: "norm", 15: "fc2"}  # fmt: skip
DECODER = {0: "fc1", 2: "conv1", 4: "conv2", 6: "conv3"}
"""Names of the layers in the authors' code, by place."""
STATISTICS_OF_NORM = ("running_mean", "running_var")


class Reconstruction(Task):
    """Reconstruct images; the loss is the squared error per value, and the best validation error is kept."""

    stages = (Stage(keep="min"),)
    figure = "validation error"

    def __init__(self, detector: AE, val: ImageSet) -> None:
        self.detector, self.val, self.modules = detector, val, detector.modules

    @property
    def identity(self) -> Json:
        return {"name": "reconstruction", "version": 2, "validation": self.val.fingerprint}

    def loss(self, player: str, batch: Batch, context: Context) -> Tensor:
        return self.detector.errors(batch.images).mean()

    @torch.no_grad()
    def validate(self, context: Context) -> float:
        for module in self.modules.values():
            module.eval()
        total = sum(float(self.detector.errors(part.to(context.device)).double().sum()) for part in self.val)
        return total / len(self.val)


@register
@dataclass(kw_only=True, eq=False)
class AE(TrainedDetector):
    """Mean squared error of the reconstruction by an autoencoder."""

    name = "ae"
    version = 2
    presets: ClassVar[Mapping[Preset, Mapping[str, Any]]] = {
        "small": {"width": 32, "latent": 64},
        "full": {"width": 128, "latent": 128},
    }
    width: int = BY_PRESET
    """Channels of the first convolution; the others have 2, 4 and 8 times as many."""
    latent: int = BY_PRESET
    """Size of the code."""

    def recipe(self) -> Recipe:
        epochs, lr = (500, 1e-4) if self.preset == "full" else (20, 1e-3)
        return Recipe(
            epochs=epochs, batch=128, optimizer="adam", lr=lr, weight_decay=0.0, schedule="constant", augment="none"
        )

    def build(self, inputs: Inputs) -> dict[str, nn.Module]:
        return {
            "encoder": encoder(inputs.channels, inputs.side, self.width, self.latent),
            "decoder": decoder(inputs.channels, inputs.side, self.width, self.latent),
        }

    def task(self, sets: TrainingSets) -> Task:
        return Reconstruction(self, sets.val)

    def compute(self, images: Tensor) -> Tensor:
        return self.errors(images)

    def import_state(self, tensors: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
        """Return our tensors from those of the public code of "Evaluation via Generation".

        Every layer is there by its name and as `*.net.N`, its place; batch norms only by their place.
        """
        state: dict[str, Tensor] = {}
        for names, part in ((ENCODER, "encoder"), (DECODER, "decoder")):
            for place, name in names.items():
                found = name if f"{part}.{name}.weight" in tensors else f"net.{place}"
                state |= {
                    f"{part}.{place}.{key}": tensors[f"{part}.{found}.{key}"]
                    for key in ("weight", "bias", *(STATISTICS_OF_NORM if name == "norm" else ()))
                }
        channels, side = state["encoder.0.weight"].shape[1], 4 * state["decoder.0.weight"].shape[2]
        return {INPUTS: torch.tensor(Inputs(channels, side, 0)), **state}

    def errors(self, images: Tensor) -> Tensor:
        """Return the mean squared error of every image, [B]."""
        rebuilt: Tensor = self.modules["decoder"](self.modules["encoder"](images))
        return (rebuilt - images).square().flatten(1).mean(1)


def encoder(channels: int, side: int, width: int, latent: int) -> nn.Sequential:
    """Return the encoder of Table 4: four convolutions of stride 2 and two linear layers, as convolutions over all
    positions that are left.

    The fourth convolution is 2×2; the table prints 4×4, which does not fit on the 2×2 positions of a 32 px image. At
    28 px one position is left, and it is 1×1.
    """
    layers: list[nn.Module] = []
    inputs, remaining = channels, side
    for outputs, size in ((width, 4), (2 * width, 4), (4 * width, 4), (8 * width, 2)):
        kernel = min(size, remaining)
        layers += [nn.Conv2d(inputs, outputs, kernel, 2), nn.BatchNorm2d(outputs), nn.ReLU()]
        inputs, remaining = outputs, (remaining - kernel) // 2 + 1
    layers += [nn.Conv2d(inputs, 8 * width, remaining), nn.BatchNorm2d(8 * width), nn.ReLU()]
    return nn.Sequential(*layers, nn.Conv2d(8 * width, latent, 1), nn.Tanh())


def decoder(channels: int, side: int, width: int, latent: int) -> nn.Sequential:
    """Return the decoder of Table 4: a transposed convolution to a quarter of the side, and two that double it."""
    return nn.Sequential(
        nn.ConvTranspose2d(latent, 8 * width, side // 4), nn.ReLU(),
        nn.ConvTranspose2d(8 * width, 4 * width, 4, 2, 1), nn.ReLU(),
        nn.ConvTranspose2d(4 * width, 2 * width, 4, 2, 1), nn.ReLU(),
        nn.Conv2d(2 * width, channels, 1), nn.Sigmoid(),
    )  # fmt: skip
