"""Blur corruptions."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from farout.core import Params
from farout.shifts.catalog import register
from farout.shifts.corruption import Corruption
from farout.shifts.kernels.disk import disk
from farout.shifts.kernels.gaussian import gaussian
from farout.shifts.kernels.levels import truncate
from farout.shifts.kernels.motion import motion_blur
from farout.shifts.kernels.shuffling import source_indices
from farout.shifts.kernels.taps import correlate
from farout.shifts.kernels.zooming import zoom_sum
from farout.shifts.tables import Row

STEEPEST = 45.0
"""Maximum angle of the motion in degrees."""


@register
class GaussianBlur(Corruption):
    """Gaussian filter."""

    name = "gaussian_blur"
    random = False

    def corrupt(self, images: Tensor, params: Params, constants: Row) -> Tensor:
        (sigma,) = constants
        return gaussian(images, sigma)


@register
class DefocusBlur(Corruption):
    """Lens out of focus: every point becomes a disk."""

    name = "defocus_blur"
    random = False

    def corrupt(self, images: Tensor, params: Params, constants: Row) -> Tensor:
        radius, sigma = constants
        return correlate(images, disk(radius, sigma))


@register
class GlassBlur(Corruption):
    """Gaussian filter, then pixels replaced by neighbors at most d away, then the filter again.

    The original swaps pixels, but through views of one array, so that in effect a pixel is overwritten with its
    neighbor and the neighbor is unchanged. This is reproduced here, also for images of one channel.
    """

    name = "glass_blur"

    def sample(self, shape: Sequence[int], rng: torch.Generator) -> Params:
        _, reach, rounds = map(int, self.constants(shape))
        rows, columns = (max(0, side - 2 * reach) for side in shape[-2:])
        return {"offsets": torch.randint(-reach, reach, (rounds, 2, rows, columns), generator=rng, dtype=torch.int16)}

    def corrupt(self, images: Tensor, params: Params, constants: Row) -> Tensor:
        sigma, reach, _ = constants
        sources = source_indices(params["offsets"], int(reach), images.shape[2], images.shape[3]).flatten(1)
        blurred = truncate(gaussian(images, sigma)).flatten(2)
        moved = blurred.gather(2, sources[:, None].expand_as(blurred)).view_as(images)
        return gaussian(moved, sigma)


@register
class MotionBlur(Corruption):
    """Motion of the camera in a straight line at an angle of −45° to 45°.

    The result is truncated to 8 bits, as for the other corruptions and in the package imagecorruptions. The published
    images were computed by ImageMagick, which rounds: they are half a level brighter on average.
    """

    name = "motion_blur"

    def sample(self, shape: Sequence[int], rng: torch.Generator) -> Params:
        return {"angle": torch.rand((), generator=rng).mul_(2 * STEEPEST).sub_(STEEPEST)}

    def corrupt(self, images: Tensor, params: Params, constants: Row) -> Tensor:
        radius, sigma = constants
        return motion_blur(images, int(radius), sigma, params["angle"])


@register
class ZoomBlur(Corruption):
    """Motion of the camera toward the scene: the mean of the image and of its zooms by increasing factors.

    Factor 1 is one of them, so the image itself counts twice. A factor crops height and width in proportion; the
    original crops a square, and is meant for square images.
    """

    name = "zoom_blur"
    random = False

    def corrupt(self, images: Tensor, params: Params, constants: Row) -> Tensor:
        count, step = constants
        return zoom_sum(images, int(count), step).div_(count + 1)
