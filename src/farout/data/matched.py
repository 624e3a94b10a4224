"""Image sets converted to another shape, so that outliers differ from inliers in content and not in format."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from numpy.typing import ArrayLike
from torch import Tensor

from farout.core import ImageSet
from farout.data.view import View
from farout.identity import digest

LUMA = (0.299, 0.587, 0.114)
"""Weights of red, green and blue in gray (ITU-R BT.601)."""


def match(images: ImageSet, shape: tuple[int, int, int]) -> ImageSet:
    """Return the images with these channels, height and width; the set itself if it has this shape."""
    return images if images.shape == tuple(shape) else Matched(images, shape)


class Matched(View):
    """Images of another set, resized (bilinear, anti-aliased) and converted between gray and color; 8-bit values."""

    def __init__(self, parent: ImageSet, shape: tuple[int, int, int]) -> None:
        super().__init__(parent, shape=(shape[0], shape[1], shape[2]))

    def batch(self, indices: ArrayLike) -> Tensor:
        images = self.parent.batch(indices)
        if images.shape[2:] != self.shape[1:]:
            images = F.interpolate(images, self.shape[1:], mode="bilinear", antialias=True)
        if images.shape[1] == 3 and self.shape[0] == 1:
            images = torch.einsum("bchw,c->bhw", images, torch.tensor(LUMA))[:, None]
        return images.expand(-1, self.shape[0], -1, -1).mul(255).round().clamp(0, 255).div(255)

    def _fingerprint(self) -> str:
        return digest([self.parent.fingerprint, "matched", 1, list(self.shape)])
