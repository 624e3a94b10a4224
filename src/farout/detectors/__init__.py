"""Post-hoc detectors, by what they read."""

from farout.detectors.catalog import catalog, register
from farout.detectors.features import KNN, MDS
from farout.detectors.logits import EBO, MLS, MSP, Entropy

names = catalog.names
create = catalog.create

__all__ = ["EBO", "KNN", "MDS", "MLS", "MSP", "Entropy", "create", "names", "register"]
