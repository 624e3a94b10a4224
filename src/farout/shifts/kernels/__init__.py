"""What the corruptions stand on: loops over pixels, most of them compiled, that add up in a fixed order."""
