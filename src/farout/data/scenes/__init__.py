"""Rendered images: scene parameters, their sampling, and the renderer."""
