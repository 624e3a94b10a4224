"""Glow: negative log-likelihood of a flow (Kingma & Dhariwal 2018)."""

from farout.detectors.trained.glow.detector import Glow

__all__ = ["Glow"]
