"""Input complexity: likelihood corrected by the size of the compressed image (Serrà et al. 2020, eq. 3)."""

from __future__ import annotations

import io
from dataclasses import dataclass
from typing import Literal

import torch
from PIL import Image
from torch import Tensor, nn

from farout.checks import check_choice
from farout.detectors.catalog import register
from farout.detectors.trained.density import DENSITY, Density, Likelihood
from farout.detectors.trained.detector import Inputs, TrainingSets
from farout.detectors.trained.on_density import OnDensity
from farout.training import Task

Codec = Literal["png", "jpeg2000"]
OPTIONS: dict[str, dict[str, object]] = {
    "png": {"format": "PNG", "compress_level": 9},
    "jpeg2000": {"format": "JPEG2000", "irreversible": False},
}
"""Arguments of Pillow's `save`, all of them lossless."""


@register
@dataclass(kw_only=True, eq=False)
class InputComplexity(OnDensity):
    """Negative log-likelihood minus the bits of the compressed image, both in bits per dimension.

    Compression has no gradient; the score's is that of the likelihood.
    """

    name = "input_complexity"
    codec: Codec = "png"
    """Lossless compression: "png" or "jpeg2000"."""

    def __post_init__(self) -> None:
        check_choice("codec", self.codec, tuple(OPTIONS))
        super().__post_init__()

    def build(self, inputs: Inputs) -> dict[str, nn.Module]:
        return self.source.build(inputs)

    def task(self, sets: TrainingSets) -> Task:
        density = self.modules[DENSITY]
        assert isinstance(density, Density)
        return Likelihood(density, sets)

    def compute(self, images: Tensor) -> Tensor:
        return self.bits(DENSITY, images) - complexity(images, self.codec)


def complexity(images: Tensor, codec: Codec) -> Tensor:
    """Return the size of every image as a lossless file of 8-bit values, in bits per value, [B]."""
    pixels = (images.detach() * 255).round().to(torch.uint8).permute(0, 2, 3, 1).cpu().numpy()
    sizes = [compressed_bytes(Image.fromarray(one.squeeze(2) if one.shape[2] == 1 else one), codec) for one in pixels]
    return torch.tensor(sizes, device=images.device) * 8 / images[0].numel()


def compressed_bytes(image: Image.Image, codec: Codec) -> int:
    """Return the number of bytes of a file."""
    file = io.BytesIO()
    image.save(file, **OPTIONS[codec])  # type: ignore[arg-type]
    return file.tell()
