"""Textures of fog and frost."""
