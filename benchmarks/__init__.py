"""Measurements: farout beside the physical limit and beside other libraries, in one run, as ratios."""
