"""Objectives of a generator: the terms that "The Raised Bar" adds to the adversarial loss (eqs. 3 and 4)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from farout.generators.pairing import Pairing
from farout.generators.perceptual import Form, check_blocks
from farout.identity import Json
from farout.networks.ensemble import Ensemble
from farout.networks.network import Network
from farout.registry import unknown

Name = Literal["plain", "near", "shifted"]
WEIGHTS: dict[str, tuple[float, float]] = {"plain": (0.0, 0.0), "near": (1.0, 1.0), "shifted": (2.0, 1.0)}
"""Default λp and λs."""
VERSION = 1
"""Bumped by hand when the same objective gives other losses."""


@dataclass(frozen=True, kw_only=True)
class Objective:
    """Terms added to a generator's loss; λp and λs are positive, and the name determines the signs.

    plain: none. near (eq. 4): + λp · perceptual − λs · MI: near the real images, and of no class.
    shifted (eq. 3): − λp · perceptual + λs · MI: far from the original image, and of its class; + λc · cross entropy to
    the class of the original, which is not in the paper: MI alone is as low for any other class.
    """

    name: Name = "plain"
    lambda_p: float | None = None
    """Weight of the perceptual distance; by default 1 (near) or 2 (shifted). With 0, `features` is not needed."""
    lambda_s: float | None = None
    """Weight of the mutual information; by default 1."""
    lambda_c: float = 0.0
    """Weight of the ensemble's cross entropy to the class of the original image; of shifted images only."""
    ensemble: Ensemble | None = None
    """Classifiers of different architectures, trained on the same images; not needed if λs and λc are 0."""
    features: Network | None = None
    """Network over whose blocks the perceptual distance is computed."""
    pairing: Pairing = "random"
    """Real image that a generated one is compared with: one of the batch at random (for a translated image, its
    original), one of the same class, or the nearest of the batch by features."""
    form: Form = "unit"
    """Form of the perceptual distance: "unit", "printed" or "lpips"."""

    def __post_init__(self) -> None:
        for kind, known in (("name", Name), ("pairing", Pairing), ("form", Form)):
            if getattr(self, kind) not in get_args(known):
                raise unknown(f"{kind} of an objective:", getattr(self, kind), get_args(known))
        for field, default in zip(("lambda_p", "lambda_s"), WEIGHTS[self.name], strict=True):
            self._set_weight(field, default)
        self._set_weight("lambda_c", 0.0)
        if self.lambda_c and self.name != "shifted":
            raise ValueError(f'lambda_c keeps the class of shifted images, got objective {self.name!r}; use "shifted"')
        if self.uses_ensemble and not isinstance(self.ensemble, Ensemble):
            raise ValueError(
                f"the objective {self.name!r} needs an ensemble of classifiers for its semantic terms, got "
                f"{self.ensemble!r}; pass ensemble=farout.networks.Ensemble([…]), or lambda_s=0 to leave them out"
            )
        self._check_features()

    def _set_weight(self, field: str, default: float) -> None:
        value = default if getattr(self, field) is None else float(getattr(self, field))
        if not 0 <= value < float("inf"):
            raise ValueError(f"expected {field} >= 0, got {value}; the objective's name determines the signs")
        if value and self.name == "plain":
            raise ValueError(f'the objective "plain" has no terms, got {field}={value}; use "near" or "shifted"')
        object.__setattr__(self, field, value)

    def _check_features(self) -> None:
        """Raise if the perceptual term lacks its network."""
        if not self.lambda_p:
            return
        if self.form == "lpips":
            if self.pairing == "nearest":
                raise ValueError('pairing="nearest" compares features of a network; use form="unit" or "printed"')
        elif not isinstance(self.features, Network) or isinstance(self.features, Ensemble):
            raise ValueError(
                f"the objective {self.name!r} needs a feature network for its perceptual distance, got "
                f"{type(self.features).__name__}; pass features=farout.Network(…), or lambda_p=0 to leave the term out"
            )
        else:
            check_blocks(self.features)

    @property
    def uses_ensemble(self) -> bool:
        """True if a term reads the ensemble."""
        return bool(self.lambda_s or self.lambda_c)

    @property
    def identity(self) -> dict[str, Json]:
        """Everything that determines the terms."""
        features = self.features if self.lambda_p and self.form != "lpips" else None
        return {
            "name": self.name,
            "version": VERSION,
            "weights": [self.lambda_p, self.lambda_s, *([self.lambda_c] if self.lambda_c else [])],
            "ensemble": self.ensemble.digest if self.ensemble is not None and self.uses_ensemble else None,
            "features": None if features is None else [features.name, features.digest],
            "pairing": self.pairing if self.lambda_p else None,
            "form": self.form if self.lambda_p else None,
        }
