"""Shifts: changes that keep an image's meaning. Corruptions by family, their constants in one table."""

from farout.shifts.augmentations import ColorJitter, Flip, RandomCrop, Rot90, Rot270
from farout.shifts.blur import GaussianBlur, GlassBlur
from farout.shifts.catalog import catalog, register, shift
from farout.shifts.color import Brightness, Contrast, Saturate
from farout.shifts.defocus import DefocusBlur
from farout.shifts.digital import Jpeg, Pixelate
from farout.shifts.elastic import Elastic
from farout.shifts.fog import Fog
from farout.shifts.frost import Frost
from farout.shifts.motion import MotionBlur
from farout.shifts.noise import GaussianNoise, ImpulseNoise, ShotNoise, SpeckleNoise
from farout.shifts.snow import Snow
from farout.shifts.weather import Spatter
from farout.shifts.zoom import ZoomBlur

names = catalog.names
create = catalog.create

__all__ = [
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
    "register",
    "shift",
]
