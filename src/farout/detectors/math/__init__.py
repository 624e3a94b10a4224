"""Numerical routines of the detectors: Gaussians, nearest neighbors, regression, softmax tails, percentiles."""
