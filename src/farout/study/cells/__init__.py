"""Cells, one file per kind: results that are computed once and stored under an identity."""
