"""BigGAN (Brock et al. 2019).

model.py       settings, recipe and training
networks.py    generator and discriminator
layers.py      spectral norm, conditional batch norm, attention, orthogonal penalty
standing.py    statistics of batch norms for sampling
"""

from farout.generators.biggan.model import BigGAN

__all__ = ["BigGAN"]
