"""scikit-learn's and PyOD's outlier detectors on the penultimate features."""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from farout.adapters import libraries
from farout.adapters.catalog import Larger, adapter, sign_of
from farout.checks import check_count
from farout.core import Activations, PostHoc, Split
from farout.detectors.checks import check_finite
from farout.identity import Json, digest, digest_arrays, own_code_of, unknown_code
from farout.rng import generator

KEPT, PROBED = 4, 8


class _Made(NamedTuple):
    """A fitted estimator; `alone` where it is asked row by row."""

    estimator: Any
    alone: bool


_made: dict[str, _Made] = {}
"""Estimators that this process has fitted lately, by what they are and what they learned from: for copies."""


@adapter
@dataclasses.dataclass(kw_only=True)
class Estimator(PostHoc):
    """An outlier detector of scikit-learn or PyOD on the penultimate features.

    What is kept and saved is the training features; the estimator is fitted from them, the same way, in every process
    that needs it. Features are given as they are, in float64: a `sklearn.pipeline.Pipeline` can scale them first. One
    that scores an image by the others in its batch too (ECOD, COPOD) is asked image by image, which is slow: give it
    few training images with `images`.

    of: its dotted name ("sklearn.ensemble.IsolationForest", "pyod.models.ecod.ECOD"); in Python also an estimator,
        fitted or not: a new one with its settings is fitted here.
    settings: its parameters; an estimator among them is {of: …, settings: …}, a tuple {tuple: […]}.
    seed: what its random_state is where none is set, and what picks the sample.
    images: at most so many training images, picked at random; all of them if None.
    larger: what a larger score means; None = as the library has it: score_samples (else decision_function) of
        scikit-learn is larger for inliers, decision_function of PyOD for outliers.
    """

    name = "estimator"
    needs: ClassVar[frozenset[str]] = frozenset({"features"})
    fits_on: ClassVar[Split | None] = "train"
    of: Any = dataclasses.field(kw_only=False)
    settings: dict[str, Any] = dataclasses.field(default_factory=dict)
    seed: int = 0
    images: int | None = None
    larger: Larger | None = None

    def __post_init__(self) -> None:
        if isinstance(self.of, str):
            self._class = libraries.estimator_class(self.of)
            if not isinstance(self.settings or {}, dict):
                raise TypeError(f"settings must be a mapping, got {type(self.settings).__name__}")
            self.settings = libraries.plain(self.settings or {}, "settings")
        else:
            self._take(self.of)
        self.of = libraries.name_of(self._class)
        if not isinstance(self.seed, int) or not 0 <= self.seed < 2**32:
            raise ValueError(f"seed must be a whole number from 0 to 2**32 - 1, got {self.seed!r}")
        if self.images is not None:
            check_count("images", self.images)
        self.name = self._class.__name__
        self._method, self._sign = self._reading(self._new())
        self._ready: tuple[Tensor, _Made] | None = None

    def _take(self, given: Any) -> None:
        """An estimator in Python: its class and its settings."""
        if isinstance(given, type) or not hasattr(given, "get_params"):
            what = f"the class {given.__name__}" if isinstance(given, type) else type(given).__name__
            raise TypeError(f"expected an estimator (IsolationForest()) or its dotted name, got {what}")
        if self.settings:
            raise ValueError("settings go with a dotted name; an estimator in Python brings its own")
        self._class, self.settings = type(given), libraries.settings_of(given)

    def _new(self) -> Any:
        """The estimator, not fitted."""
        settings = dict(self.settings)
        if self.of == "sklearn.neighbors.LocalOutlierFactor" and settings.setdefault("novelty", True) is not True:
            raise ValueError("LocalOutlierFactor scores images it has not seen with novelty=True only")
        estimator = libraries.built(self._class, settings)
        libraries.fix_randomness(estimator, self.seed)
        return estimator

    def _reading(self, estimator: Any) -> tuple[str, int]:
        """The method that gives its scores, and their sign."""
        pyod = libraries.is_pyods(estimator)
        order = ("decision_function",) if pyod else ("score_samples", "decision_function")
        method = next((name for name in order if hasattr(estimator, name)), None)
        if method is None or not hasattr(estimator, "fit"):
            raise ValueError(
                f"{self.name} cannot score images it has not seen: expected an estimator with fit and score_samples "
                "or decision_function"
            )
        density = method == "score_samples" and libraries.is_library(self._class)
        mixed = any(map(libraries.is_pyods, estimator.get_params(deep=True).values()))
        if self.larger is None and not pyod and (mixed or not (density or _is_outlier_detector(estimator))):
            raise ValueError(
                f"{self.name} is no outlier detector of scikit-learn or PyOD; if a larger score of it means something "
                "about outliers, say what: larger='outlying' or larger='inlying'"
            )
        return method, sign_of(self.larger or ("outlying" if pyod else "inlying"))

    def check_fit(self, total: int, labelled: bool) -> None:
        if total < 2:
            raise ValueError(f"{self.name} needs at least 2 training images, got {total}")

    def fit(self, activations: Activations, labels: Tensor | None) -> Self:
        self.check_fit(len(activations), labels is not None)
        check_finite(activations, self.name)
        features = activations.features
        if self.images is not None and self.images < len(features):
            order = torch.randperm(len(features), generator=generator(self.seed, "estimator"))
            features = features[order[: self.images].sort().values.to(features.device)]
        self.state = {"features": features.detach().float().cpu().contiguous()}
        self._estimator()
        return self

    def score(self, activations: Activations) -> Tensor:
        estimator, features = self._estimator(), activations.features
        if not len(features):
            return features.new_empty(0, dtype=torch.float64)
        scores = self._scores(estimator, _numbers(features))
        return self._sign * torch.from_numpy(scores).to(features.device)

    def _scores(self, made: _Made, features: NDArray[np.float64]) -> NDArray[np.float64]:
        """What the estimator says of every row."""
        batches = np.split(features, len(features)) if made.alone else [features]
        with libraries.drawing_from(self.seed):
            answers = [getattr(made.estimator, self._method)(batch) for batch in batches]
        return np.concatenate([np.asarray(answer, np.float64).reshape(-1) for answer in answers])

    def _estimator(self) -> _Made:
        """The estimator, fitted once in this process to what is kept."""
        features = self.fitted("features")
        if self._ready is None or self._ready[0] is not features:
            key = digest([self.identity(), digest_arrays([("features", features.cpu().numpy())])])
            if key not in _made:
                estimator = self._new()
                with libraries.drawing_from(self.seed):
                    estimator.fit(_numbers(features))
                while len(_made) >= KEPT:
                    del _made[next(iter(_made))]
                _made[key] = self._asked(estimator, _numbers(features[:PROBED]))
            self._ready = features, _made[key]
        return self._ready[1]

    def _asked(self, estimator: Any, rows: NDArray[np.float64]) -> _Made:
        """The estimator, and whether it must be asked row by row because a row's score depends on the others'."""
        try:
            together, alone = (self._scores(_Made(estimator, alone=each), rows) for each in (False, True))
        except (IndexError, ValueError) as error:
            raise ValueError(f"{self.name} cannot score few images at a time: {error}; choose another") from error
        if np.abs(together - alone).max() <= 1e-6 * np.abs(together).max():
            return _Made(estimator, alone=False)
        if np.ptp(rows, axis=0).max() > 0 and not np.ptp(alone) > 0:
            raise ValueError(f"{self.name} scores images only by the others in their batch; choose another")
        return _Made(estimator, alone=True)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_ready": None}  # a copy finds the estimator among those made, or makes its own

    def identity(self) -> dict[str, Json]:
        """Parameters and the library's version; of a class from elsewhere, its source."""
        known = libraries.is_library(self._class)
        own = None if known else own_code_of(self._class) or unknown_code(self._class)
        code = own or libraries.versions_of(self.of, self.settings)
        return {"name": "estimator", "version": self.version, "params": self.params, "library": code}


def _is_outlier_detector(estimator: Any) -> bool:
    from sklearn.base import BaseEstimator, is_outlier_detector

    return isinstance(estimator, BaseEstimator) and bool(is_outlier_detector(estimator))


def _numbers(features: Tensor) -> NDArray[np.float64]:
    return np.ascontiguousarray(features.detach().cpu().double().numpy())
