"""Normalized autoencoder: reconstruction error as an energy (Yoon et al. 2021)."""

from farout.detectors.trained.nae.detector import NAE

__all__ = ["NAE"]
