"""Small trainings of every kind, for tests of the loop; as a program, trains them all and writes their weights."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from safetensors.torch import save_file
from torch import Tensor, nn

from farout.core import ImageSet
from farout.networks import Network
from farout.training import (
    Batch,
    Classifier,
    Context,
    Player,
    Recipe,
    Stage,
    StageHistory,
    Stream,
    Task,
    fit,
    loop,
    ramp,
)


def images(count: int, seed: int, side: int = 8) -> ImageSet:
    """Gray images whose brighter half is their class."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 2, count)
    pixels = rng.uniform(0, 0.5, (count, 1, side, side)).astype(np.float32)
    pixels[labels == 1, :, : side // 2] += 0.4
    pixels[labels == 0, :, side // 2 :] += 0.4
    return ImageSet.from_arrays(pixels, labels, name=f"halves {seed}")


TRAIN, VAL, OUTLIERS = images(90, 0), images(30, 1), images(50, 2)


def built(make: Callable[[], nn.Module], seed: int = 0) -> Any:
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return make()


class Small(nn.Module):
    """A classifier with batch norm and dropout."""

    side = 8

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(1, 6, 3, 2, 1), nn.BatchNorm2d(6), nn.ReLU(), nn.Dropout(0.2))
        self.linear = nn.Linear(6, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.linear(self.body(x).mean((2, 3)))


def network(seed: int = 0) -> Network:
    return built(lambda: Network(Small(), mean=0.5, std=0.5), seed)


class Exposed(Classifier):
    """A classifier that is exposed to mined outliers, with a weight that rises."""

    scalars: Mapping[str, Any] = {"weight": lambda at: ramp(at.epochs, 0.5, 2)}

    def __init__(self, net: Network, val: ImageSet, outliers: ImageSet) -> None:
        super().__init__(net, val)
        self.outliers, self.mined = outliers, torch.arange(len(outliers))

    @property
    def streams(self) -> Mapping[str, Stream]:
        return {"outliers": Stream(self.outliers.subset(self.mined.numpy()), 7)}

    @torch.no_grad()
    def start_epoch(self, context: Context) -> None:
        self.network.eval()
        logits = self.network(self.outliers.batch(np.arange(len(self.outliers))), needs=()).logits
        self.mined = logits.softmax(1).amax(1).argsort()[:30]

    def loss(self, player: str, batch: Batch, context: Context) -> Tensor:
        other = self.network(batch.streams["outliers"].images, needs=()).logits
        uniform = (other.logsumexp(1) - other.mean(1)).mean()
        return super().loss(player, batch, context) + context.scalars["weight"] * uniform

    def state(self) -> dict[str, Tensor]:
        return {"mined": self.mined}

    def load_state(self, state: Mapping[str, Tensor]) -> None:
        self.mined = state["mined"]


class Energy(Task):
    """An autoencoder, trained again as an energy with a replay buffer of Langevin chains."""

    stages = (Stage("reconstruction", keep="min"), Stage("energy", {"steps": 7, "lr": 1e-3, "clip": 0.1}))
    figure = "validation error"

    def __init__(self) -> None:
        encoder = built(lambda: nn.Sequential(nn.Flatten(), nn.Linear(64, 12), nn.BatchNorm1d(12), nn.Tanh()))
        decoder = built(
            lambda: nn.Sequential(nn.Dropout(0.1), nn.Linear(12, 64), nn.Sigmoid(), nn.Unflatten(1, (1, 8, 8)))
        )
        self.modules = {"encoder": encoder, "decoder": decoder}
        self.buffer = torch.zeros(0, 1, 8, 8)

    @property
    def identity(self) -> Any:
        return "energy"

    def energy(self, x: Tensor) -> Tensor:
        return (x - self.modules["decoder"](self.modules["encoder"](x))).square().flatten(1).mean(1)

    def loss(self, player: str, batch: Batch, context: Context) -> Tensor:
        if context.position.stage == "reconstruction":
            return self.energy(batch.images).mean()
        fake = self.chains(batch.images.shape, context)
        return self.energy(batch.images).mean() - self.energy(fake).mean()

    def chains(self, shape: torch.Size, context: Context) -> Tensor:
        x = torch.rand(shape, generator=context.generator)
        if len(self.buffer):
            old = torch.randint(len(self.buffer), (len(x) // 2,), generator=context.generator)
            x[: len(old)] = self.buffer[old]
        for _ in range(2):
            x.requires_grad_(True)
            (gradient,) = torch.autograd.grad(self.energy(x).sum(), x)
            x = (x - gradient + 0.01 * torch.randn(shape, generator=context.generator)).clamp(0, 1).detach()
        self.buffer = torch.cat([self.buffer, x])[-60:]
        return x

    @torch.no_grad()
    def validate(self, context: Context) -> float:
        for module in self.modules.values():
            module.eval()
        return self.energy(VAL.batch(np.arange(len(VAL)))).mean().item()

    def state(self) -> dict[str, Tensor]:
        return {"buffer": self.buffer}

    def load_state(self, state: Mapping[str, Tensor]) -> None:
        self.buffer = state["buffer"]


class Gan(Task):
    """Two players, two steps of the discriminator per step of the generator, and a lazy gradient penalty."""

    averaged = ("generator",)

    def __init__(self) -> None:
        generator = built(lambda: nn.Sequential(nn.Linear(5, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 64)))
        critic = built(lambda: nn.Sequential(nn.Linear(64, 16), nn.LeakyReLU(0.2), nn.Dropout(0.1), nn.Linear(16, 1)))
        self.modules = {"generator": generator, "critic": critic}
        self.calls: list[tuple[str, int, tuple[int, ...], bool]] = []

    @property
    def identity(self) -> Any:
        return "gan"

    def players(self, stage: str) -> tuple[Player, ...]:
        return (
            Player("critic", ("critic",), steps=2, changes={"lr": 4e-3}),
            Player("penalty", ("critic",), every=3, shares="critic"),
            Player("generator", ("generator",)),
        )

    def loss(self, player: str, batch: Batch, context: Context) -> Tensor:
        real = batch.images.flatten(1)
        if player == "penalty":
            real.requires_grad_(True)
            (gradient,) = torch.autograd.grad(self.modules["critic"](real).sum(), real, create_graph=True)
            return gradient.square().sum(1).mean()
        fake = self.modules["generator"](torch.randn(len(real), 5, generator=context.generator)).sigmoid()
        self.calls.append((player, context.position.step, tuple(batch.indices.tolist()), fake.requires_grad))
        if player == "generator":
            return F.softplus(-self.modules["critic"](fake)).mean()
        return F.softplus(-self.modules["critic"](real)).mean() + F.softplus(self.modules["critic"](fake)).mean()


ADAM: dict[str, Any] = {"optimizer": "adam", "lr": 2e-3, "weight_decay": 0.0, "augment": "none"}
KINDS: dict[str, tuple[Callable[[], Task], Recipe]] = {
    "classifier": (lambda: Classifier(network(), VAL), Recipe(epochs=3, batch=16, lr=0.05, ema=0.9)),
    "exposed": (
        lambda: Exposed(network(), VAL, OUTLIERS),
        Recipe(epochs=3, batch=16, lr=0.05, augment=("flip", "color_jitter"), accumulate=2),
    ),
    "half": (
        lambda: Classifier(network(), VAL),
        Recipe(epochs=2, batch=16, optimizer="adamw", lr=0.01, autocast="fp16", clip=1.0),
    ),
    "energy": (Energy, Recipe(epochs=3, batch=16, **ADAM)),
    "gan": (Gan, Recipe(steps=8, batch=16, ema=0.8, ema_start=2, drop_last=True, **ADAM)),
}


def trained(kind: str, **options: Any) -> tuple[dict[str, Tensor], list[StageHistory], Task]:
    """Train one kind; return its weights, its histories and the task."""
    make, recipe = KINDS[kind]
    task = make()
    histories = fit(task, TRAIN, recipe, **options)
    return task.weights(), histories, task


def main(folder: Path) -> None:
    """Train all kinds, with a checkpoint after every step."""
    loop.CHECKPOINT_SECONDS = 0.0
    torch.set_num_threads(3)
    for kind in KINDS:
        weights, _, _ = trained(kind, checkpoint=folder / f"{kind}.checkpoint")
        save_file({key: value.contiguous() for key, value in weights.items()}, folder / f"{kind}.safetensors")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
