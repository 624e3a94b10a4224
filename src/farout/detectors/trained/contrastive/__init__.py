"""Contrastive learning: random views of images, losses, and networks with a projection head."""
