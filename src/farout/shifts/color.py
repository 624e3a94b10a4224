"""Color corruptions: contrast, brightness and saturation."""

from __future__ import annotations

import torch
from torch import Tensor

from farout.core import Params
from farout.shifts.catalog import register
from farout.shifts.corruption import Corruption
from farout.shifts.kernels.means import exact_means
from farout.shifts.tables import Row


@register
class Contrast(Corruption):
    """Reduced contrast: every channel is moved toward its mean."""

    name = "contrast"
    random = False

    def corrupt(self, images: Tensor, params: Params, constants: Row) -> Tensor:
        (gain,) = constants
        mean = exact_means(images, 255)
        return images.sub(mean).mul_(gain).add_(mean)


@register
class Brightness(Corruption):
    """Increased V in HSV: x·(V + c)/V, at most 1. A black pixel becomes gray; c is added to images of one channel."""

    name = "brightness"
    random = False

    def corrupt(self, images: Tensor, params: Params, constants: Row) -> Tensor:
        (gain,) = constants
        value = images.amax(1, keepdim=True)
        brighter = value.add(gain).clamp_(max=1)
        return torch.where(value > 0, images.mul(brighter.div(value)), brighter)


@register
class Saturate(Corruption):
    """Changed S in HSV, a·S + b, at most 1: V − V·S'·(V − x)/(V − min).

    A gray pixel has hue 0, so b > 0 makes it red. Images of one channel have no saturation and are unchanged.
    """

    name = "saturate"
    random = False

    def corrupt(self, images: Tensor, params: Params, constants: Row) -> Tensor:
        if images.shape[1] == 1:
            return images
        gain, offset = constants
        value, low = images.amax(1, keepdim=True), images.amin(1, keepdim=True)
        span = value.sub(low)
        saturation = span.div(value).nan_to_num_(0).mul_(gain).add_(offset).clamp_(0, 1)
        red = torch.tensor([0.0, 1.0, 1.0], device=images.device)[:, None, None]
        away = torch.where(span > 0, value.sub(images).div_(span), red)
        return value.sub(away.mul_(saturation.mul_(value)))
