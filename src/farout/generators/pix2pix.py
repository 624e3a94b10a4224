"""Pix2Pix (Isola et al. 2017): a U-Net that changes images, and a PatchGAN that compares them with their originals."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from farout import rng
from farout.generators.dcgan import initialize
from farout.generators.gan import Gan, GanTask
from farout.generators.generator import GENERATORS
from farout.tensors import CHUNK, as_images, chunks
from farout.training import Batch, Context

DOUBLINGS = 3
"""Number of times that the width doubles, from the image inwards."""


class UNet(nn.Module):
    """U-Net from an image and noise to an image: 4×4 convolutions of stride 2 down to one pixel, and up again.

    noise: zeros and ones [B, noise]: the units of the innermost up-blocks that are kept; kept ones count twice.
    """

    def __init__(self, channels: int, side: int, width: int) -> None:
        super().__init__()
        downs = side.bit_length() - 1
        widths = [width << min(step, DOUBLINGS) for step in range(downs)]
        self.downs, self.ups = nn.ModuleList(), nn.ModuleList()
        for step, (inputs, outputs) in enumerate(zip([channels, *widths], widths, strict=False)):
            activation = [nn.LeakyReLU(0.2)] if step else []
            norm = [nn.BatchNorm2d(outputs)] if 0 < step < downs - 1 else []
            self.downs.append(nn.Sequential(*activation, nn.Conv2d(inputs, outputs, 4, 2, 1, bias=False), *norm))
        for step, outputs in reversed(list(enumerate([channels, *widths[:-1]]))):
            inputs = widths[step] * (1 if step == downs - 1 else 2)
            last = nn.BatchNorm2d(outputs) if step else nn.Tanh()
            self.ups.append(nn.Sequential(nn.ReLU(), nn.ConvTranspose2d(inputs, outputs, 4, 2, 1, bias=not step), last))
        self.units = noise_units(side, width)

    def forward(self, images: Tensor, noise: Tensor) -> Tensor:
        """Return the changed images, in [−1, 1]."""
        skips: list[Tensor] = []
        for down in self.downs:
            images = down(images)
            skips.append(images)
        skips.pop()
        masks = noise.split(self.units, 1)
        for step, up in enumerate(self.ups):
            images = up(images)
            if step < len(masks):
                images = images * (2 * masks[step]).view_as(images)
            if skips:
                images = torch.cat([skips.pop(), images], 1)
        return images


def noise_units(side: int, width: int) -> list[int]:
    """Return the number of units with dropout in each noisy up-block, from the innermost.

    The public code has dropout in all blocks between the innermost and the four outermost, none at 32 px; here also in
    the innermost, and in the next where there is none between.
    """
    downs = side.bit_length() - 1
    return [(width << min(downs - 2 - step, DOUBLINGS)) * 4 ** (step + 1) for step in range(max(1, downs - 5) + 1)]


def patch_discriminator(channels: int, width: int, layers: int) -> nn.Module:
    """Return a PatchGAN: one logit per patch of an image beside its original; `layers` of stride 2."""
    widths = [width << min(step, DOUBLINGS) for step in range(layers + 1)]
    parts: list[nn.Module] = [nn.Conv2d(2 * channels, width, 4, 2, 1), nn.LeakyReLU(0.2)]
    for step, (inputs, outputs) in enumerate(pairwise(widths)):
        stride = 2 if step < layers - 1 else 1
        parts += [
            nn.Conv2d(inputs, outputs, 4, stride, 1, bias=False), nn.BatchNorm2d(outputs), nn.LeakyReLU(0.2),
        ]  # fmt: skip
    return nn.Sequential(*parts, nn.Conv2d(widths[-1], 1, 4, 1, 1))


class Pix2PixTask(GanTask):
    """Training of a U-Net; the real pair of the discriminator is an image beside itself."""

    reuses = True
    generator: Pix2Pix

    def generate(self, batch: Batch, context: Context) -> tuple[Tensor, Tensor | None]:
        noise = self.generator.noise(len(batch.images), context.generator).to(context.device)
        images: Tensor = self.modules["generator"](self.generator.inputs(batch.images), noise)
        return images, None

    def judge(self, images: Tensor, labels: Tensor | None, batch: Batch) -> Tensor:
        return super().judge(torch.cat([self.generator.inputs(batch.images), images], 1), labels, batch)

    def discriminator_loss(self, batch: Batch, context: Context) -> Tensor:
        return 0.5 * super().discriminator_loss(batch, context)


@GENERATORS.register("pix2pix")
@dataclass(kw_only=True, eq=False)
class Pix2Pix(Gan):
    """Image-to-image GAN whose target is the input itself; "The Raised Bar" makes shifted images with it (eq. 3).

    There is no L1 term: it would oppose the maximized perceptual distance. The noise z is dropout, which the network
    cannot learn to ignore (Isola et al., section 3.1): in the innermost up-blocks at every side, since the public code
    has none below 64 px. It is drawn per image, in training and in sampling alike. Samples use the running statistics
    of batch norms, so that an image does not depend on its batch.
    """

    name = "pix2pix"
    translates = True
    width: int = 64
    """Channels of the layers next to the image."""
    patch_layers: int | None = None
    """Layers of stride 2 of the discriminator: 1, 2 or 3 for patches of 16, 34 or 70 px; by default 1 at 16 px, 2 at
    32 px and 3 above."""
    task_type: ClassVar[type[GanTask]] = Pix2PixTask
    settings: ClassVar[Mapping[str, Any]] = {"batch": 256}

    def build(self) -> UNet:
        module = UNet(self.channels, self.module_side, self.width)
        initialize(module)
        return module

    def discriminator(self) -> nn.Module:
        layers = self.patch_layers or min(3, self.module_side.bit_length() - 4)
        return initialize(patch_discriminator(self.channels, self.width, layers))

    def noise(self, count: int, generator: torch.Generator) -> Tensor:
        """Return random zeros and ones for images, [count, units]."""
        units = sum(noise_units(self.module_side, self.width))
        return torch.randint(2, (count, units), generator=generator).float()

    @torch.no_grad()
    def translate(self, images: Tensor, seed: int = 0, indices: Iterable[int] | None = None) -> Tensor:
        pixels = as_images(images)
        order = range(len(pixels)) if indices is None else list(indices)
        if len(order) != len(pixels):
            raise ValueError(f"got {len(order)} indices for {len(pixels)} images, expected one each")
        noise = [self.noise(1, rng.generator(seed, "translate", index)) for index in order]
        changed = torch.empty_like(pixels)
        for part in chunks(len(pixels)):
            changed[part] = self._chunk(pixels[part], torch.cat(noise[part]))
        return changed

    def _chunk(self, images: Tensor, noise: Tensor) -> Tensor:
        """Return the changed images of a chunk, filled up with black: results do not depend on its size."""
        missing = CHUNK - len(images)
        inputs = self.inputs(torch.cat([images, images.new_zeros(missing, *images.shape[1:])]))
        noise = torch.cat([noise, noise.new_zeros(missing, noise.shape[1])])
        outputs = self.fitted.eval()(inputs.to(self.device), noise.to(self.device))
        return self.pixels(outputs).clamp(0, 1)[: len(images)].cpu()
