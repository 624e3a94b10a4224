"""`estimator`: outlier detectors of scikit-learn and PyOD on the penultimate features."""

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
from farout.core import Activations, PostHoc, Reduction, Split
from farout.detectors.bases.banks import BankReduction
from farout.detectors.checks import check_finite
from farout.identity import Json, digest, digest_arrays, own_code_of, unknown_code
from farout.rng import generator

CACHE_SIZE, PROBE_ROWS = 4, 8


class _Fitted(NamedTuple):
    """Fitted estimator; `alone` if it must score one row at a time."""

    estimator: Any
    alone: bool


_cache: dict[str, _Fitted] = {}
"""Cache of the estimators that this process fitted last, by identity and training features; copies share it."""


@adapter
@dataclasses.dataclass(kw_only=True)
class Estimator(PostHoc):
    """Outlier detector of scikit-learn or PyOD on the penultimate features.

    The saved state is the training features; every process fits the estimator from them in the same way. Features
    are passed in float64, not scaled: a `sklearn.pipeline.Pipeline` can scale them first. An estimator whose scores
    depend on the batch (ECOD, COPOD) scores one image at a time, which is slow: limit its training images with
    `images`.

    of: its dotted name ("sklearn.ensemble.IsolationForest", "pyod.models.ecod.ECOD"); in Python also an estimator,
        fitted or not: a new one with its settings is fitted here.
    settings: its parameters; a nested estimator is {of: …, settings: …}, a tuple {tuple: […]}.
    seed: its random_state if none is set, and the seed of the random sample.
    images: maximum number of training images, sampled at random; None for all.
    larger: meaning of a larger score; None = as the library defines it: score_samples (else decision_function) of
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
            self.settings = libraries.to_json(self.settings or {}, "settings")
        else:
            self._use_object(self.of)
        self.of = libraries.name_of(self._class)
        if not isinstance(self.seed, int) or not 0 <= self.seed < 2**32:
            raise ValueError(f"seed must be a whole number from 0 to 2**32 - 1, got {self.seed!r}")
        if self.images is not None:
            check_count("images", self.images)
        self.name = self._class.__name__
        self._method, self._sign = self._score_method(self._build())
        self._ready: tuple[Tensor, _Fitted] | None = None

    def _use_object(self, estimator: Any) -> None:
        """Take class and settings from an estimator object."""
        if isinstance(estimator, type) or not hasattr(estimator, "get_params"):
            what = f"the class {estimator.__name__}" if isinstance(estimator, type) else type(estimator).__name__
            raise TypeError(f"expected an estimator (IsolationForest()) or its dotted name, got {what}")
        if self.settings:
            raise ValueError("settings= is for a dotted name; an estimator object has its own settings")
        self._class, self.settings = type(estimator), libraries.settings_of(estimator)

    def _build(self) -> Any:
        """Build the unfitted estimator."""
        settings = dict(self.settings)
        if self.of == "sklearn.neighbors.LocalOutlierFactor" and settings.setdefault("novelty", True) is not True:
            raise ValueError("LocalOutlierFactor scores images it has not seen with novelty=True only")
        estimator = libraries.build(self._class, settings)
        libraries.fix_randomness(estimator, self.seed)
        return estimator

    def _score_method(self, estimator: Any) -> tuple[str, int]:
        """Return the name of the scoring method, and the sign of its scores."""
        pyod = libraries.is_pyod(estimator)
        order = ("decision_function",) if pyod else ("score_samples", "decision_function")
        method = next((name for name in order if hasattr(estimator, name)), None)
        if method is None or not hasattr(estimator, "fit"):
            raise ValueError(
                f"{self.name} cannot score images it has not seen: expected an estimator with fit and score_samples "
                "or decision_function"
            )
        density = method == "score_samples" and libraries.is_library(self._class)
        mixed = any(map(libraries.is_pyod, estimator.get_params(deep=True).values()))
        if self.larger is None and not pyod and (mixed or not (density or _is_outlier_detector(estimator))):
            raise ValueError(
                f"{self.name} is not an outlier detector of scikit-learn or PyOD; if it has outlier scores, say what a "
                "larger one means: larger='outlying' or larger='inlying'"
            )
        return method, sign_of(self.larger or ("outlying" if pyod else "inlying"))

    def check_fit(self, total: int, labeled: bool) -> None:
        if total < 2:
            raise ValueError(f"{self.name} needs at least 2 training images, got {total}")

    def fit(self, activations: Activations, labels: Tensor | None) -> Self:
        self.check_fit(len(activations), labels is not None)
        if self.reduction(len(activations), labels) is not None:
            return self.fit_reduced(activations, labels)
        self._keep(activations)
        return self

    def reduction(self, total: int, labels: Tensor | None) -> Reduction | None:
        if self.images is None or self.images >= total:
            return None
        order = torch.randperm(total, generator=generator(self.seed, "estimator"))
        return BankReduction(order[: self.images].sort().values.numpy(), self._keep)

    def _keep(self, activations: Activations) -> None:
        """Fit the estimator on these rows."""
        check_finite(activations, self.name)
        self.state = {"features": activations.features.detach().float().cpu().contiguous()}
        self._estimator()

    def score(self, activations: Activations) -> Tensor:
        estimator, features = self._estimator(), activations.features
        if not len(features):
            return features.new_empty(0, dtype=torch.float64)
        scores = self._scores(estimator, _numbers(features))
        return self._sign * torch.from_numpy(scores).to(features.device)

    def _scores(self, fitted_estimator: _Fitted, features: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the estimator's score of every row."""
        batches = np.split(features, len(features)) if fitted_estimator.alone else [features]
        with libraries.seed_global_rngs(self.seed):
            answers = [getattr(fitted_estimator.estimator, self._method)(batch) for batch in batches]
        return np.concatenate([np.asarray(answer, np.float64).reshape(-1) for answer in answers])

    def _estimator(self) -> _Fitted:
        """Return the estimator, fitted once per process on the stored features."""
        features = self.fitted("features")
        if self._ready is None or self._ready[0] is not features:
            key = digest([self.identity(), digest_arrays([("features", features.cpu().numpy())])])
            if key not in _cache:
                estimator = self._build()
                with libraries.seed_global_rngs(self.seed):
                    estimator.fit(_numbers(features))
                while len(_cache) >= CACHE_SIZE:
                    del _cache[next(iter(_cache))]
                _cache[key] = self._check_batches(estimator, _numbers(features[:PROBE_ROWS]))
            self._ready = features, _cache[key]
        return self._ready[1]

    def _check_batches(self, estimator: Any, rows: NDArray[np.float64]) -> _Fitted:
        """Return the fitted estimator; `alone` if a row's score depends on the other rows."""
        try:
            together, alone = (self._scores(_Fitted(estimator, alone=each), rows) for each in (False, True))
        except (IndexError, ValueError) as error:
            raise ValueError(f"{self.name} cannot score few images at a time: {error}; choose another") from error
        if np.abs(together - alone).max() <= 1e-6 * np.abs(together).max():
            return _Fitted(estimator, alone=False)
        if np.ptp(rows, axis=0).max() > 0 and not np.ptp(alone) > 0:
            raise ValueError(f"{self.name} scores images only by the others in their batch; choose another")
        return _Fitted(estimator, alone=True)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_ready": None}  # a copy uses the cache, or fits its own

    def identity(self) -> dict[str, Json]:
        """Return parameters and the library's version; for other classes, their source."""
        known = libraries.is_library(self._class)
        own = None if known else own_code_of(self._class) or unknown_code(self._class)
        code = own or libraries.versions_of(self.of, self.settings)
        return {"name": "estimator", "version": self.version, "params": self.params, "library": code}


def _is_outlier_detector(estimator: Any) -> bool:
    from sklearn.base import BaseEstimator, is_outlier_detector

    return isinstance(estimator, BaseEstimator) and bool(is_outlier_detector(estimator))


def _numbers(features: Tensor) -> NDArray[np.float64]:
    return np.ascontiguousarray(features.detach().cpu().double().numpy())
