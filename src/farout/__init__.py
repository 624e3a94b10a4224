"""farout: a stress-test suite for out-of-distribution detectors."""
