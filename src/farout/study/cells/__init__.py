"""Cells, one file per kind: what can be computed and kept under an identity."""
