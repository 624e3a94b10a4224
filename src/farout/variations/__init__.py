"""Variations: the changes of images that a search may make, as decoders from latents to images."""

from farout.variations.affine import Affine
from farout.variations.attributes import Attributes
from farout.variations.catalog import VARIATIONS
from farout.variations.color import Color
from farout.variations.composed import Composed
from farout.variations.latent import Latent
from farout.variations.pixel import Pixel
from farout.variations.slice import Slice

__all__ = ["VARIATIONS", "Affine", "Attributes", "Color", "Composed", "Latent", "Pixel", "Slice", "create", "names"]

names = VARIATIONS.names
create = VARIATIONS.create
