"""Convolutional networks without normalization, whose outputs interval bounds can follow (Bitterwolf et al. 2020)."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor, nn

from farout.detectors.trained.detector import Inputs, Preset
from farout.networks.network import Network


class Layout(NamedTuple):
    """Channels and strides of the 3×3 convolutions, and widths of the hidden linear layers."""

    channels: tuple[int, ...]
    strides: tuple[int, ...]
    hidden: tuple[int, ...]


LAYOUTS: dict[Preset, Layout] = {
    "small": Layout((32, 64, 64), (1, 2, 2), (64,)),
    "full": Layout((128, 128, 256, 256, 256), (1, 1, 2, 1, 1), (512, 512)),
}
"""A small network, and XL of GOOD's authors."""


class PlainNetwork(nn.Module):
    """3×3 convolutions and linear layers, each with ReLU, and a linear head; no normalization."""

    block_names = ()

    def __init__(self, layout: Layout, inputs: Inputs) -> None:
        super().__init__()
        self.side, width, remaining = inputs.side, inputs.channels, inputs.side
        layers: list[nn.Module] = []
        for channels, stride in zip(layout.channels, layout.strides, strict=True):
            layers += [nn.Conv2d(width, channels, 3, stride, 1), nn.ReLU()]
            width, remaining = channels, (remaining - 1) // stride + 1
        layers.append(nn.Flatten())
        width *= remaining**2
        for units in layout.hidden:
            layers += [nn.Linear(width, units), nn.ReLU()]
            width = units
        self.features, self.linear = nn.Sequential(*layers), nn.Linear(width, inputs.classes)

    def forward(self, x: Tensor) -> Tensor:
        return self.linear(self.features(x))  # type: ignore[no-any-return]


def plain_network(preset: Preset, inputs: Inputs) -> Network:
    """Return the preset's network; its input is not normalized."""
    none = [0.0] * inputs.channels
    return Network(PlainNetwork(LAYOUTS[preset], inputs), mean=none, std=[1.0] * inputs.channels)
