"""Detector of the normalized autoencoder, with the settings of Yoon et al. 2021 for CIFAR-10."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from torch import Tensor, nn

from farout.detectors.catalog import register
from farout.detectors.trained.detector import BY_PRESET, Inputs, Preset, TrainedDetector, TrainingSets
from farout.detectors.trained.nae.chains import ReplayBuffer, data_chain, latent_chain
from farout.detectors.trained.nae.networks import Decoder, Encoder
from farout.detectors.trained.nae.task import NormalizedAutoencoder, energies
from farout.training import Recipe, Task

ENERGY: Mapping[Preset, Mapping[str, Any]] = {
    "small": {"steps": 200, "lr": 1e-4, "clip": None},
    "full": {"epochs": 10, "lr": 1e-5, "clip": None},
}
"""Settings of the recipe in the second stage."""
LENGTHS = frozenset({"epochs", "steps"})


@register
@dataclass(kw_only=True, eq=False)
class NAE(TrainedDetector):
    """Reconstruction error of an autoencoder that is trained as an energy, so that outliers are not rebuilt well."""

    name = "nae"
    presets: ClassVar[Mapping[Preset, Mapping[str, Any]]] = {
        "small": {"width": 32, "latent": 16, "latent_steps": 5, "data_steps": 10, "buffer": 1_000},
        "full": {"width": 128, "latent": 32, "latent_steps": 20, "data_steps": 40, "buffer": 10_000},
    }
    brief: ClassVar[Mapping[str, Any]] = {"training": {"epochs": 1}, "energy": {"epochs": 1}}
    width: int = BY_PRESET
    """Channels of the first convolution and of the decoder."""
    latent: int = BY_PRESET
    """Size of the code, a point of the unit sphere."""
    latent_steps: int = BY_PRESET
    """Steps of a latent chain."""
    data_steps: int = BY_PRESET
    """Steps of a data chain."""
    buffer: int = BY_PRESET
    """Latents in the replay buffer."""
    energy: Mapping[str, Any] = field(default_factory=dict)
    """Settings of the recipe in the second stage that differ from the preset's; `training` are those of the first."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.energy, Mapping):
            raise TypeError(f"energy must map settings to values, such as {{epochs: 1}}, got {self.energy!r}")
        self.recipe().changed(**self.energy)  # raise now if a setting is unknown

    def recipe(self) -> Recipe:
        full = Recipe(
            epochs=180, batch=128, optimizer="adam", lr=1e-4, weight_decay=0.0, schedule="constant", clip=0.1,
            augment="flip",
        )  # fmt: skip
        return full if self.preset == "full" else full.changed(epochs=4, batch=32, lr=1e-3)

    def build(self, inputs: Inputs) -> dict[str, nn.Module]:
        return {
            "encoder": Encoder(inputs.channels, self.width, self.latent),
            "decoder": Decoder(inputs.channels, inputs.side, self.width, self.latent),
        }

    def task(self, sets: TrainingSets) -> Task:
        chains = latent_chain(self.latent_steps), data_chain(self.data_steps)
        buffer = ReplayBuffer(self.buffer, self.latent)
        return NormalizedAutoencoder(self.modules, sets.val, *chains, buffer, self._energy)

    @property
    def _energy(self) -> Mapping[str, Any]:
        """Settings of the second stage; given epochs replace the preset's steps, and vice versa."""
        replaced = LENGTHS if LENGTHS & self.energy.keys() else frozenset()
        return {key: one for key, one in ENERGY[self.preset].items() if key not in replaced} | dict(self.energy)

    def compute(self, images: Tensor) -> Tensor:
        return energies(self.modules, images)

    def import_state(self, tensors: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
        """Return the tensors of `state_dict`, without the inputs, from those of the authors' checkpoint.

        It wraps the decoder as `net`, holds every convolution of the decoder a second time under another name, and two
        constants (`temperature_`, `decoder.sigma`).
        """
        wanted = ("encoder.", "decoder.net.dense.", "decoder.net.model.")
        renamed = {
            key.replace("decoder.net.", "decoder."): one for key, one in tensors.items() if key.startswith(wanted)
        }
        return {key: one for key, one in renamed.items() if not _is_alias(key)}


def _is_alias(key: str) -> bool:
    """Return True for the second names of the convolutions in a block of the authors' decoder."""
    return key.startswith("decoder.model.") and key.split(".")[3] in ("conv1", "conv2")
