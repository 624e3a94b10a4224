"""What a user gives to `worst_case`, checked and made ready: a detector, what it is to vary, inliers."""

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


class Opponent(NamedTuple):
    """A detector as a search sees it."""

    name: str
    score: Judge
    known: Array | None
    """Inlier scores that came with the detector."""
    device: torch.device | None
    """Where it wants its data, if it says so."""

    def scores_of(self, inliers: Any, device: torch.device) -> Array:
        """Its scores of a set or of data [N, ...]."""
        data = as_inputs(inliers, "inliers")
        batches = iter(data) if isinstance(data, ImageSet) else (data[part] for part in chunks(len(data)))
        return np.concatenate([np.empty(0), *(self.score(batch.to(device)) for batch in batches)])


def opponent(detector: Any) -> Opponent:
    """A detector, a panel of one, a member of one, or a function; an error for anything else."""
    if isinstance(detector, Panel):
        detector = _only_member(detector)
    ask, name = _asked(detector)

    def score(data: Tensor) -> Array:
        with torch.no_grad():
            return as_scores(ask(data), len(data), name, detector)

    if isinstance(detector, Member):
        return Opponent(name, score, detector.panel.validation.get(name), detector.panel.network.device)
    return Opponent(name, score, None, None)


def _only_member(panel: Panel) -> Detector:
    names = list(panel.detectors)
    if len(names) != 1:
        choices = ", ".join(f"panel[{name!r}]" for name in names)
        raise ValueError(f"detector: a search is against one detector, got a panel of {len(names)}; choose: {choices}")
    return panel[names[0]]


def _asked(detector: Any) -> tuple[Callable[[Tensor], Any], str]:
    """The function to ask, and its name."""
    if isinstance(detector, Detector):
        return detector.score, detector.name
    if callable(detector) and not isinstance(detector, type | Network):
        return detector, name_of(detector) if isinstance(detector, FUNCTIONS) else type(detector).__name__
    expected = "expected a farout.Detector or a function from data to scores"
    raise TypeError(f"detector: {expected}, got {got(detector)}{_hint(detector)}")


def _hint(detector: Any) -> str:
    """What to do with something that is no detector yet."""
    if isinstance(detector, type):
        return f"; make one: {detector.__name__}(…)"
    if isinstance(detector, str | PostHoc | Network):
        name = detector if isinstance(detector, str) else getattr(detector, "name", "msp")
        return f"; take a member of a panel: farout.Panel(network, [{name!r}]).fit(train, val)[{name!r}]"
    return "; write a function that calls it" if hasattr(detector, "decision_function") else ""


def got(thing: object) -> str:
    """What something is, for an error."""
    if isinstance(thing, type):
        return f"the class {thing.__name__}"
    return repr(thing) if isinstance(thing, str) else type(thing).__name__


class Bases(NamedTuple):
    """What is varied, one per chain."""

    variation: Variation
    """Fit for such bases."""
    total: int
    take: Callable[[Tensor], Any]
    """The bases at these places, on the CPU or where they were given."""
    device: torch.device | None
    """Where they were given, if anywhere."""

    def at(self, places: Tensor, device: torch.device) -> Any:
        """The bases at these places; None where the variation takes none."""
        return self.take(places).to(device) if self.variation.conditional else None


def bases(variation: Variation, base: Any) -> Bases:
    """What is varied, checked, and the variation fit for it."""
    if not variation.conditional:
        return Bases(variation, _count(variation, base), _nothing, None)
    if isinstance(base, Scenes):
        ready = Bases(variation, len(base), base.__getitem__, None)
    else:
        ready = _varied(variation, base)
    if not ready.total:
        raise ValueError("base is empty: a search needs at least one base")
    return ready


def _count(variation: Variation, base: Any) -> int:
    if isinstance(base, bool) or not isinstance(base, int | np.integer):
        raise TypeError(f"{variation.name} varies no base: give the number of chains instead, got {got(base)}")
    if base < 1:
        raise ValueError(f"base: a search needs at least one chain, got {base}")
    return int(base)


def _nothing(places: Tensor) -> None:
    return None


def _varied(variation: Variation, base: Any) -> Bases:
    """Images, or other data. Variations of farout's own read images, others whatever they like."""
    if isinstance(base, int | np.integer):
        raise TypeError(f"{variation.name} varies a base: give images or other data, got the number {base}")
    data = as_inputs(base, "base")
    if isinstance(data, ImageSet):
        images, variation = data, variation.suited(data.shape)
        return Bases(variation, len(images), lambda places: variation.base(images, places.numpy()), None)
    users = all(is_users(type(part)) for part in variation.parts)
    rows = data if users or data.ndim != 4 else as_images(data, data.device)
    return Bases(variation.suited(tuple(rows.shape[1:])), len(rows), lambda at: rows[at.to(rows.device)], rows.device)


def as_inputs(given: Any, what: str) -> ImageSet | Tensor:
    """Images as a set where their type says that they are images; other data [N, ...] as a tensor of finite floats.

    What has the shape of images is float32.
    """
    if is_images(given) or getattr(given, "dtype", None) in (torch.uint8, np.uint8):
        return as_image_set(given, what=what)
    try:
        data = torch.as_tensor(np.array(given) if isinstance(given, np.ndarray) else given)
    except (TypeError, ValueError, RuntimeError):
        raise TypeError(f"{what}: expected images or other data [N, ...], got {got(given)}") from None
    if not data.is_floating_point():
        raise TypeError(f"{what}: expected floats (images in [0, 1]), got {data.dtype}; divide 8-bit images by 255")
    if not data.ndim:
        raise ValueError(f"{what}: expected data [N, ...], got a single number")
    if not data.isfinite().all():
        raise ValueError(f"{what}: {int((~data.isfinite()).sum())} of {data.numel()} values are NaN or infinite")
    return data.float() if data.ndim == 4 else data


def standard(foe: Opponent, inliers: Any, varied: Bases, seed: int, device: torch.device) -> float:
    """The standard deviation of inlier scores; without inliers, that of random variations of the first bases."""
    if inliers is not None:
        return spread(foe.scores_of(inliers, device), foe.name)
    if foe.known is not None:
        return spread(foe.known, foe.name)
    z = varied.variation.space.uniform(CHAINS, rng.generator(seed, "standardize")).to(device)
    base = varied.at(torch.arange(CHAINS) % varied.total, device)
    scores = objective(varied.variation, base, foe.score, foe.name)(z)
    return float(scores.std(correction=0)) or 1.0  # where no variation changes the score, any scale will do
