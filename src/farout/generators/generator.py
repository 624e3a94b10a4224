"""Generator contract: a model that is trained on images and generates new ones from latents or from images."""

from __future__ import annotations

import copy
from abc import ABC
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Self

import torch
import torch.nn.functional as F
from numpy.typing import ArrayLike
from torch import Tensor, nn

from farout import rng
from farout.component import Component
from farout.core import ImageSet, NotFitted
from farout.generators import files
from farout.generators.monitor import Monitor
from farout.generators.objective import Objective
from farout.generators.pairing import Pairing
from farout.generators.perceptual import Form
from farout.generators.task import GeneratorTask
from farout.identity import digest_module
from farout.networks.ensemble import Ensemble
from farout.networks.network import Network
from farout.registry import Registry
from farout.tensors import CHUNK
from farout.training import Recipe, StageHistory, fit
from farout.training.loop import Progress

PREFIX = "generator."
"""Prefix of the generating module's tensors: its name among the modules of the task."""
PLAIN = Objective()


@dataclass(kw_only=True, eq=False)
class Generator(Component, ABC):
    """Generative model of square images. Settings are the fields of a dataclass, `side` and `channels` among them.

    A model that is trained by gradient steps defines `recipe`, `task` and `build`; then `fit`, `sample`, `decode`,
    `save` and `load` are inherited. Any other defines these five itself. A model that changes images defines
    `translate`. With `dim` and `decode` a latent can also be searched:
    `farout.variations.Latent(generator=generator)`.
    """

    side: int
    """Side of the images in pixels."""
    channels: int = 3
    """Channels of the images, 1 or 3."""
    module: nn.Module | None = field(default=None, init=False, repr=False)
    """Trained module that generates; None before `fit` or `load`."""
    history: StageHistory | None = field(default=None, init=False, repr=False)
    """Losses and FID of the training, epoch by epoch; None if it was loaded."""
    dim = 0
    """Number of coordinates of a latent; 0 if it has none."""
    classes = 0
    """Number of classes that images are generated for; 0 if it is not conditional."""
    translates: ClassVar[bool] = False
    """True if it changes images instead of generating new ones."""

    # Training

    def recipe(self, **changes: Any) -> Recipe:
        """Return the settings of its training, with changes."""
        raise NotImplementedError(f"{self.name} has no recipe; define recipe and task, or fit")

    def task(self, train: ImageSet, objective: Objective = PLAIN, *, seed: int = 0) -> GeneratorTask:
        """Return the task of its training, with modules initialized from the seed; one of them is "generator"."""
        raise NotImplementedError(f"{self.name} has no task; define recipe and task, or fit")

    def build(self) -> nn.Module:
        """Return the generating module with new weights, drawn from torch's global generator."""
        raise NotImplementedError(f"{self.name} has no module; define build, or state_dict and load_state_dict")

    def fit(
        self,
        train: ImageSet,
        *,
        val: ImageSet | None = None,
        objective: str | Objective = "plain",
        ensemble: Ensemble | None = None,
        features: Network | None = None,
        lambda_p: float | None = None,
        lambda_s: float | None = None,
        pairing: Pairing = "random",
        form: Form = "unit",
        seed: int = 0,
        device: str | torch.device | None = None,
        checkpoint: str | Path | None = None,
        progress: Progress | None = None,
        samples: str | Path | None = None,
        **recipe: Any,
    ) -> Self:
        """Train on images; a second fit replaces the first.

        objective: "plain", "near" or "shifted", with the ensemble, the feature network, λp, λs, pairing and form of
            `Objective`; or an `Objective`.
        val, features: with a feature network, the FID to these images (or to training images) is measured from time to
            time and is in `history`.
        samples: folder for a grid of samples per epoch, PNG, always of the same latents.
        checkpoint, progress: as in `farout.training.fit`. recipe: settings that differ from those of `recipe()`.
        """
        if not isinstance(objective, Objective):
            objective = Objective(
                name=objective,  # type: ignore[arg-type]
                lambda_p=lambda_p, lambda_s=lambda_s, ensemble=ensemble,
                features=None if objective == "plain" else features, pairing=pairing, form=form,
            )  # fmt: skip
        task = self.task(train, objective, seed=seed)
        task.watch(Monitor(train if val is None else val, features, samples))
        settings = self.recipe(**{"seed": seed, **recipe})
        (history,) = fit(task, train, settings, device=device or "cpu", checkpoint=checkpoint, progress=progress)
        self.load_state_dict(task.weights())
        self.history = history
        return self.to(device or "cpu")

    # Sampling

    def latents(self, count: int, generator: torch.Generator) -> Tensor:
        """Return random latents [count, dim]."""
        return torch.randn(count, self.dim, generator=generator)

    def labels(self, n: int, seed: int = 0) -> Tensor | None:
        """Return the classes for which `sample(n, seed)` generates, [n]; None if it is not conditional."""
        if not self.classes:
            return None
        draws = [self._draw(number, seed, "labels") for number in range(-(-n // CHUNK))]
        return torch.cat([torch.randint(self.classes, (CHUNK,), generator=one) for one in draws] or [torch.empty(0)])[
            :n
        ]

    @torch.no_grad()
    def sample(self, n: int, seed: int = 0, labels: ArrayLike | None = None) -> Tensor:
        """Return new images, float32 [n, C, H, W] in [0, 1].

        Image i depends on the seed and on i, not on n: images are generated in chunks of 64, each with its own seed.
        labels: class of every image, for a conditional model; by default random, see `labels`.
        """
        if not self.dim:
            raise NotImplementedError(f"{self.name} cannot sample images; use translate(images, seed)")
        wanted = self.labels(n, seed) if labels is None else self._check_labels(labels, n)
        images = torch.empty(n, self.channels, self.side, self.side)
        for number in range(-(-n // CHUNK)):
            part = slice(number * CHUNK, min(n, (number + 1) * CHUNK))
            z = self.latents(CHUNK, self._draw(number, seed, "latents"))
            given = None if wanted is None else F.pad(wanted[part], (0, CHUNK - (part.stop - part.start)))
            images[part] = self.generate(z, given)[: part.stop - part.start].cpu()
        return images

    def _draw(self, number: int, seed: int, what: str) -> torch.Generator:
        return rng.generator(seed, "generator", what, number)

    def _check_labels(self, labels: ArrayLike, n: int) -> Tensor:
        wanted = torch.as_tensor(labels).long()
        if not self.classes:
            raise ValueError(f"{self.name} is not conditional and takes no labels")
        if wanted.shape != (n,) or (n and not 0 <= wanted.min() <= wanted.max() < self.classes):
            raise ValueError(f"expected {n} labels from 0 to {self.classes - 1}, got {labels!r}")
        return wanted

    def decode(self, z: Tensor, labels: Tensor | None = None) -> Tensor:
        """Return the images of latents [B, dim], float32 [B, C, H, W] in [0, 1], on the latents' device."""
        if not self.dim:
            raise NotImplementedError(f"{self.name} has no latent that can be searched")
        if z.ndim != 2 or z.shape[1] != self.dim:
            raise ValueError(f"expected latents [B, {self.dim}], got shape {list(z.shape)}")
        parts = z.split(CHUNK)
        classes = [None] * len(parts) if labels is None else labels.split(CHUNK)
        return torch.cat([self.generate(*part) for part in zip(parts, classes, strict=True)]).to(z.device)

    def translate(self, images: Tensor, seed: int = 0, indices: Iterable[int] | None = None) -> Tensor:
        """Return changed images of the same shape.

        An image is changed according to the seed and its index, 0 to B − 1 by default, not to its batch.
        """
        raise NotImplementedError(f"{self.name} cannot translate images; use sample(n, seed)")

    def generate(self, z: Tensor, labels: Tensor | None = None) -> Tensor:
        """Return the images of one batch of latents, on the module's device; `labels` only if it is conditional."""
        module, device = self.fitted.eval(), self.device
        output = module(z.to(device)) if labels is None else module(z.to(device), labels.to(device))
        return self.pixels(output).clamp(0, 1)

    # Padding: modules work at the next power of two, in [−1, 1]

    @property
    def module_side(self) -> int:
        """Side of the module's images: the next power of two."""
        return 1 << (self.side - 1).bit_length()

    def inputs(self, images: Tensor) -> Tensor:
        """Return images in [0, 1] as inputs of modules: in [−1, 1], padded with black to the module's side."""
        before = (self.module_side - self.side) // 2
        after = self.module_side - self.side - before
        return F.pad(images, (before, after, before, after)) * 2 - 1 if before or after else images * 2 - 1

    def pixels(self, outputs: Tensor) -> Tensor:
        """Return outputs of the module as images in [0, 1], without the padding."""
        start = (self.module_side - self.side) // 2
        return (outputs[..., start : start + self.side, start : start + self.side].float() + 1) / 2

    # Weights

    @property
    def fitted(self) -> nn.Module:
        """Module that generates; raise if there is none."""
        if self.module is None:
            raise NotFitted(f"{self.name} is not trained: call fit(train) or load(path) first")
        return self.module

    @property
    def device(self) -> torch.device:
        """Device of the module."""
        return next((weight.device for weight in self.fitted.parameters()), torch.device("cpu"))

    @property
    def digest(self) -> str:
        """Hash of the trained module."""
        return digest_module(self.fitted)

    def with_module(self, module: nn.Module) -> Self:
        """Return a generator with the same settings and another module."""
        other = copy.copy(self)
        other.module = module
        return other

    def state_dict(self) -> dict[str, Tensor]:
        """Return the tensors of the module; the names are those of `Task.weights`."""
        return {f"{PREFIX}{key}": value for key, value in self.fitted.state_dict().items()}

    def load_state_dict(self, tensors: Mapping[str, Tensor]) -> None:
        """Load the tensors of `state_dict`, or of `Task.weights`, whose other modules are ignored."""
        own = {key.removeprefix(PREFIX): value for key, value in tensors.items() if key.startswith(PREFIX)}
        with torch.random.fork_rng(devices=[]):
            module = self.build()
        try:
            module.load_state_dict(own)
        except RuntimeError as error:
            raise ValueError(f"the weights do not fit {self.name} with {self.params}: {error}") from error
        self.module = module.eval()

    def save(self, path: str | Path) -> None:
        """Write the weights as safetensors, with the name and the settings."""
        files.save(Path(path), self.state_dict(), files.Header(self.name, self.version, self.params))

    def load(self, path: str | Path) -> Self:
        """Read weights that `save` wrote; raise if they are those of another generator or of other settings."""
        files.check(Path(path), files.Header(self.name, self.version, self.params))
        self.load_state_dict(files.tensors(Path(path)))
        self.history = None
        return self

    def to(self, device: str | torch.device) -> Self:
        """Move the module to a device."""
        self.fitted.to(device)
        return self


GENERATORS: Registry[Generator] = Registry("generator", Generator)
