"""DCGAN (Radford et al. 2016), with the layers and settings of the PyTorch example."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar

from torch import nn

from farout.checks import check_count
from farout.generators.gan import Gan, GanTask
from farout.generators.generator import GENERATORS


class DCGANTask(GanTask):
    """Training in the order of the PyTorch example."""

    reuses = True


@GENERATORS.register("dcgan")
@dataclass(kw_only=True, eq=False)
class DCGAN(Gan):
    """Deep convolutional GAN, trained with the non-saturating loss.

    The defaults are those of the PyTorch example, at any power of two. Samples use the running statistics of batch
    norms.
    """

    name = "dcgan"
    dim: int = 100
    """Coordinates of the normal latent."""
    width: int = 64
    """Channels of the layers next to the image; they double with every halving of the side."""
    task_type: ClassVar[type[GanTask]] = DCGANTask
    settings: ClassVar[Mapping[str, Any]] = {}

    def __post_init__(self) -> None:
        super().__post_init__()
        check_count("dcgan: dim", self.dim)

    @property
    def widths(self) -> list[int]:
        """Channels at 4, 8, 16, … px, up to half the side."""
        ups = (self.module_side // 4).bit_length() - 1
        return [self.width << step for step in reversed(range(ups))]

    def build(self) -> nn.Module:
        widths = self.widths
        layers: list[nn.Module] = [
            nn.Unflatten(1, (self.dim, 1, 1)),
            nn.ConvTranspose2d(self.dim, widths[0], 4, bias=False),
        ]
        for inputs, outputs in zip(widths, [*widths[1:], self.channels], strict=True):
            layers += [nn.BatchNorm2d(inputs), nn.ReLU(True), nn.ConvTranspose2d(inputs, outputs, 4, 2, 1, bias=False)]
        return initialize(nn.Sequential(*layers, nn.Tanh()))

    def discriminator(self) -> nn.Module:
        widths = self.widths[::-1]
        layers: list[nn.Module] = [nn.Conv2d(self.channels, widths[0], 4, 2, 1, bias=False), nn.LeakyReLU(0.2, True)]
        for inputs, outputs in pairwise(widths):
            layers += [
                nn.Conv2d(inputs, outputs, 4, 2, 1, bias=False),
                nn.BatchNorm2d(outputs),
                nn.LeakyReLU(0.2, True),
            ]
        return initialize(nn.Sequential(*layers, nn.Conv2d(widths[-1], 1, 4, bias=False), nn.Flatten()))


def initialize(module: nn.Sequential | nn.Module) -> nn.Module:
    """Draw convolutions from N(0, 0.02) and scales of batch norms from N(1, 0.02) (Radford et al. 2016, section 4)."""
    for part in module.modules():
        if isinstance(part, nn.Conv2d | nn.ConvTranspose2d):
            nn.init.normal_(part.weight, 0.0, 0.02)
        elif isinstance(part, nn.BatchNorm2d):
            nn.init.normal_(part.weight, 1.0, 0.02)
    return module
