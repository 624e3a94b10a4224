"""Generator contract: a model that is trained on images and generates new ones from latents or from images."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import torch
from torch import Tensor, nn

from farout.core import ImageSet
from farout.generators.monitor import Monitor
from farout.generators.objective import Objective
from farout.generators.pairing import Pairing
from farout.generators.perceptual import Form
from farout.generators.sampling import Sampler
from farout.generators.task import GeneratorTask
from farout.identity import digest_module
from farout.networks.ensemble import Ensemble
from farout.networks.network import Network
from farout.networks.weights import read_tensors
from farout.registry import Registry
from farout.training import Recipe, StageHistory, files, fit
from farout.training.loop import Progress

PREFIX = "generator."
"""Prefix of the generating module's tensors: its name among the modules of the task."""
PLAIN = Objective()


@dataclass(kw_only=True, eq=False)
class Generator(Sampler):
    """Generative model of square images. Settings are the fields of a dataclass, `side` and `channels` among them.

    A model that is trained by gradient steps defines `recipe`, `task` and `build`; then `fit`, `sample`, `decode`,
    `save` and `load` are inherited. Any other defines these five itself. A model that changes images defines
    `translate`. With `dim` and `decode` a latent can also be searched:
    `farout.variations.Latent(generator=generator)`.
    """

    history: StageHistory | None = field(default=None, init=False, repr=False)
    """Losses and FID of the training, epoch by epoch; None if it was loaded."""

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
        lambda_c: float = 0.0,
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

        objective: "plain", "near" or "shifted", with the ensemble, the feature network, λp, λs, λc, pairing and form of
            `Objective`; or an `Objective`.
        val, features: with a feature network, the FID to these images (or to training images) is measured from time to
            time and is in `history`.
        samples: folder for a grid of samples per epoch, PNG, always of the same latents.
        checkpoint, progress: as in `farout.training.fit`. recipe: settings that differ from those of `recipe()`.
        """
        if not isinstance(objective, Objective):
            objective = Objective(
                name=objective,  # type: ignore[arg-type]
                lambda_p=lambda_p, lambda_s=lambda_s, lambda_c=lambda_c, ensemble=ensemble,
                features=None if objective == "plain" else features, pairing=pairing, form=form,
            )  # fmt: skip
        task = self.task(train, objective, seed=seed)
        task.watch(Monitor(train if val is None else val, features, samples))
        settings = self.recipe(**{"seed": seed, **recipe})
        (history,) = fit(task, train, settings, device=device or "cpu", checkpoint=checkpoint, progress=progress)
        self.load_state_dict(task.weights())
        self.history = history
        return self.to(device or "cpu")

    # Weights

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
        files.save(Path(path), "generator", self.state_dict(), files.Header(self.name, self.version, self.params))

    def load(self, path: str | Path) -> Self:
        """Read weights that `save` wrote; raise if they are those of another generator or of other settings.

        Settings of sampling alone, such as StyleGAN2's truncation, may differ.
        """
        params = {name: value for name, value in self.params.items() if name not in self.sampling}
        files.check(Path(path), "generator", files.Header(self.name, self.version, params))
        self.load_state_dict(read_tensors(Path(path)))
        self.history = None
        return self

    def to(self, device: str | torch.device) -> Self:
        """Move the module to a device."""
        self.fitted.to(device)
        return self


GENERATORS: Registry[Generator] = Registry("generator", Generator)
