"""A detector of pytorch-ood."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from enum import Enum
from typing import Any

import numpy as np
import torch
from torch import Tensor

from farout.adapters.libraries import drawing_from
from farout.adapters.modules import copied, left_alone, modules_in, told
from farout.core import Detector, ImageSet, NotFitted
from farout.identity import Json, describe_held
from farout.networks.network import Network
from farout.tensors import chunks

Normalize = Network | Callable[[Tensor], Tensor]


class Unset(Enum):
    """A choice that was not made, where None is one."""

    UNSET = "unset"


UNSET = Unset.UNSET


class PytorchOOD(Detector):
    """A detector of pytorch-ood (0.4), made with its model.

    PytorchOOD(pytorch_ood.detector.EnergyBased(network.module), normalize=network)

    Its scores are larger for outliers already. `fit` fits a copy, which shares the model; a detector that was fitted
    beforehand scores as it is.

    normalize: what is done to images in [0, 1] before they are given to it: a `farout.Network`, by whose mean and std
        they are normalized, or a function; None where its model takes images in [0, 1]. It must be given: a model that
        gets images of another range scores all the same, and wrong.
    name: what tables call it; its class's name by default.
    seed: where random draws start from, in `fit` and in each call of `score`.
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
            raise TypeError(f"expected a detector of pytorch-ood, made with its model, got {what}")
        if isinstance(normalize, Unset):
            raise TypeError(
                f"say what {type(detector).__name__}'s model takes: normalize=network (a farout.Network) gives it "
                "images normalized by that network's mean and std, normalize=None gives it images in [0, 1] as they are"
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
        """The modules that the detector and its normaliser hold."""
        return modules_in([*vars(self.detector).values(), self.normalize])

    def score(self, images: Tensor) -> Tensor:
        if not len(images):
            return images.new_empty(0, dtype=torch.float64)
        detector = self.fitted or self.detector
        with left_alone(self.modules), drawing_from(self.seed):
            try:
                scores = self._predict(detector, self._seen(images))
            except Exception as error:
                if type(error).__name__ == "RequiresFittingException":
                    raise NotFitted(f"{self.name} is not fitted: call fit on inliers first") from error
                raise
        return torch.as_tensor(scores).detach().double().to(images.device)

    def _predict(self, detector: Any, images: Tensor) -> Any:
        """Gradients are on for those that need them only."""
        with torch.set_grad_enabled(
            any(part.__name__ in ("GradientDetector", "ODIN") for part in type(detector).__mro__)
        ):
            return detector.predict(images)

    def _seen(self, images: Tensor) -> Tensor:
        """What their model sees."""
        images = images.detach().clone()
        with torch.no_grad():
            if isinstance(self.normalize, Network):
                return self.normalize.normalize(images.to(self.normalize.device))
            return images if self.normalize is None else self.normalize(images)

    def identity(self) -> Json | None:
        """The detector's class, library and what it holds, and what it was fitted on; None if that cannot be told."""
        own = told(self.detector, "pytorch_ood", "pytorch-ood")
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
    """One that must be fitted."""

    def fit(self, images: ImageSet) -> None:
        if images.labels is None:
            raise ValueError(f"{self.name} fits on labelled images, and {images.name!r} has no labels")
        fitted = copied(self.detector, self.modules)
        with left_alone(self.modules), drawing_from(self.seed), torch.no_grad():
            fitted.fit(_Batches(images, self._seen))
        self.fitted, self.fitted_on = fitted, images.fingerprint


class _Batches:
    """A set as their loaders give it: batches (images, labels), any number of times."""

    def __init__(self, images: ImageSet, seen: Callable[[Tensor], Tensor]) -> None:
        self.images, self.seen = images, seen

    def __len__(self) -> int:
        return len(list(chunks(len(self.images))))

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        labels = self.images.labels
        assert labels is not None
        for part in chunks(len(self.images)):
            batch = self.images.batch(np.arange(part.start, part.stop))
            yield self.seen(batch), torch.from_numpy(labels[part])
