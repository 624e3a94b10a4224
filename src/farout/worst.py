"""The worst case by hand: the variations of your data that a detector takes for the most normal."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from farout import rng
from farout.adapters.function import name_of
from farout.core import Detector, ImageSet, as_scores, chunks
from farout.data.scenes.scene import Scenes
from farout.detectors.member import Member
from farout.detectors.panel import Panel
from farout.search.catalog import SEARCHES
from farout.search.objective import Judge, objective, spread
from farout.search.search import Search
from farout.search.space import Space
from farout.search.walk import CHAINS, Walk, diagnose, walk
from farout.variations.catalog import VARIATIONS
from farout.variations.variation import Variation
from farout.watch import Bar, watching

Array = NDArray[np.float64]
Base = ImageSet | Tensor | NDArray[Any] | Scenes | int
"""What can be varied."""


@dataclass(frozen=True)
class Found:
    """What a search has found, a row per chain."""

    scores: Array
    """The lowest raw score that each chain met, [N]."""
    latents: Tensor
    """Where it met it, [N, dim]."""
    images: Tensor
    """What the latents decode to: of images float32 [N, C, H, W] in [0, 1]."""
    trace: Array
    """Lowest score after so many queries: column q is that after q + 1 of them, [N, queries]."""
    start: Array
    """Score of the random variation that each chain began with, [N]."""
    last: Array
    """Score of the state each chain ended in, [N]."""
    std: float
    """Standard deviation of inlier scores, in whose units the search has its temperature."""
    accepted: Array
    """Share of steps in which the chain moved, [N]."""
    exploration: Array
    """Spread of a chain's states over that of uniform draws: 1 has been everywhere, 0 has stayed in place, [N]."""
    stuck: NDArray[np.bool_]
    """Chains that have not moved in the second half of their steps, [N]."""

    def __len__(self) -> int:
        return len(self.scores)

    def __repr__(self) -> str:
        if not len(self):
            return "<Found: no chains>"
        return (
            f"<Found: {len(self):,} chains, {self.trace.shape[1]:,} queries each; mean score {self.start.mean():.4g} "
            f"at the start, {self.scores.mean():.4g} at the lowest, {self.scores.min():.4g} the lowest of all; "
            f"{self.accepted.mean():.0%} of steps moved, {int(self.stuck.sum())} chains stuck>"
        )


def worst_case(
    detector: Detector | Panel | Callable[[Tensor], Any],
    variation: str | Variation,
    base: Base,
    *,
    inliers: ImageSet | Tensor | NDArray[Any] | None = None,
    method: str | Search = "mh",
    steps: int = 2_000,
    seed: int = 0,
    device: str | torch.device | None = None,
) -> Found:
    """Search, for every base, the variation that the detector takes for the most normal (EvG, eq. 4).

    detector: a `Detector`, a member of a panel (`panel["msp"]`), or any function from decoded data to scores.
    variation: "affine", "color", "pixel", "attributes", or an object; yours may decode to anything the detector reads.
    base: what is varied, one chain each: an `ImageSet` or a tensor [N, ...]; of a variation that needs no base (a
        generator's latent), the number of chains.
    inliers: a set, or data [N, ...], whose scores standardize the search. By default the validation scores of a fitted
        panel; failing those, the scores of the random variations that the first chains begin with.
    method: "mh" as published, or another of `farout.search.names()`, or an object with settings of yours.
    steps: steps of every chain. seed: the same seed takes the same paths.

    Ctrl-C ends the search early and returns what was found so far.
    """
    variation = VARIATIONS.create(variation) if isinstance(variation, str) else variation
    search = SEARCHES.create(method) if isinstance(method, str) else method
    _check(variation, search, steps)
    judge = _judge(detector, device)
    bases = _bases(variation, base, judge.device)
    std = _std(inliers, judge, bases, search, seed)
    search, space = search.scaled(std), bases.variation.space
    per_step = search.queries(space)
    queries = 1 + steps * per_step
    pieces: list[dict[str, Any]] = []
    with watching() as bar:
        bar.total(bases.total * queries)
        for part in chunks(bases.total, CHAINS):
            rows, chains = bases.take(part), part.stop - part.start
            score = objective(bases.variation, rows, judge.score, judge.name)
            walks = walk(
                search, space, score, chains, steps,
                seed=seed, first=part.start, marks=range(1, queries + 1), device=judge.device,
            )  # fmt: skip
            tell = partial(_tell, bar, chains, per_step, f"search in {bases.variation.name}")
            latest = _last(walks, tell)
            if latest is not None:
                pieces.append(_piece(latest, bases.variation, rows, space))
            if latest is None or latest.steps < steps:
                break
    return _found(pieces, std)


def _tell(bar: Bar, chains: int, per_step: int, title: str, walk: Walk) -> None:
    bar.advance(chains * (per_step if walk.steps else 1), title)


def _last(walks: Iterator[Walk], tell: Callable[[Walk], None]) -> Walk | None:
    """The last walk, or the one where the user lost patience; None where that was before the first."""
    latest = None
    try:
        for latest in walks:
            tell(latest)
    except KeyboardInterrupt:
        warnings.warn("interrupted: this is what was found so far", stacklevel=3)
    return latest


def _piece(walk: Walk, variation: Variation, rows: Any, space: Space) -> dict[str, Any]:
    """What one chunk of chains has found."""
    with torch.no_grad():
        images = variation.decode(walk.best_z, rows if variation.conditional else None)
    arrays = {"scores": walk.best, "start": walk.start, "last": walk.state.score}
    return {
        **{key: value.cpu().numpy() for key, value in arrays.items()},
        **diagnose(walk, space)._asdict(),
        "latents": walk.best_z.cpu(), "images": images.cpu(), "trace": walk.trace,
    }  # fmt: skip


def _found(pieces: list[dict[str, Any]], std: float) -> Found:
    if not pieces:
        raise KeyboardInterrupt("interrupted before the first score")
    columns = {key: [piece[key] for piece in pieces] for key in pieces[0]}
    joined: dict[str, Any] = {
        key: torch.cat(v) if isinstance(v[0], Tensor) else np.concatenate(v) for key, v in columns.items()
    }
    return Found(std=std, **joined)


def _check(variation: object, search: object, steps: int) -> None:
    if not isinstance(variation, Variation):
        raise TypeError(f"variation: expected a name or a farout.Variation, got {type(variation).__name__}")
    if not isinstance(search, Search):
        raise TypeError(f"method: expected a name or a farout.search.Search, got {type(search).__name__}")
    if steps < 1:
        raise ValueError(f"steps must be at least 1, got {steps}")


class _Judge(NamedTuple):
    """A detector as the search sees it."""

    name: str
    score: Judge
    device: torch.device
    known: Array | None
    """Inlier scores that came with the detector."""


def _judge(detector: Any, device: str | torch.device | None) -> _Judge:
    if isinstance(detector, Panel):
        if len(detector.detectors) != 1:
            raise ValueError(f"a search is against one detector: choose one, panel[{next(iter(detector.detectors))!r}]")
        detector = detector[next(iter(detector.detectors))]
    known = None
    if isinstance(detector, Member):
        known, device = detector.panel.validation.get(detector.name), device or detector.panel.network.device
    if isinstance(detector, type) or not (isinstance(detector, Detector) or callable(detector)):
        got = detector.__name__ if isinstance(detector, type) else type(detector).__name__
        raise TypeError(f"detector: expected a farout.Detector or a function from data to scores, got {got}")
    ask = detector.score if isinstance(detector, Detector) else detector
    name = detector.name if isinstance(detector, Detector) else name_of(detector)

    def score(data: Tensor) -> Array:
        with torch.no_grad():
            return as_scores(ask(data), len(data), name)

    return _Judge(name, score, torch.device(device or "cpu"), known)


class _Bases(NamedTuple):
    """What is varied."""

    variation: Variation
    total: int
    take: Callable[[slice], Any]
    """The bases of some chains."""


def _bases(variation: Variation, base: Any, device: torch.device) -> _Bases:
    """The bases, checked, and the variation fit for them."""
    rows: Callable[[slice], Any]
    if isinstance(base, int):
        if variation.conditional:
            raise TypeError(f"{variation.name} varies a base: give images or other data, got the number {base}")
        total, rows = base, _nothing
    elif isinstance(base, ImageSet):
        variation, total = variation.suited(base.shape), len(base)
        rows = partial(_rows_of_set, variation, base)
    else:
        base = base if isinstance(base, Scenes) else _data(base)
        variation = variation if isinstance(base, Scenes) else variation.suited(tuple(base.shape[1:]))
        total, rows = len(base), base.__getitem__
    if total < 1:
        raise ValueError("base is empty: a search needs at least one chain")
    return _Bases(variation, total, lambda part: None if (taken := rows(part)) is None else taken.to(device))


def _nothing(part: slice) -> None:
    return None


def _rows_of_set(variation: Variation, images: ImageSet, part: slice) -> Any:
    return variation.base(images, range(part.start, part.stop))


def _data(base: Any) -> Tensor:
    """Any data as a tensor of finite floats."""
    data = torch.as_tensor(base)
    if not data.is_floating_point():
        raise TypeError(f"base: expected floats (images in [0, 1]), got {data.dtype}; divide 8-bit images by 255")
    if not data.isfinite().all():
        raise ValueError(f"base: {int((~data.isfinite()).sum())} values are NaN or infinite")
    return data


def _std(inliers: Any, judge: _Judge, bases: _Bases, search: Search, seed: int) -> float:
    """The standard deviation of inlier scores."""
    if isinstance(inliers, ImageSet):
        scores = np.concatenate([judge.score(batch.to(judge.device)) for batch in inliers])
    elif inliers is not None:
        data = _data(inliers)
        scores = np.concatenate([judge.score(data[part].to(judge.device)) for part in chunks(len(data))])
    elif judge.known is not None:
        scores = judge.known
    else:
        return float(_starts(judge, bases, search, seed).std()) or 1.0
    return spread(scores, judge.name)


def _starts(judge: _Judge, bases: _Bases, search: Search, seed: int) -> Array:
    """Scores of the variations that the first chains begin with."""
    first = slice(0, min(bases.total, CHAINS))
    z = search.start(bases.variation.space, first.stop, rng.generator(seed, "standardize")).to(judge.device)
    score = objective(bases.variation, bases.take(first), judge.score, judge.name)
    return score(z).cpu().numpy()
