"""Helpers of the tests: stand-ins, slow references, and runs written by hand."""
