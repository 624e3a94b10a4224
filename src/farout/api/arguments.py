"""Validate and normalize the arguments of `worst_case`: the detector, the bases and the inliers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from farout import rng
from farout.adapters.function import FUNCTIONS, name_of
from farout.core import Detector, ImageSet, PostHoc
from farout.data.inputs import as_image_set, is_images
from farout.data.scenes.scene import Scenes
from farout.detectors.panel.member import Member
from farout.detectors.panel.panel import Panel
from farout.identity import is_users
from farout.networks.network import Network
from farout.scores import as_scores
from farout.search.objective import Judge, objective, spread
from farout.search.walk import CHAINS
from farout.tensors import as_images, chunks
from farout.variations.variation import Variation

Array = NDArray[np.float64]


class SearchTarget(NamedTuple):
    """Detector that a search attacks."""

    name: str
    score: Judge
    reference_scores: Array | None
    """Inlier scores of the panel's validation split, if any."""
    device: torch.device | None
    """Device of its network, if known."""

    def score_data(self, inliers: Any, device: torch.device) -> Array:
        """Score a set or data [N, ...]."""
        data = parse_inputs(inliers, "inliers")
        batches = iter(data) if isinstance(data, ImageSet) else (data[part] for part in chunks(len(data)))
        return np.concatenate([np.empty(0), *(self.score(batch.to(device)) for batch in batches)])


def build_target(detector: Any) -> SearchTarget:
    """Build the target from a detector, a panel of one detector, a member of a panel, or a function."""
    if isinstance(detector, Panel):
        detector = _only_member(detector)
    score_function, name = _score_function(detector)

    def score(data: Tensor) -> Array:
        with torch.no_grad():
            return as_scores(score_function(data), len(data), name, detector)

    if isinstance(detector, Member):
        return SearchTarget(name, score, detector.panel.validation.get(name), detector.panel.network.device)
    return SearchTarget(name, score, None, None)


def _only_member(panel: Panel) -> Detector:
    names = list(panel.detectors)
    if len(names) != 1:
        choices = ", ".join(f"panel[{name!r}]" for name in names)
        raise ValueError(f"detector: a search needs one detector, got a panel of {len(names)}; select one: {choices}")
    return panel[names[0]]


def _score_function(detector: Any) -> tuple[Callable[[Tensor], Any], str]:
    """Return the scoring function of a detector, and its name."""
    if isinstance(detector, Detector):
        return detector.score, detector.name
    if callable(detector) and not isinstance(detector, type | Network):
        return detector, name_of(detector) if isinstance(detector, FUNCTIONS) else type(detector).__name__
    expected = "expected a farout.Detector or a function from data to scores"
    raise TypeError(f"detector: {expected}, got {type_name(detector)}{_hint(detector)}")


def _hint(detector: Any) -> str:
    """Return advice for an object that is not a detector yet."""
    if isinstance(detector, type):
        return f"; create one: {detector.__name__}(…)"
    if isinstance(detector, str | PostHoc | Network):
        name = detector.name if isinstance(detector, PostHoc) else detector if isinstance(detector, str) else "msp"
        return f"; take a member of a panel: farout.Panel(network, [{name!r}]).fit(train, val)[{name!r}]"
    return "; write a function that calls it" if hasattr(detector, "decision_function") else ""


def type_name(thing: object) -> str:
    """Return the type of an object, for error messages."""
    if isinstance(thing, type):
        return f"the class {thing.__name__}"
    return repr(thing) if isinstance(thing, str) else type(thing).__name__


class Bases(NamedTuple):
    """Bases of a search, one per chain."""

    variation: Variation
    """Variation, adapted to the bases' shape."""
    total: int
    take: Callable[[Tensor], Any]
    """Function that returns the bases at these indices, on the CPU or on `device`."""
    device: torch.device | None
    """Device of the user's tensor, if it is one."""

    def at(self, indices: Tensor, device: torch.device) -> Any:
        """Return the bases at these indices; None if the variation has no base."""
        return self.take(indices).to(device) if self.variation.conditional else None


def build_bases(variation: Variation, base: Any) -> Bases:
    """Validate the bases, and adapt the variation to them."""
    if not variation.conditional:
        return Bases(variation, _count(variation, base), _no_base, None)
    if isinstance(base, Scenes):
        ready = Bases(variation, len(base), base.__getitem__, None)
    else:
        ready = _build_bases(variation, base)
    if not ready.total:
        raise ValueError("base is empty: a search needs at least one base")
    return ready


def _count(variation: Variation, base: Any) -> int:
    if isinstance(base, bool) or not isinstance(base, int | np.integer):
        raise TypeError(f"{variation.name} has no base: give the number of chains instead, got {type_name(base)}")
    if base < 1:
        raise ValueError(f"base: a search needs at least one chain, got {base}")
    return int(base)


def _no_base(indices: Tensor) -> None:
    return None


def _build_bases(variation: Variation, base: Any) -> Bases:
    """Build bases from images or other data. Built-in variations read images; a user's variation may read any data."""
    if isinstance(base, int | np.integer):
        raise TypeError(f"{variation.name} needs a base: give images or other data, got the number {base}")
    data = parse_inputs(base, "base")
    if isinstance(data, ImageSet):
        images, variation = data, variation.suited(data.shape)
        return Bases(variation, len(images), lambda indices: variation.base(images, indices.numpy()), None)
    users = all(is_users(type(part)) for part in variation.parts)
    rows = data if users or data.ndim != 4 else as_images(data, data.device)
    return Bases(
        variation.suited(tuple(rows.shape[1:])), len(rows), lambda indices: rows[indices.to(rows.device)], rows.device
    )


def parse_inputs(inputs: Any, what: str) -> ImageSet | Tensor:
    """Return images as an `ImageSet`, judged by their type; other data [N, ...] as a tensor of finite floats.

    Data in the shape of images are returned as float32.
    """
    if is_images(inputs) or getattr(inputs, "dtype", None) in (torch.uint8, np.uint8):
        return as_image_set(inputs, what=what)
    try:
        data = torch.as_tensor(np.array(inputs) if isinstance(inputs, np.ndarray) else inputs)
    except (TypeError, ValueError, RuntimeError):
        raise TypeError(f"{what}: expected images or other data [N, ...], got {type_name(inputs)}") from None
    if not data.is_floating_point():
        raise TypeError(f"{what}: expected floats (images in [0, 1]), got {data.dtype}; divide 8-bit images by 255")
    if not data.ndim:
        raise ValueError(f"{what}: expected data [N, ...], got a single number")
    if not data.isfinite().all():
        raise ValueError(f"{what}: {int((~data.isfinite()).sum())} of {data.numel()} values are NaN or infinite")
    return data.float() if data.ndim == 4 else data


def score_scale(target: SearchTarget, inliers: Any, bases: Bases, seed: int, device: torch.device) -> float:
    """Return the standard deviation of inlier scores; without inliers, that of random variations of the first bases."""
    if inliers is not None:
        return spread(target.score_data(inliers, device), target.name)
    if target.reference_scores is not None:
        return spread(target.reference_scores, target.name)
    z = bases.variation.space.uniform(CHAINS, rng.generator(seed, "standardize")).to(device)
    base = bases.at(torch.arange(CHAINS) % bases.total, device)
    scores = objective(bases.variation, base, target.score, target.name)(z)
    return float(scores.std(correction=0)) or 1.0  # if the score is constant, any scale will do
