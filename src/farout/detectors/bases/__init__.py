"""Base classes that several post-hoc methods share."""
