"""Generator network of StyleGAN2: mapping of latents to styles, and synthesis of images from styles."""

from __future__ import annotations

import math
from itertools import pairwise

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from farout.generators.stylegan2.fir import upsample
from farout.generators.stylegan2.layers import Linear, activate, modulated_convolution, normalize

SMALLEST = 4
"""Side of the learned constant."""
RATE = 0.01
"""Learning-rate multiplier of mapping networks."""
MEAN_DECAY = 0.998
"""Decay of the moving average of styles."""


def widths(side: int, width: int) -> dict[int, int]:
    """Return the channels at every resolution from 4 px: at most `width`.

    width 512 gives min(32768 / resolution, 512) up to 32 px, and min(16384 / resolution, 512) above.
    """
    base = width * (64 if side <= 32 else 32)
    resolutions = (SMALLEST * 2**level for level in range(int(math.log2(side // SMALLEST)) + 1))
    return {resolution: max(1, min(base // resolution, width)) for resolution in resolutions}


class Mapping(nn.Module):
    """Fully connected network from normalized latents, class embeddings or both to styles [B, style]."""

    def __init__(self, latent: int, classes: int, style: int, layers: int) -> None:
        super().__init__()
        self.latent, self.classes = latent, classes
        self.embedding = Linear(classes, style) if classes else None
        inputs = latent + (style if classes else 0)
        sizes = [inputs] + [style] * layers
        self.layers = nn.Sequential(*(Linear(a, b, active=True, rate=RATE) for a, b in pairwise(sizes)))

    def forward(self, z: Tensor | None, labels: Tensor | None = None) -> Tensor:
        parts = [] if z is None else [normalize(z)]
        if self.embedding is not None:
            if labels is None:
                raise ValueError(f"this network has {self.classes} classes: pass the labels of the images")
            one_hot = F.one_hot(labels, self.classes).to(self.embedding.weight.dtype)
            parts.append(normalize(self.embedding(one_hot)))
        return self.layers(torch.cat(parts, 1))  # type: ignore[no-any-return]


class StyledConvolution(nn.Module):
    """Modulated 3×3 convolution, noise with a learned strength that starts at 0, bias and leaky ReLU."""

    def __init__(self, inputs: int, outputs: int, style: int, side: int, *, up: bool) -> None:
        super().__init__()
        self.up = up
        self.affine = Linear(style, inputs, bias=1.0)
        self.weight = nn.Parameter(torch.randn(outputs, inputs, 3, 3))
        self.bias = nn.Parameter(torch.zeros(outputs))
        self.strength = nn.Parameter(torch.zeros(()))
        self.noise: Tensor
        self.register_buffer("noise", torch.randn(side, side))

    def forward(self, x: Tensor, style: Tensor, *, fixed: bool) -> Tensor:
        """Return the next feature maps; `fixed`: the noise is the stored one instead of a new one for every image."""
        x = modulated_convolution(x, self.weight, self.affine(style), up=self.up, demodulate=True)
        noise = self.noise if fixed else torch.randn(len(x), 1, *x.shape[2:], device=x.device, dtype=x.dtype)
        return activate(x + noise * self.strength + self.bias[:, None, None])


class ToImage(nn.Module):
    """Modulated 1×1 convolution to the channels of images, without demodulation (toRGB)."""

    def __init__(self, inputs: int, channels: int, style: int) -> None:
        super().__init__()
        self.gain = 1 / math.sqrt(inputs)
        self.affine = Linear(style, inputs, bias=1.0)
        self.weight = nn.Parameter(torch.randn(channels, inputs, 1, 1))
        self.bias = nn.Parameter(torch.zeros(channels))

    def forward(self, x: Tensor, style: Tensor) -> Tensor:
        out = modulated_convolution(x, self.weight, self.affine(style) * self.gain, demodulate=False)
        return out + self.bias[:, None, None]


class Synthesis(nn.Module):
    """Learned constant at 4 px, two styled convolutions at every later resolution, and a sum of images of all."""

    def __init__(self, side: int, channels: int, width: int, style: int) -> None:
        super().__init__()
        per_side = widths(side, width)
        self.constant = nn.Parameter(torch.randn(per_side[SMALLEST], SMALLEST, SMALLEST))
        self.convolutions = nn.ModuleList()
        self.to_image = nn.ModuleList()
        before = per_side[SMALLEST]
        for resolution, now in per_side.items():
            if resolution > SMALLEST:
                self.convolutions.append(StyledConvolution(before, now, style, resolution, up=True))
            self.convolutions.append(StyledConvolution(now, now, style, resolution, up=False))
            self.to_image.append(ToImage(now, channels, style))
            before = now

    @property
    def styles(self) -> int:
        """Number of styles: one per convolution, and one for the last image."""
        return len(self.convolutions) + 1

    def forward(self, styles: Tensor, *, fixed: bool) -> Tensor:
        """Return images in about [−1, 1] from styles [B, number, style].

        The image of a resolution uses the style of the first convolution of the next one.
        """
        x = self.constant.expand(len(styles), -1, -1, -1)
        x = self.convolutions[0](x, styles[:, 0], fixed=fixed)
        image: Tensor = self.to_image[0](x, styles[:, 1]).to(self.constant.dtype)
        for level, to_image in enumerate(self.to_image[1:], start=1):
            x = self.convolutions[2 * level - 1](x, styles[:, 2 * level - 1], fixed=fixed)
            x = self.convolutions[2 * level](x, styles[:, 2 * level], fixed=fixed)
            with torch.autocast(image.device.type, enabled=False):  # flat areas stay flat
                image = upsample(image)
            image = image + to_image(x, styles[:, 2 * level + 1])
        return image


class StyleNetwork(nn.Module):
    """Mapping and synthesis, with the moving average of styles, toward which samples can be truncated."""

    def __init__(
        self, side: int, channels: int, *, latent: int, style: int, width: int, layers: int = 2, classes: int = 0
    ) -> None:
        super().__init__()
        self.mapping = Mapping(latent, classes, style, layers)
        self.synthesis = Synthesis(side, channels, width, style)
        self.mean: Tensor
        self.register_buffer("mean", torch.zeros(style))

    def styles(self, z: Tensor, labels: Tensor | None = None) -> Tensor:
        """Return the styles of latents [B, number, style], all equal; in training they enter the moving average."""
        style: Tensor = self.mapping(z, labels)
        if self.training:
            self.mean.lerp_(style.detach().mean(0).to(self.mean), 1 - MEAN_DECAY)
        return style[:, None].expand(-1, self.synthesis.styles, -1)

    def truncated(self, styles: Tensor, psi: float, levels: int | None = None) -> Tensor:
        """Return styles pulled toward their mean, mean + psi (style − mean), in the first `levels` or all."""
        pulled = self.mean.lerp(styles, psi)
        return pulled if levels is None else torch.cat([pulled[:, :levels], styles[:, levels:]], 1)

    def forward(self, z: Tensor, labels: Tensor | None = None) -> Tensor:
        """Return images in about [−1, 1]: in training with new noise, else with the stored one."""
        return self.synthesis(self.styles(z, labels), fixed=not self.training)  # type: ignore[no-any-return]
