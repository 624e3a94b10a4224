"""Studies: the YAML file, the sources of images and networks, the detectors under test, the store and its results."""
