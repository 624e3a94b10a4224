"""Adapter of pytorch-ood's detectors."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from enum import Enum
from typing import Any

import numpy as np
import torch
from torch import Tensor

from farout.adapters.libraries import seed_global_rngs
from farout.adapters.modules import copy_sharing, describe_object, modules_in, preserve_modules
from farout.core import Detector, ImageSet, NotFitted
from farout.identity import Json, describe_held
from farout.networks.network import Network
from farout.tensors import chunks

Normalize = Network | Callable[[Tensor], Tensor]


class Unset(Enum):
    """Marker of an argument that was not given, where None is a valid value."""

    UNSET = "unset"


UNSET = Unset.UNSET


class PytorchOOD(Detector):
    """Detector of pytorch-ood (0.4), constructed with its model.

    PytorchOOD(pytorch_ood.detector.EnergyBased(network.module), normalize=network)

    Its scores are larger for outliers already. `fit` fits a copy that shares the model; a detector that is already
    fitted is used unchanged.

    normalize: preprocessing of images in [0, 1] for its model: a `farout.Network`, whose mean and std are used, or a
        function; None if its model takes images in [0, 1]. It is required: a model that gets images of another range
        returns wrong scores without an error.
    name: label in tables; by default its class's name.
    seed: seed of the random draws, in `fit` and in each call of `score`.
    """

    def __new__(cls, detector: Any = None, **_: Any) -> PytorchOOD:
        needs = cls is PytorchOOD and getattr(detector, "requires_fit", False)
        return super().__new__(FittedPytorchOOD if needs else cls)

    def __init__(
        self, detector: Any, *, normalize: Normalize | Unset | None = UNSET, name: str | None = None, seed: int = 0
    ) -> None:
        if isinstance(detector, type) or not all(
            callable(getattr(detector, part, None)) for part in ("fit", "predict")
        ):
            what = f"the class {detector.__name__}" if isinstance(detector, type) else type(detector).__name__
            raise TypeError(f"expected a detector object of pytorch-ood, got {what}")
        if isinstance(normalize, Unset):
            raise TypeError(
                f"normalize= is required for {type(detector).__name__}: normalize=network (a farout.Network) uses that "
                "network's mean and std, normalize=None passes images in [0, 1]"
            )
        if normalize is not None and not callable(normalize):
            got = type(normalize).__name__
            raise TypeError(f"normalize: expected a farout.Network, a function or None, got {got}")
        self.detector, self.normalize, self.seed = detector, normalize, seed
        self.name = name or type(detector).__name__
        self.fitted: Any = None
        self.fitted_on: str | None = None

    @property
    def modules(self) -> list[torch.nn.Module]:
        """Modules held by the detector and its normalizer."""
        return modules_in([*vars(self.detector).values(), self.normalize])

    def score(self, images: Tensor) -> Tensor:
        if not len(images):
            return images.new_empty(0, dtype=torch.float64)
        detector = self.fitted or self.detector
        with preserve_modules(self.modules), seed_global_rngs(self.seed):
            try:
                scores = self._predict(detector, self._normalize_images(images))
            except Exception as error:
                if type(error).__name__ == "RequiresFittingException":
                    raise NotFitted(f"{self.name} is not fitted: call fit on inliers first") from error
                raise
        return torch.as_tensor(scores).detach().double().to(images.device)

    def _predict(self, detector: Any, images: Tensor) -> Any:
        """Return the scores, with gradients enabled only for detectors that need them."""
        with torch.set_grad_enabled(
            any(part.__name__ in ("GradientDetector", "ODIN") for part in type(detector).__mro__)
        ):
            return detector.predict(images)

    def _normalize_images(self, images: Tensor) -> Tensor:
        """Return the images as the model takes them."""
        images = images.detach().clone()
        with torch.no_grad():
            if isinstance(self.normalize, Network):
                return self.normalize.normalize(images.to(self.normalize.device))
            return images if self.normalize is None else self.normalize(images)

    def identity(self) -> Json | None:
        """Return the detector's class, library and attributes, and the training set; None if unknown."""
        own = describe_object(self.detector, "pytorch_ood", "pytorch-ood")
        normalize = describe_held({"": self.normalize})
        if own is None or normalize is None:
            return None
        return {
            "adapter": "pytorch-ood",
            "version": 2,
            "detector": own,
            "seed": self.seed,
            "normalize": normalize,
            "train": self.fitted_on,
        }


class FittedPytorchOOD(PytorchOOD):
    """Detector that must be fitted first."""

    def fit(self, images: ImageSet) -> None:
        if images.labels is None:
            raise ValueError(f"{self.name} fits on labeled images, and {images.name!r} has no labels")
        fitted = copy_sharing(self.detector, self.modules)
        with preserve_modules(self.modules), seed_global_rngs(self.seed), torch.no_grad():
            fitted.fit(_Batches(images, self._normalize_images))
        self.fitted, self.fitted_on = fitted, images.fingerprint


class _Batches:
    """Data loader of an image set in pytorch-ood's format: batches (images, labels); iterable repeatedly."""

    def __init__(self, images: ImageSet, normalize: Callable[[Tensor], Tensor]) -> None:
        self.images, self.normalize = images, normalize

    def __len__(self) -> int:
        return len(list(chunks(len(self.images))))

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        labels = self.images.labels
        assert labels is not None
        for part in chunks(len(self.images)):
            batch = self.images.batch(np.arange(part.start, part.stop))
            yield self.normalize(batch), torch.from_numpy(labels[part])
