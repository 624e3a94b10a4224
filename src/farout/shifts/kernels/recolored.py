"""Images with brightness, contrast, saturation and hue changed, as differentiable functions: as in torchvision, or in
HSV."""

from __future__ import annotations

import torch
from torch import Tensor

from farout.shifts.kernels.recoloring import GRAY, LEAST, blend


def recolor_images(images: Tensor, factors: Tensor) -> Tensor:
    """Change brightness, contrast, saturation and hue [B, 4] of the images [B, C, H, W]."""
    brightness, contrast, saturation, hue = factors[:, :, None, None, None].unbind(1)
    images = (brightness * images).clamp(0, 1)
    images = blend(images, gray(images).mean((2, 3), keepdim=True), contrast)
    if images.shape[1] == 1:
        return images
    return rotate_hue(blend(images, gray(images), saturation), 6 * hue[:, 0])


def recolor_in_hsv(images: Tensor, factors: Tensor) -> Tensor:
    """Change the contrast of the images [B, C, H, W], then their value, saturation and hue in HSV.

    factors: of value, contrast and saturation, and the turn of the hue, [B, 4]. Value and saturation are cut at 1.
    """
    value, contrast, saturation, hue = factors[:, :, None, None, None].unbind(1)
    images = blend(images, gray(images).mean((2, 3), keepdim=True), contrast)
    if images.shape[1] == 1:
        return (value * images).clamp(0, 1)
    high = images.amax(1)
    chroma = high - images.amin(1)
    bright = (value[:, 0] * high).clamp(0, 1)
    colorful = bright * (saturation[:, 0] * chroma / high.clamp_min(LEAST)).clamp(0, 1)
    return from_hue(hue_of(images) + 6 * hue[:, 0], bright - colorful, colorful)


def gray(images: Tensor) -> Tensor:
    """Return the images in gray, [B, 1, H, W]."""
    if images.shape[1] == 1:
        return images
    red, green, blue = images.split(1, 1)
    weighted: Tensor = GRAY[0] * red + GRAY[1] * green + GRAY[2] * blue
    return weighted


def rotate_hue(images: Tensor, sixths: Tensor) -> Tensor:
    """Rotate the hue by `sixths` [B, 1, 1] of the color circle."""
    low, high = images.amin(1), images.amax(1)
    return from_hue(hue_of(images) + sixths, low, high - low)


def hue_of(images: Tensor) -> Tensor:
    """Return the hue in sixths of the color circle, [B, H, W]."""
    red, green, blue = images.unbind(1)
    low, high = images.amin(1), images.amax(1)
    span = (high - low).clamp_min(LEAST)
    not_red = torch.where(high == green, (blue - red) / span + 2, (red - green) / span + 4)
    return torch.where(high == red, (green - blue) / span, not_red)


def from_hue(sixths: Tensor, low: Tensor, chroma: Tensor) -> Tensor:
    """Return the colors [B, 3, H, W] of this hue: HSV with its six cases as one formula.

    With value V, chroma C and hue h in sixths, red is V − C + C·clamp(|h − 3| − 1, 0, 1), green and blue are
    V − C + C·clamp(2 − |h − 2|, 0, 1) and V − C + C·clamp(2 − |h − 4|, 0, 1); `low` is V − C.
    """
    hue = sixths.remainder(6)
    shares = torch.stack([(hue - 3).abs() - 1, 2 - (hue - 2).abs(), 2 - (hue - 4).abs()], 1)
    return torch.addcmul(low[:, None], shares.clamp(0, 1), chroma[:, None])
