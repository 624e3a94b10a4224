"""Feed of a training: the images of every forward pass, in order and augmented; the seed determines all of it."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor

from farout.core import ImageSet
from farout.rng import generator, seed_of
from farout.training.augment import augment, augmentations
from farout.training.recipe import Recipe
from farout.training.task import Batch, Stream


class Feed:
    """Batches of one stage. Every turn has `batches` steps with different images, each of `accumulate` passes."""

    def __init__(self, images: ImageSet, recipe: Recipe, batches: int, device: torch.device) -> None:
        self.images, self.recipe, self.batches, self.device = images, recipe, batches, device
        self.per_epoch = recipe.steps_per_epoch(len(images), batches)
        passes = batches * recipe.accumulate
        if not self.per_epoch or len(images) // self.per_epoch < passes:
            raise ValueError(
                f"the training set {images.name!r} has {len(images):,} images, and one turn takes {passes} batches of "
                f"{recipe.batch}{', all of them full (drop_last)' if recipe.drop_last else ''}; give more images or a "
                "smaller batch"
            )
        self.used = self.per_epoch * passes * recipe.batch if recipe.drop_last else len(images)
        """Number of images of one epoch."""
        self._labels = None if images.labels is None else torch.as_tensor(images.labels)
        self._augment = augmentations(recipe.augment)
        self._turns: tuple[Tensor, ...] = ()
        self._epoch = -1
        self._streams: dict[str, StreamFeed] = {}

    def begin(self, epoch: int, streams: Mapping[str, Stream]) -> None:
        """Draw the order of an epoch."""
        order = torch.randperm(len(self.images), generator=generator(self.recipe.seed, "train", epoch))
        self._turns, self._epoch = order[: self.used].tensor_split(self.per_epoch), epoch
        self._streams = {name: StreamFeed(name, stream, self.recipe, epoch) for name, stream in streams.items()}

    def seen(self, turns: int) -> int:
        """Return the number of images that the first turns of an epoch use."""
        each, more = divmod(self.used, self.per_epoch)
        return turns * each + min(turns, more)

    def step(self, turn: int, step: int) -> tuple[Tensor, ...]:
        """Return the indices of the images of one step, pass by pass."""
        indices = self._turns[turn].tensor_split(self.batches)[step] if self.batches > 1 else self._turns[turn]
        return indices.tensor_split(self.recipe.accumulate) if self.recipe.accumulate > 1 else (indices,)

    def batch(self, indices: Tensor, turn: int, number: int) -> Batch:
        """Return the batch of these images, the `number`-th of its turn."""
        images = self.images.batch(indices.numpy()).to(self.device)
        if self._augment:
            seed = seed_of(self.recipe.seed, "train", self._epoch, turn, "augment", number)
            images = augment(images, self._augment, seed)
        labels = None if self._labels is None else self._labels[indices].to(self.device)
        position = turn * self.batches * self.recipe.accumulate + number
        streams = {name: stream.batch(position, self.device) for name, stream in self._streams.items()}
        return Batch(images, labels, indices, streams)


class StreamFeed:
    """Batches of a stream in one epoch."""

    def __init__(self, name: str, stream: Stream, recipe: Recipe, epoch: int) -> None:
        if not len(stream.images):
            raise ValueError(f"the stream {name!r} has no images; expected at least one")
        self.stream, self.seed = stream, seed_of(recipe.seed, "train", epoch, "stream", name)
        self._augment = augmentations(recipe.augment if stream.augment is None else stream.augment)
        self._orders: dict[int, Tensor] = {}

    def indices(self, number: int) -> Tensor:
        """Return the indices of the `number`-th batch of the epoch."""
        total, start = len(self.stream.images), number * self.stream.batch
        positions = np.arange(start, start + self.stream.batch)
        rounds = positions // total
        self._orders = {one: self._order(one) for one in np.unique(rounds).tolist()}
        return torch.cat([order[positions[rounds == one] % total] for one, order in self._orders.items()])

    def _order(self, one: int) -> Tensor:
        if one in self._orders:
            return self._orders[one]
        return torch.randperm(len(self.stream.images), generator=generator(self.seed, one))

    def batch(self, number: int, device: torch.device) -> Batch:
        """Return the `number`-th batch of the epoch."""
        indices, images = self.indices(number), self.stream.images
        pixels = augment(images.batch(indices.numpy()).to(device), self._augment, seed_of(self.seed, "augment", number))
        labels = None if images.labels is None else torch.as_tensor(images.labels[indices.numpy()]).to(device)
        return Batch(pixels, labels, indices)
