"""Shifts: changes that keep an image's meaning. Corruptions by family, their constants in one table."""

from farout.shifts.blur import GaussianBlur, GlassBlur
from farout.shifts.catalog import catalog, register, shift
from farout.shifts.color import Brightness, Contrast, Saturate
from farout.shifts.noise import GaussianNoise, ImpulseNoise, ShotNoise, SpeckleNoise
from farout.shifts.weather import Spatter

names = catalog.names
create = catalog.create

__all__ = [
    "Brightness",
    "Contrast",
    "GaussianBlur",
    "GaussianNoise",
    "GlassBlur",
    "ImpulseNoise",
    "Saturate",
    "ShotNoise",
    "Spatter",
    "SpeckleNoise",
    "create",
    "names",
    "register",
    "shift",
]
