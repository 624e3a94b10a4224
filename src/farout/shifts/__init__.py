"""Shifts: changes that keep the meaning of an image. Corruptions by family, their constants, augmentations."""

from farout.shifts.augmentations import ColorJitter, Flip, RandomCrop, Rot90, Rot270
from farout.shifts.autoaugment import AutoAugmentCifar
from farout.shifts.blur import DefocusBlur, GaussianBlur, GlassBlur, MotionBlur, ZoomBlur
from farout.shifts.catalog import catalog, shift
from farout.shifts.color import Brightness, Contrast, Saturate
from farout.shifts.digital import Elastic, Jpeg, Pixelate
from farout.shifts.noise import GaussianNoise, ImpulseNoise, ShotNoise, SpeckleNoise
from farout.shifts.weather import Fog, Frost, Snow, Spatter

names = catalog.names
create = catalog.create

__all__ = [
    "AutoAugmentCifar",
    "Brightness",
    "ColorJitter",
    "Contrast",
    "DefocusBlur",
    "Elastic",
    "Flip",
    "Fog",
    "Frost",
    "GaussianBlur",
    "GaussianNoise",
    "GlassBlur",
    "ImpulseNoise",
    "Jpeg",
    "MotionBlur",
    "Pixelate",
    "RandomCrop",
    "Rot90",
    "Rot270",
    "Saturate",
    "ShotNoise",
    "Snow",
    "Spatter",
    "SpeckleNoise",
    "ZoomBlur",
    "create",
    "names",
    "shift",
]
