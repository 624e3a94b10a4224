"""Training of a DCGAN beside a bare torch loop of the same networks, in turn."""

from __future__ import annotations

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from benchmarks.timing import show, timed
from farout.core import ImageSet
from farout.generators import DCGAN
from farout.processes import torch_threads

EPOCHS, BATCH, REPEATS = 2, 64, 5


def images(count: int, side: int) -> ImageSet:
    """Return random gray images."""
    pixels = np.random.default_rng(0).integers(0, 256, (count, side, side), np.uint8)
    return ImageSet.from_arrays(pixels, name="noise")


def bare(model: DCGAN, data: ImageSet) -> None:
    """Train as the PyTorch example does: the generated images of the discriminator's step serve the generator's too."""
    generator, discriminator, draws = model.build(), model.discriminator(), torch.Generator().manual_seed(0)
    players = [torch.optim.Adam(part.parameters(), 2e-4, (0.5, 0.999)) for part in (discriminator, generator)]
    for _ in range(EPOCHS):
        order = torch.randperm(len(data), generator=draws)
        for indices in order.tensor_split(-(-len(data) // BATCH)):
            real = data.batch(indices.numpy()) * 2 - 1
            made = generator(torch.randn(len(real), model.dim, generator=draws))
            loss = F.softplus(-discriminator(real)).mean() + F.softplus(discriminator(made.detach())).mean()
            _step(players[0], loss)
            discriminator.requires_grad_(False)
            second = F.softplus(-discriminator(made)).mean()
            _step(players[1], second)
            discriminator.requires_grad_(True)
            loss.item(), second.item()


def _step(optimizer: torch.optim.Optimizer, loss: Tensor) -> None:
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()


def main() -> None:
    """Compare at the full width, and at a narrow one, where the loop's own time counts."""
    for side, width, count in ((32, 64, 512), (32, 16, 1024)):
        model, data = DCGAN(side=side, channels=1, width=width), images(count, side)
        functions = {
            "bare torch loop": lambda model=model, data=data: bare(model, data),
            "farout.generators": lambda model=model, data=data: model.fit(
                data, epochs=EPOCHS, batch=BATCH, progress=lambda *_: None
            ),
        }
        title = f"Training DCGAN, width {width}, {count} images of {side}×{side}, {EPOCHS} epochs, one thread"
        with torch_threads(1):
            show(title, timed(functions, REPEATS), "bare torch loop")


if __name__ == "__main__":
    main()
