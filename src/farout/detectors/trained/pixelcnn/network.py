"""Network of PixelCNN++: two streams, up and down three resolutions with skip connections."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from farout.detectors.trained.density import Density
from farout.detectors.trained.pixelcnn.layers import (
    ABOVE,
    LEFT,
    GatedBlock,
    Kernel,
    Shifted,
    ShiftedTransposed,
    pointwise,
)
from farout.detectors.trained.pixelcnn.mixture import Mixture, count_outputs, log_probabilities

STAGES = 3


class UpStage(nn.Module):
    """Gated blocks at one resolution, on the way up to smaller sides."""

    def __init__(self, width: int, blocks: int) -> None:
        super().__init__()
        self.u = nn.ModuleList(GatedBlock(width, ABOVE) for _ in range(blocks))
        self.ul = nn.ModuleList(GatedBlock(width, LEFT, 1) for _ in range(blocks))

    def forward(self, u: Tensor, ul: Tensor, skips: list[tuple[Tensor, Tensor]]) -> tuple[Tensor, Tensor]:
        """Return both streams; the outputs of every block are appended to `skips`."""
        for block, left_block in zip(self.u, self.ul, strict=True):
            u = block(u)
            ul = left_block(ul, u)
            skips.append((u, ul))
        return u, ul


class DownStage(nn.Module):
    """Gated blocks at one resolution, on the way down to larger sides, each with a skip connection."""

    def __init__(self, width: int, blocks: int) -> None:
        super().__init__()
        self.u = nn.ModuleList(GatedBlock(width, ABOVE, 1) for _ in range(blocks))
        self.ul = nn.ModuleList(GatedBlock(width, LEFT, 2) for _ in range(blocks))

    def forward(self, u: Tensor, ul: Tensor, skips: list[tuple[Tensor, Tensor]]) -> tuple[Tensor, Tensor]:
        """Return both streams; the last of `skips` are taken, one per block."""
        for block, left_block in zip(self.u, self.ul, strict=True):
            skip, left_skip = skips.pop()
            u = block(u, skip)
            ul = left_block(ul, torch.cat([u, left_skip], 1))
        return u, ul


class PixelNetwork(Density):
    """Parameters of a mixture per pixel, each from the pixels before it in the order of reading."""

    def __init__(self, channels: int, blocks: int, width: int, mixtures: int) -> None:
        super().__init__()
        self.channels = channels
        self.u_input = Shifted(channels + 1, width, ABOVE, move="down")
        self.above_input = Shifted(channels + 1, width, Kernel(1, 3, True), move="down")
        self.left_input = Shifted(channels + 1, width, Kernel(2, 1, False), move="right")
        self.up = nn.ModuleList(UpStage(width, blocks) for _ in range(STAGES))
        self.down = nn.ModuleList(DownStage(width, blocks + (stage > 0)) for stage in range(STAGES))
        self.halve_u = nn.ModuleList(Shifted(width, width, ABOVE, 2) for _ in range(STAGES - 1))
        self.halve_ul = nn.ModuleList(Shifted(width, width, LEFT, 2) for _ in range(STAGES - 1))
        self.double_u = nn.ModuleList(ShiftedTransposed(width, ABOVE) for _ in range(STAGES - 1))
        self.double_ul = nn.ModuleList(ShiftedTransposed(width, LEFT) for _ in range(STAGES - 1))
        self.output = pointwise(width, count_outputs(channels, mixtures))

    def forward(self, pixels: Tensor) -> Mixture:
        """Return the mixtures of pixels in [−1, 1]. A channel of ones tells the network where the image ends."""
        inputs = torch.cat([pixels, torch.ones_like(pixels[:, :1])], 1)
        u, ul = self.u_input(inputs), self.above_input(inputs) + self.left_input(inputs)
        skips = [(u, ul)]
        for stage, up in enumerate(self.up):
            u, ul = up(u, ul, skips)
            if stage < STAGES - 1:
                u, ul = self.halve_u[stage](u), self.halve_ul[stage](ul)
                skips.append((u, ul))
        skips.pop()
        for stage, down in enumerate(self.down):
            u, ul = down(u, ul, skips)
            if stage < STAGES - 1:
                u, ul = self.double_u[stage](u), self.double_ul[stage](ul)
        return Mixture.split(self.output(F.elu(ul)), self.channels)

    def pixel_log_likelihood(self, images: Tensor) -> Tensor:
        """Return ln p of every pixel given those before it, for images in [0, 1]: [B, H, W]."""
        pixels = 2 * images - 1
        return log_probabilities(pixels, self(pixels))

    def log_likelihood(self, images: Tensor) -> Tensor:
        return self.pixel_log_likelihood(images).flatten(1).sum(1)
