"""What may change in a search for the worst case."""

from farout.variations.attributes import AttributeVariation
from farout.variations.catalog import VARIATIONS

__all__ = ["VARIATIONS", "AttributeVariation", "create", "names"]

names = VARIATIONS.names
create = VARIATIONS.create
