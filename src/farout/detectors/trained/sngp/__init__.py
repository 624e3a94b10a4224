"""SNGP: a distance-aware classifier, whose parts are bounded layers and a Gaussian process as its last layer."""

from farout.detectors.trained.sngp.detector import SNGP

__all__ = ["SNGP"]
