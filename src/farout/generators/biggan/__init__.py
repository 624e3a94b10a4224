"""BigGAN."""
