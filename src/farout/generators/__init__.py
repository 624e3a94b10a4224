"""Generators: models that are trained on images and generate new ones.

generator.py    `Generator`, the contract: training and weights; sampling.py: sampling and padding
gan.py          `Gan`: generators with a discriminator, and their task; adversarial.py: losses by name; conditional.py:
                classes of generated images
objective.py    terms of "The Raised Bar" that are added to the loss; terms.py computes them from information.py (mutual
                information), perceptual.py (distance over the blocks of a network) and pairing.py
monitor.py      sample grids and FID during training
dcgan.py, …     one file per model
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from farout.generators.biggan import BigGAN
from farout.generators.dcgan import DCGAN
from farout.generators.generator import GENERATORS, Generator
from farout.generators.objective import Objective
from farout.generators.pix2pix import Pix2Pix
from farout.generators.stylegan2 import StyleGAN2
from farout.training.files import header

__all__ = ["DCGAN", "GENERATORS", "BigGAN", "Generator", "Objective", "Pix2Pix", "StyleGAN2", "create", "load", "names"]

names = GENERATORS.names


def create(name: str, side: int, channels: int = 3, **params: Any) -> Generator:
    """Return an untrained generator by name, for images of this side."""
    return GENERATORS.create(name, side=side, channels=channels, **params)


def load(path: str | Path) -> Generator:
    """Return the trained generator of a file that `Generator.save` wrote."""
    found = header(Path(path), "generator")
    return GENERATORS.create(found.name, **found.params).load(path)
