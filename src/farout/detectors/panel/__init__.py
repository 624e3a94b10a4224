"""Panel: a network and the post-hoc detectors that share its forward pass; tuning, saving and export of it."""
