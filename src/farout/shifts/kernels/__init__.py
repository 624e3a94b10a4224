"""Image operations of the corruptions: loops over pixels, most of them compiled, with a fixed order of summation."""
