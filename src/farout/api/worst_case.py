"""`farout.worst_case`: search the variations of data that a detector scores lowest (most normal)."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from farout.api.arguments import Bases, SearchTarget, build_bases, build_target, score_scale, type_name
from farout.core import Detector
from farout.detectors.panel.panel import Panel
from farout.devices import as_device
from farout.progress import Progress, task
from farout.registry import Registry
from farout.search.catalog import SEARCHES
from farout.search.objective import decode_part, objective
from farout.search.search import Search
from farout.search.walk import CHAINS, Walk, diagnose, walk
from farout.tensors import chunks
from farout.variations.catalog import VARIATIONS
from farout.variations.variation import Variation

Array = NDArray[np.float64]
T = TypeVar("T")


@dataclass(frozen=True)
class Found:
    """Result of a worst-case search: one row per chain, in the order of the bases."""

    scores: Array
    """Lowest raw score of each chain, [N]."""
    latents: Tensor
    """Latents with the lowest score, [N, dim]."""
    images: Tensor
    """Decoded latents: for images float32 [N, C, H, W] in [0, 1]."""
    trace: Array
    """Lowest score against queries: column q is the lowest after q + 1 queries, [N, queries]."""
    start: Array
    """Score of each chain's random starting point, [N]."""
    last: Array
    """Score of each chain's final state, [N]."""
    std: float
    """Standard deviation of inlier scores, the unit of the search's temperature."""
    accepted: Array
    """Fraction of steps in which the chain moved, [N]."""
    exploration: Array
    """Standard deviation of a chain's states over that of uniform draws: 1 covers the space, 0 never moved, [N]."""
    stuck: NDArray[np.bool_]
    """True for chains that did not move in the second half of their steps, [N]."""

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
    """Search, for every base, the variation with the lowest score of the detector (EvG, eq. 4).

    >>> found = farout.worst_case(panel["msp"], "affine", farout.load("shapes", "test/ood_cls", limit=100), steps=200)
    >>> farout.metrics.auroc(panel["msp"].score(inlier_images), found.scores)

    detector: a `Detector`, a member of a fitted panel (`panel["msp"]`), or any function from a batch of data to one
        score each; larger scores are more outlying. It is called with 64 at a time.
    variation: one of `farout.variations.names()`, or an object: `farout.variations.create("affine", rotation=(-9, 9))`,
        or one of your own class, a `farout.Variation` that may decode to anything the detector reads.
    base: the data to vary, one chain each: images (any input of `farout.data.as_image_set`), or other floats
        [N, ...]; for a variation without a base (a generator's latent), the number of chains.
    inliers: images, or other data [N, ...], whose scores standardize the search: their standard deviation is its unit
        of temperature. By default the validation scores of a fitted panel; without any, the scores of random variations
        of the first bases, whose standard deviation is often larger, which makes the search less greedy.
    method: one of `farout.search.names()`, "mh" as published; or an object: `farout.search.create("mh", sigma=0.05)`.
    steps: steps of every chain; a step of "mh" is one query. seed: the same seed takes the same paths.
    device: device of the search; by default that of the panel's network or of the base.

    Ctrl-C stops the search early and returns the results so far.
    """
    built_variation, search = (
        _build_component(variation, VARIATIONS, Variation),
        _build_component(method, SEARCHES, Search),
    )
    if isinstance(steps, bool) or not isinstance(steps, int) or steps < 1:
        raise ValueError(f"steps must be a whole number of at least 1, got {steps!r}")
    target, bases = build_target(detector), build_bases(built_variation, base)
    run_device = as_device(device or target.device or bases.device or "cpu")
    std = score_scale(target, inliers, bases, seed, run_device)
    run = _SearchRun(target, bases, search.scaled(std), steps, seed, run_device)
    queries = bases.total * (1 + steps * run.per_step)
    with task(f"search in {run.variation.name}", queries, unit="queries") as count:
        parts = list(_search_chunks(run, count))
    return Found(std=std, **{key: _concatenate([part[key] for part in parts]) for key in parts[0]})


def _build_component(value: Any, registry: Registry[T], kind: type[Any]) -> T:
    """Build the component of a name; return an object unchanged."""
    if isinstance(value, str):
        return registry.create(value)
    if not isinstance(value, kind):
        hint = f"; create one: {value.__name__}(…)" if isinstance(value, type) and issubclass(value, kind) else ""
        raise TypeError(f"{registry.kind}: expected a name or a {kind.__name__} object, got {type_name(value)}{hint}")
    component: T = value
    return component


def _concatenate(parts: list[Any]) -> Any:
    return torch.cat(parts) if isinstance(parts[0], Tensor) else np.concatenate(parts)


class _SearchRun(NamedTuple):
    """Validated arguments of a search."""

    target: SearchTarget
    bases: Bases
    search: Search
    steps: int
    seed: int
    device: torch.device

    @property
    def variation(self) -> Variation:
        return self.bases.variation

    @property
    def per_step(self) -> int:
        """Queries per chain and step."""
        return self.search.queries(self.variation.space)

    def walks(self, part: slice, base: Any) -> Iterator[Walk]:
        """Run a chunk of chains step by step."""
        score, chains = objective(self.variation, base, self.target.score, self.target.name), part.stop - part.start
        return walk(
            self.search, self.variation.space, score, chains, self.steps,
            seed=self.seed, first=part.start, device=self.device,
        )  # fmt: skip


def _search_chunks(run: _SearchRun, count: Progress) -> Iterator[dict[str, Any]]:
    """Yield the result of each chunk of chains; after Ctrl-C, end with the partial result of the current chunk."""
    total = run.bases.total
    for part in chunks(total, CHAINS):
        base = run.bases.at(torch.arange(part.start, part.stop), run.device)
        chunk = _run_chunk(run, part, base, count)
        if chunk.walk is not None:
            yield _chunk_result(run, chunk.walk, chunk.lowest, base)
        if chunk.interrupted and chunk.walk is None and not part.start:
            raise KeyboardInterrupt("before the first score")
        if chunk.interrupted:
            warnings.warn(_interrupt_message(chunk.walk, part, total, run.steps), stacklevel=3)
            return


def _interrupt_message(walk: Walk | None, part: slice, total: int, steps: int) -> str:
    begun = part.start if walk is None else part.stop
    latest = f", the last {begun - part.start} of them took {walk.steps:,} of {steps:,} steps" if walk else ""
    return f"interrupted: {begun:,} of {total:,} chains were started{latest}"


class _ChunkRun(NamedTuple):
    """Run of a chunk of chains, complete or interrupted."""

    walk: Walk | None
    """Last walk; None if nothing was scored."""
    lowest: list[Array]
    """Lowest scores after the start and after every step."""
    interrupted: bool


def _run_chunk(run: _SearchRun, part: slice, base: Any, count: Progress) -> _ChunkRun:
    """Run a chunk of chains to the end, or until Ctrl-C."""
    latest: Walk | None = None
    lowest: list[Array] = []
    try:
        for current in run.walks(part, base):
            lowest.append(current.best.cpu().numpy())
            latest = current
            queries = run.per_step if current.steps else 1
            count((part.stop - part.start) * queries)
    except KeyboardInterrupt:
        return _ChunkRun(latest, lowest, True)
    return _ChunkRun(latest, lowest, False)


def _chunk_result(run: _SearchRun, walk: Walk, lowest: list[Array], base: Any) -> dict[str, Any]:
    """Return the result of one chunk of chains. The trace is constant within a step and after an interrupt."""
    done = np.arange(1 + run.steps * run.per_step) // run.per_step
    with torch.no_grad():  # in the batches of the search: a generator's last bits may depend on the batch
        parts = [decode_part(run.variation, walk.best_z[part], base, part) for part in chunks(len(walk.best_z))]
    arrays = {"scores": walk.best, "start": walk.start, "last": walk.state.score}
    return {
        **{key: value.cpu().numpy() for key, value in arrays.items()},
        **diagnose(walk, run.variation.space)._asdict(),
        "latents": walk.best_z.cpu(), "images": torch.cat(parts).cpu(),
        "trace": np.stack(lowest, 1)[:, np.minimum(done, walk.steps)],
    }  # fmt: skip
