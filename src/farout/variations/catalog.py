"""Registry of the variations."""

from farout import aliases
from farout.registry import Registry
from farout.variations.variation import Variation

VARIATIONS: Registry[Variation] = Registry("variation", Variation, aliases.VARIATIONS)
