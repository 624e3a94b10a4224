"""The training loop, and detectors that train by it, beside a bare torch loop: the same network, the same batches."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from benchmarks.timing import show, timed
from farout.core import ImageSet
from farout.detectors.trained.ae import AE
from farout.detectors.trained.detector import Inputs
from farout.detectors.trained.oe import OE
from farout.networks import Network, accuracy, create
from farout.processes import keep_freed_memory, torch_threads
from farout.rng import generator
from farout.training import Batch, Context, Player, Recipe, Task, fit, train

EPOCHS, BATCH = 2, 64
REPEATS = 15


def images(count: int) -> ImageSet:
    """Noise with labels."""
    rng = np.random.default_rng(count)
    return ImageSet.from_arrays(rng.integers(0, 256, (count, 32, 32, 3), np.uint8), np.arange(count) % 4)


def bare_classifier(network: Network, data: ImageSet, val: ImageSet, seed: int = 0) -> None:
    """Train a classifier with a plain torch loop: SGD, cosine schedule, validation after each epoch."""
    optimizer = torch.optim.SGD(network.parameters(), 0.05, 0.9, weight_decay=5e-4, nesterov=True)
    labels, steps = torch.as_tensor(data.labels), -(-len(data) // BATCH)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, EPOCHS * steps)
    for epoch in range(EPOCHS):
        network.train()
        order, total = torch.randperm(len(data), generator=generator(seed, epoch)), 0.0
        for indices in order.tensor_split(steps):
            logits = network.module(network.normalize(data.batch(indices.numpy())))
            loss = F.cross_entropy(logits, labels[indices])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
            total += loss.item() * len(indices)
        accuracy(network, val)


class Gan(Task):
    """A DCGAN in small."""

    def __init__(self) -> None:
        self.modules = {"generator": _generator(), "discriminator": _discriminator()}

    @property
    def identity(self) -> str:
        return "gan"

    def players(self, stage: str) -> tuple[Player, ...]:
        return Player("discriminator", ("discriminator",)), Player("generator", ("generator",))

    def loss(self, player: str, batch: Batch, context: Context) -> torch.Tensor:
        noise = torch.randn(len(batch.images), 32, 1, 1, generator=context.generator)
        critic, fake = self.modules["discriminator"], self.modules["generator"](noise)
        if player == "generator":
            return F.softplus(-critic(fake)).mean()
        return F.softplus(-critic(batch.images)).mean() + F.softplus(critic(fake)).mean()


def _generator() -> nn.Module:
    return nn.Sequential(
        nn.ConvTranspose2d(32, 64, 4), nn.BatchNorm2d(64), nn.ReLU(),
        nn.ConvTranspose2d(64, 32, 4, 2, 1), nn.BatchNorm2d(32), nn.ReLU(),
        nn.ConvTranspose2d(32, 16, 4, 2, 1), nn.BatchNorm2d(16), nn.ReLU(),
        nn.ConvTranspose2d(16, 3, 4, 2, 1), nn.Sigmoid(),
    )  # fmt: skip


def _discriminator() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 16, 4, 2, 1), nn.LeakyReLU(0.2),
        nn.Conv2d(16, 32, 4, 2, 1), nn.BatchNorm2d(32), nn.LeakyReLU(0.2),
        nn.Conv2d(32, 64, 4, 2, 1), nn.BatchNorm2d(64), nn.LeakyReLU(0.2),
        nn.Conv2d(64, 1, 4), nn.Flatten(),
    )  # fmt: skip


def bare_gan(data: ImageSet) -> None:
    """Train a GAN with a plain torch loop; the discriminator's step builds no graph of the generator."""
    generator_, critic, draws = _generator(), _discriminator(), torch.Generator().manual_seed(0)
    players = [torch.optim.Adam(part.parameters(), 2e-4, (0.5, 0.999)) for part in (critic, generator_)]
    for _ in range(EPOCHS):
        order = torch.randperm(len(data), generator=draws)
        for indices in order.tensor_split(-(-len(data) // BATCH)):
            real = data.batch(indices.numpy())
            with torch.no_grad():
                fake = generator_(torch.randn(len(real), 32, 1, 1, generator=draws))
            losses = [F.softplus(-critic(real)).mean() + F.softplus(critic(fake)).mean()]
            _step(players[0], losses[0])
            critic.requires_grad_(False)
            losses.append(F.softplus(-critic(generator_(torch.randn(len(real), 32, 1, 1, generator=draws)))).mean())
            _step(players[1], losses[1])
            critic.requires_grad_(True)
            [loss.item() for loss in losses]


def bare_autoencoder(data: ImageSet, val: ImageSet) -> None:
    """Train the autoencoder of the detector ae with a plain torch loop."""
    modules = AE().build(Inputs(3, 32, 0))
    both = nn.Sequential(modules["encoder"], modules["decoder"])
    optimizer = torch.optim.Adam(both.parameters(), 1e-3)
    for epoch in range(EPOCHS):
        both.train()
        for indices in torch.randperm(len(data), generator=generator(0, epoch)).tensor_split(-(-len(data) // BATCH)):
            batch = data.batch(indices.numpy())
            loss = (both(batch) - batch).square().mean()
            _step(optimizer, loss)
            loss.item()
        both.eval()
        with torch.no_grad():
            [(both(part) - part).square().flatten(1).mean(1) for part in val]


def bare_exposure(data: ImageSet, outliers: ImageSet, val: ImageSet) -> None:
    """Train the network of the detector oe with a plain torch loop: inliers and as many outliers in one pass."""
    network = OE().build(Inputs(3, 32, 4))["network"]
    optimizer = torch.optim.SGD(network.parameters(), 0.1, 0.9, weight_decay=5e-4, nesterov=True)
    labels = torch.as_tensor(data.labels)
    for epoch in range(EPOCHS):
        network.train()
        draws = generator(0, epoch)
        for indices in torch.randperm(len(data), generator=draws).tensor_split(-(-len(data) // BATCH)):
            others = outliers.batch(torch.randperm(len(outliers), generator=draws)[: len(indices)].numpy())
            logits = network.module(network.normalize(torch.cat([data.batch(indices.numpy()), others])))
            inside, outside = logits[: len(indices)], logits[len(indices) :]
            loss = F.cross_entropy(inside, labels[indices]) - 0.5 * outside.log_softmax(1).mean()
            _step(optimizer, loss)
            loss.item()
        accuracy(network, val)


def _step(optimizer: torch.optim.Optimizer, loss: torch.Tensor) -> None:
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()


def compare(title: str, bare: Callable[[], object], ours: Callable[[Path | None], object]) -> None:
    """Show the loop's time, without and with a checkpoint, as a multiple of the bare loop's."""
    with tempfile.TemporaryDirectory() as folder, torch_threads(1):
        file = Path(folder) / "checkpoint"

        def kept() -> None:
            file.unlink(missing_ok=True)
            ours(file)

        keep_freed_memory()  # as workers and `farout train` do
        functions = {"bare torch loop": bare, "farout.training": lambda: ours(None), "… with a checkpoint": kept}
        show(title, timed(functions, REPEATS), "bare torch loop")


def main() -> None:
    """A small and a large classifier, a GAN, and two detectors."""
    options = {"epochs": EPOCHS, "batch": BATCH, "lr": 0.05, "augment": "none"}
    val = images(64)
    for name, count in (("lenet", 2048), ("resnet20", 256)):
        data = images(count)
        compare(
            f"Training {name}, {count} images of 32×32, {EPOCHS} epochs, batch {BATCH}, one thread",
            lambda name=name, data=data: bare_classifier(create(name, 4, 32), data, val),
            lambda file, name=name, data=data: train(create(name, 4, 32), data, val, checkpoint=file, **options),
        )
    data, recipe = images(1024), Recipe(
        epochs=EPOCHS, batch=BATCH, optimizer="adam", lr=2e-4, betas=(0.5, 0.999), weight_decay=0.0,
        schedule="constant", augment="none",
    )  # fmt: skip
    compare(
        f"Training a small DCGAN, {len(data)} images of 32×32, {EPOCHS} epochs, batch {BATCH}, one thread",
        lambda: bare_gan(data),
        lambda file: fit(Gan(), data, recipe, checkpoint=file),
    )
    few, training = images(512), {"epochs": EPOCHS, "batch": BATCH, "augment": "none"}
    size = f"{len(few)} images of 32×32, {EPOCHS} epochs, batch {BATCH}, one thread"
    compare(
        f"Training the detector ae (small), {size}",
        lambda: bare_autoencoder(few, val),
        lambda file: AE(training=training).fit(few, val=val, checkpoint=file),
    )
    compare(
        f"Training the detector oe (small), {size}",
        lambda: bare_exposure(few, data, val),
        lambda file: OE(training=training).fit(few, val=val, auxiliary_outliers=data, checkpoint=file),
    )


if __name__ == "__main__":
    main()
