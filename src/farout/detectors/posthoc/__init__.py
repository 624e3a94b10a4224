"""Post-hoc detectors, one file per method. Each reads the activations of one forward pass."""
