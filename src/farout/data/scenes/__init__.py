"""Drawn images: what stands in a scene, and the renderer that draws it."""
