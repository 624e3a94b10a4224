"""Trained detectors: their base, and one file per method."""
