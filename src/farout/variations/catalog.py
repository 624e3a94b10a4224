"""The variations by name."""

from farout.core import Variation
from farout.registry import Registry

VARIATIONS: Registry[Variation] = Registry("variation")
