"""One training loop for classifiers: SGD with Nesterov momentum, seeded, resumable to the bit."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F

from farout.core import ImageSet
from farout.identity import digest
from farout.networks import checkpoint as checkpoints
from farout.networks.augment import crop_flip, sample_crop_flip
from farout.networks.base import seeded
from farout.networks.checkpoint import History, Standing, copy_of
from farout.networks.ensemble import Ensemble
from farout.networks.network import Network
from farout.networks.recipe import Augment, Recipe, Schedule, check_set
from farout.rng import generator, seed_of
from farout.tensors import chunks

VERSION = 1
"""Bumped by hand when the same arguments give other weights."""

Progress = Callable[[int, int, str], None]
"""`progress(done_images, total_images, message)`, called after every batch and every epoch."""


def train(
    network: Network,
    train_set: ImageSet,
    val_set: ImageSet,
    *,
    epochs: int,
    lr: float = 0.1,
    batch: int = 128,
    momentum: float = 0.9,
    weight_decay: float = 5e-4,
    schedule: Schedule = "cosine",
    augment: Augment = "crop_flip",
    seed: int = 0,
    device: str | torch.device | None = None,
    checkpoint: str | Path | None = None,
    progress: Progress | None = None,
) -> History:
    """Train with cross entropy; the network ends in eval mode with the weights of its best epoch.

    The best epoch is the one with the highest validation accuracy, the last of equals. After every epoch the
    state is written to the file `checkpoint`; the same call on the same network then goes on from there and ends,
    on the same machine with as many threads, in the same weights bit for bit. A checkpoint of another call is
    overwritten. A call that fails or is interrupted leaves the network with the weights it was given.
    """
    if isinstance(network, Ensemble):
        raise TypeError("the members of an ensemble are trained one by one, each with a seed of its own")
    recipe = Recipe(
        epochs=epochs, lr=lr, batch=batch, momentum=momentum, weight_decay=weight_decay,
        schedule=schedule, augment=augment, seed=seed,
    )  # fmt: skip
    check_set(train_set, network.classes, "training")
    check_set(val_set, network.classes, "validation")
    network.to(device or network.device)
    run = _Run(network, train_set, val_set, recipe, progress or _silent)
    given = copy_of(network.state_dict())
    try:
        standing = run.go(Path(checkpoint) if checkpoint is not None else None)
    except BaseException:
        network.load_state_dict(given)
        raise
    finally:
        network.eval()
    network.load_state_dict(standing.best)
    return standing.history


@torch.inference_mode()
def accuracy(network: Network, images: ImageSet) -> float:
    """The share of images whose largest logit is their label's; the network is put in eval mode."""
    check_set(images, network.classes, "evaluation")
    assert images.labels is not None
    network.eval()
    correct = 0
    for part in chunks(len(images), 128):
        logits = network(images.batch(np.arange(part.start, part.stop)).to(network.device), needs=()).logits
        correct += int((logits.argmax(1).cpu().numpy() == images.labels[part]).sum())
    return correct / len(images)


@dataclasses.dataclass
class _Run:
    """One call of `train`."""

    network: Network
    train_set: ImageSet
    val_set: ImageSet
    recipe: Recipe
    progress: Progress

    def __post_init__(self) -> None:
        trainable = {name: part for name, part in self.network.named_parameters() if part.requires_grad}
        sets = [self.train_set.fingerprint, self.val_set.fingerprint]
        recipe = dataclasses.asdict(self.recipe)
        self.identity = digest([VERSION, recipe, sets, self.network.digest, list(trainable)])
        self.labels = torch.as_tensor(self.train_set.labels)
        self.optimizer = torch.optim.SGD(
            trainable.values(),
            self.recipe.lr,
            self.recipe.momentum,
            weight_decay=self.recipe.weight_decay,
            nesterov=self.recipe.momentum > 0,
        )

    def go(self, file: Path | None) -> Standing:
        """Train the epochs that are missing."""
        found = checkpoints.load(file, self.identity, self.network, self.optimizer) if file else None
        standing = found or Standing(best={})
        for epoch in range(len(standing.history.losses), self.recipe.epochs):
            loss = self.epoch(epoch)
            standing.history = standing.history.extended(loss, accuracy(self.network, self.val_set))
            if standing.history.best_epoch == epoch:
                standing.best = copy_of(self.network.state_dict())
            if file:
                checkpoints.save(file, self.identity, self.network, self.optimizer, standing)
            self.report(epoch, len(self.train_set), f"validation accuracy {standing.history.accuracies[-1]:.4f}")
        return standing

    def epoch(self, epoch: int) -> float:
        """Every training image once; the mean loss."""
        draws = generator(self.recipe.seed, "train", epoch)
        steps, total, done = self.recipe.steps(len(self.train_set)), 0.0, 0
        self.network.train()
        with seeded(seed_of(self.recipe.seed, "train", epoch, "dropout"), self.network.device):
            order = torch.randperm(len(self.train_set), generator=draws)
            for step, indices in enumerate(order.tensor_split(steps), start=epoch * steps):
                self.optimizer.param_groups[0]["lr"] = self.recipe.lr_at(step, steps * self.recipe.epochs)
                loss = self.step(indices, draws)
                total, done = total + loss * len(indices), done + len(indices)
                self.report(epoch, done, f"loss {loss:.4f}")
        return total / len(self.train_set)

    def step(self, indices: torch.Tensor, draws: torch.Generator) -> float:
        """One step of the optimizer on these images; their mean loss."""
        device = self.network.device
        images = self.train_set.batch(indices.numpy()).to(device)
        if self.recipe.augment == "crop_flip":
            images = crop_flip(images, sample_crop_flip(len(images), draws))
        loss = F.cross_entropy(self.network(images, needs=()).logits, self.labels[indices].to(device))
        if not loss.isfinite():
            lr = self.recipe.lr
            raise FloatingPointError(
                f"the training loss became {loss.item()}; lr={lr} is probably too high: try {lr / 10:g}"
            )
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss.item()

    def report(self, epoch: int, done: int, message: str) -> None:
        """Tell the caller how far the whole run is."""
        size = len(self.train_set)
        self.progress(
            epoch * size + done, self.recipe.epochs * size, f"epoch {epoch + 1}/{self.recipe.epochs}: {message}"
        )


def _silent(done: int, total: int, message: str) -> None:
    """The progress of callers that do not ask for it."""
