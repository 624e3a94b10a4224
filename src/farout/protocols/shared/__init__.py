"""Pieces that several protocols share: pairs of scored sets, best detectors, selected detectors, network accuracy."""
