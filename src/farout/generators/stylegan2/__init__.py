"""StyleGAN2 (Karras et al. 2020).

model.py          settings, recipe and training
synthesis.py      generator network: mapping and synthesis; discriminator.py
layers.py         modulated convolution, equalized learning rate, minibatch deviation; fir.py: resampling filters
penalties.py      R1 and path length
"""

from farout.generators.stylegan2.model import StyleGAN2

__all__ = ["StyleGAN2"]
