"""The worst case by hand: the variations of your data that a detector takes for the most normal."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from farout.api.arguments import Bases, Opponent, bases, got, opponent, standard
from farout.core import Detector
from farout.detectors.panel.panel import Panel
from farout.progress import Progress, task
from farout.registry import Registry
from farout.search.catalog import SEARCHES
from farout.search.objective import decoded, objective
from farout.search.search import Search
from farout.search.walk import CHAINS, Walk, diagnose, walk
from farout.tensors import as_device, chunks
from farout.variations.catalog import VARIATIONS
from farout.variations.variation import Variation

Array = NDArray[np.float64]
T = TypeVar("T")


@dataclass(frozen=True)
class Found:
    """What a search has found: a row per chain, in the order of the bases."""

    scores: Array
    """The lowest raw score that each chain met, [N]."""
    latents: Tensor
    """Where it met it, [N, dim]."""
    images: Tensor
    """What the latents decode to: of images float32 [N, C, H, W] in [0, 1]."""
    trace: Array
    """Lowest score against queries: column q is that after q + 1 of them, [N, queries]."""
    start: Array
    """Score of the random variation that each chain began with, [N]."""
    last: Array
    """Score of the state each chain ended in, [N]."""
    std: float
    """Standard deviation of inlier scores, the unit of the search's temperature."""
    accepted: Array
    """Share of steps in which the chain moved, [N]."""
    exploration: Array
    """Spread of a chain's states over that of uniform draws: 1 has been everywhere, 0 has stayed in place, [N]."""
    stuck: NDArray[np.bool_]
    """Chains that have not moved in the second half of their steps, [N]."""

    def __len__(self) -> int:
        return len(self.scores)

    def __repr__(self) -> str:
        return (
            f"<Found: {len(self):,} chains, {self.trace.shape[1]:,} queries each; mean score {self.start.mean():.4g} "
            f"at the start, {self.scores.mean():.4g} at the lowest, {self.scores.min():.4g} the lowest of all; "
            f"{self.accepted.mean():.0%} of steps moved, {int(self.stuck.sum())} chains stuck>"
        )


def worst_case(
    detector: Detector | Panel | Callable[[Tensor], Any],
    variation: str | Variation,
    base: Any,
    *,
    inliers: Any = None,
    method: str | Search = "mh",
    steps: int = 2_000,
    seed: int = 0,
    device: str | torch.device | None = None,
) -> Found:
    """Search, for every base, the variation that the detector takes for the most normal (EvG, eq. 4).

    >>> found = farout.worst_case(panel["msp"], "affine", farout.load("shapes", "test/ood_cls", limit=100), steps=200)
    >>> farout.metrics.auroc(panel["msp"].score(inlier_images), found.scores)

    detector: a `Detector`, a member of a fitted panel (`panel["msp"]`), or any function from a batch of data to one
        score each; larger scores are more outlying. It is asked about 64 at a time.
    variation: one of `farout.variations.names()`, or an object: `farout.variations.create("affine", rotation=(-9, 9))`,
        or one of your own class, a `farout.Variation` that may decode to anything the detector reads.
    base: what is varied, a chain each: images (anything that `farout.data.as_image_set` takes), or other floats
        [N, ...]; of a variation that needs no base (a generator's latent), the number of chains.
    inliers: images, or other data [N, ...], whose scores standardize the search: their standard deviation is its unit
        of temperature. By default the validation scores of a fitted panel; without any, the scores of random variations
        of the first bases, which often spread wider and make the search less greedy.
    method: one of `farout.search.names()`, "mh" as published; or an object: `farout.search.create("mh", sigma=0.05)`.
    steps: of every chain; one of "mh" asks the detector once. seed: the same seed takes the same paths.
    device: where the search runs; by default where the panel's network or the base is.

    Ctrl-C ends the search early and returns what was found so far.
    """
    hunted, search = _made(variation, VARIATIONS, Variation), _made(method, SEARCHES, Search)
    if isinstance(steps, bool) or not isinstance(steps, int) or steps < 1:
        raise ValueError(f"steps must be a whole number of at least 1, got {steps!r}")
    foe, varied = opponent(detector), bases(hunted, base)
    place = as_device(device or foe.device or varied.device or "cpu")
    std = standard(foe, inliers, varied, seed, place)
    hunt = _Hunt(foe, varied, search.scaled(std), steps, seed, place)
    queries = varied.total * (1 + steps * hunt.per_step)
    with task(f"search in {hunt.variation.name}", queries, unit="queries") as count:
        pieces = list(_pieces(hunt, count))
    return Found(std=std, **{key: _joined([piece[key] for piece in pieces]) for key in pieces[0]})


def _made(given: Any, known: Registry[T], kind: type[Any]) -> T:
    """What a name stands for, or the object itself."""
    if isinstance(given, str):
        return known.create(given)
    if not isinstance(given, kind):
        hint = f"; make one: {given.__name__}(…)" if isinstance(given, type) and issubclass(given, kind) else ""
        raise TypeError(f"{known.kind}: expected a name or a {kind.__name__} object, got {got(given)}{hint}")
    made: T = given
    return made


def _joined(parts: list[Any]) -> Any:
    return torch.cat(parts) if isinstance(parts[0], Tensor) else np.concatenate(parts)


class _Hunt(NamedTuple):
    """A search that is ready to begin."""

    foe: Opponent
    varied: Bases
    search: Search
    steps: int
    seed: int
    device: torch.device

    @property
    def variation(self) -> Variation:
        return self.varied.variation

    @property
    def per_step(self) -> int:
        """Queries of a step."""
        return self.search.queries(self.variation.space)

    def walks(self, part: slice, base: Any) -> Iterator[Walk]:
        """Some of the chains, step by step."""
        score, chains = objective(self.variation, base, self.foe.score, self.foe.name), part.stop - part.start
        return walk(
            self.search, self.variation.space, score, chains, self.steps,
            seed=self.seed, first=part.start, device=self.device,
        )  # fmt: skip


def _pieces(hunt: _Hunt, count: Progress) -> Iterator[dict[str, Any]]:
    """What each chunk of chains has found; Ctrl-C ends it with what the latest has found so far."""
    total = hunt.varied.total
    for part in chunks(total, CHAINS):
        base = hunt.varied.at(torch.arange(part.start, part.stop), hunt.device)
        path = _followed(hunt, part, base, count)
        if path.walk is not None:
            yield _piece(hunt, path.walk, path.lowest, base)
        if path.interrupted and path.walk is None and not part.start:
            raise KeyboardInterrupt("before the first score")
        if path.interrupted:
            warnings.warn(_so_far(path.walk, part, total, hunt.steps), stacklevel=3)
            return


def _so_far(walk: Walk | None, part: slice, total: int, steps: int) -> str:
    begun = part.start if walk is None else part.stop
    latest = f", the last {begun - part.start} of them took {walk.steps:,} of {steps:,} steps" if walk else ""
    return f"interrupted: {begun:,} of {total:,} chains were begun{latest}"


class _Path(NamedTuple):
    """How far a chunk of chains has come."""

    walk: Walk | None
    """None where nothing was scored."""
    lowest: list[Array]
    """The lowest scores after the start and after every step."""
    interrupted: bool


def _followed(hunt: _Hunt, part: slice, base: Any, count: Progress) -> _Path:
    """The chains to their end, or as far as the user's patience lasts."""
    latest: Walk | None = None
    lowest: list[Array] = []
    try:
        for now in hunt.walks(part, base):
            lowest.append(now.best.cpu().numpy())
            latest = now
            queries = hunt.per_step if now.steps else 1
            count((part.stop - part.start) * queries)
    except KeyboardInterrupt:
        return _Path(latest, lowest, True)
    return _Path(latest, lowest, False)


def _piece(hunt: _Hunt, walk: Walk, lowest: list[Array], base: Any) -> dict[str, Any]:
    """What one chunk of chains has found. Within a step, and after an interrupted one, the trace stays as it was."""
    done = np.arange(1 + hunt.steps * hunt.per_step) // hunt.per_step
    with torch.no_grad():  # decoded as they were scored, since a generator's last bits may depend on the batch
        parts = [decoded(hunt.variation, walk.best_z[part], base, part) for part in chunks(len(walk.best_z))]
    arrays = {"scores": walk.best, "start": walk.start, "last": walk.state.score}
    return {
        **{key: value.cpu().numpy() for key, value in arrays.items()},
        **diagnose(walk, hunt.variation.space)._asdict(),
        "latents": walk.best_z.cpu(), "images": torch.cat(parts).cpu(),
        "trace": np.stack(lowest, 1)[:, np.minimum(done, walk.steps)],
    }  # fmt: skip
