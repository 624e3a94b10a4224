"""Likelihood regret of a variational autoencoder (Xiao et al. 2020)."""

from farout.detectors.trained.regret.detector import LikelihoodRegret

__all__ = ["LikelihoodRegret"]
