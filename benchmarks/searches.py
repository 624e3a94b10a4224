"""Number of queries that a search needs to reach the scores of Metropolis–Hastings, per detector and variation.

`python -m benchmarks.searches` trains a small network on SHAPES on the spot; real images and weights are given with
--weights, --inliers, --validation and --outliers. Scores are standardized on the validation split. The same command
with the same file for --curves goes on with what is missing from it.
"""

from __future__ import annotations

import argparse
import csv
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

import farout
from farout import rng, search, variations
from farout.core import ImageSet
from farout.search.walk import marks_for, walk

HEADER = ("detector", "variation", "search", "queries", "chain", "score")
MARKS = 128
RESAMPLES = 2_000


class Case(NamedTuple):
    """One run: every chain of one search against one detector."""

    detector: str
    variation: str
    search: str


class Curve(NamedTuple):
    """The lowest standardized score that each chain has found after so many queries."""

    queries: NDArray[np.int64]
    """Marks, [K]."""
    lowest: NDArray[np.float64]
    """[C, K]."""

    @property
    def mean(self) -> NDArray[np.float64]:
        return np.asarray(self.lowest.mean(0))

    def at(self, queries: int) -> NDArray[np.float64]:
        """Lowest scores of the chains after at most so many queries, [C]."""
        return np.asarray(self.lowest[:, np.searchsorted(self.queries, queries, side="right") - 1])

    def first_below(self, level: float) -> int | None:
        """The first mark at which the mean over chains is at or below `level`."""
        below = self.mean <= level
        return int(self.queries[below.argmax()]) if below.any() else None


def fitted(given: argparse.Namespace) -> tuple[farout.Panel, ImageSet]:
    """The panel to search against, and the outliers to vary."""
    train, outliers = (
        _opened(given.inliers, "train", given.images),
        _opened(given.outliers, "test/ood_cls", given.chains),
    )
    if given.validation or not given.inliers:
        val = _opened(given.validation, "val", given.images // 4)
    else:
        cut = len(train) - len(train) // 5
        train, val = train.subset(np.arange(cut)), train.subset(np.arange(cut, len(train)))
    classes = int(np.max(train.labels)) + 1
    network = farout.networks.create(given.network, classes, train.shape[1], mean=given.mean, std=given.std)
    if given.weights:
        farout.networks.load_weights(network, given.weights)
    else:
        farout.networks.train(network, train, val, epochs=given.epochs, augment="none")
    return farout.Panel(network, given.detectors).fit(train, val), outliers


def _opened(path: Path | None, split: str, limit: int) -> ImageSet:
    return farout.load(path or "shapes", split, limit=limit)


def curve(panel: farout.Panel, outliers: ImageSet, case: Case, queries: int, seed: int) -> Curve:
    """Walk all chains of a case, one per outlier."""
    variation = variations.create(case.variation).suited(outliers.shape)
    validation, member = panel.validation[case.detector], panel[case.detector]
    mean, std = float(validation.mean()), float(validation.std())
    base = variation.base(outliers, np.arange(len(outliers)))

    def score(z: Tensor) -> Tensor:
        return member.score(variation.decode(z, base))

    kernel = search.create(case.search).scaled(std)
    steps, marks = (queries - 1) // kernel.queries(variation.space), marks_for(queries, MARKS)
    for current in walk(kernel, variation.space, score, len(outliers), steps, seed=seed, marks=marks):  # noqa: B007
        pass
    return Curve(np.array(marks), (current.trace.numpy() - mean) / std)


def written(path: Path) -> dict[Case, Curve]:
    """The curves in a file; none where it does not exist."""
    if not path.is_file():
        return {}
    rows: dict[Case, dict[int, list[float]]] = {}
    with path.open(newline="") as file:
        for detector, variation, name, queries, _, lowest in list(csv.reader(file))[1:]:
            marks = rows.setdefault(Case(detector, variation, name), {})
            marks.setdefault(int(queries), []).append(float(lowest))
    return {case: Curve(np.array(list(marks)), np.array(list(marks.values())).T) for case, marks in rows.items()}


def append(path: Path, case: Case, found: Curve) -> None:
    """Add a curve to a file, row by row."""
    new = not path.exists()
    with path.open("a", newline="") as file:
        writer = csv.writer(file)
        writer.writerows([HEADER] if new else [])
        for mark, lowest in zip(found.queries, found.lowest.T, strict=True):
            writer.writerows((*case, mark, chain, repr(float(value))) for chain, value in enumerate(lowest))


def curves(given: argparse.Namespace) -> dict[Case, Curve]:
    """All cases, from the file where they are there already."""
    known = written(given.curves) if given.curves else {}
    pairs = [(detector, variation) for detector in given.detectors for variation in given.variations]
    cases = [Case(*pair, name) for pair in pairs for name in given.searches]
    for case in cases:
        if case in known and (len(known[case].lowest), known[case].queries[-1]) != (given.chains, given.queries):
            raise SystemExit(f"{given.curves} has {', '.join(case)} with other chains or queries: name another file")
    if all(case in known for case in cases):
        return {case: known[case] for case in cases}
    panel, outliers = fitted(given)
    for case in cases:
        if case not in known:
            start = time.perf_counter()
            known[case] = curve(panel, outliers, case, given.queries, given.seed)
            print(f"  {', '.join(case)}: {time.perf_counter() - start:.0f} s", file=sys.stderr, flush=True)
            if given.curves:
                append(given.curves, case, known[case])
    return {case: known[case] for case in cases}


def difference(found: NDArray[np.float64], reference: NDArray[np.float64]) -> tuple[float, float, float]:
    """Mean difference over chains with its bootstrap interval of 95 %, chains drawn in pairs."""
    gaps = found - reference
    drawn = rng.numpy_generator(0, "bootstrap").integers(len(gaps), size=(RESAMPLES, len(gaps)))
    low, high = np.quantile(gaps[drawn].mean(1), [0.025, 0.975])
    return float(gaps.mean()), float(low), float(high)


def table(found: Mapping[Case, Curve], queries: int) -> Iterator[str]:
    """Lines: the first search's level after all queries, and what every other needs to reach it."""
    quarter, cases = queries // 4, list(found)
    yield (
        f"{'':<18}{'search':<16}{'after ' + str(quarter):>12}{'after ' + str(queries):>12}{'10–90 %':>16}"
        f"{'reaches it after':>18}{'share':>8}{f'at {quarter} − level (95 %)':>28}"
    )
    for case in cases:
        reference = found[Case(case.detector, case.variation, cases[0].search)]
        level, own = reference.at(queries), found[case]
        low, high = np.quantile(own.at(queries), [0.1, 0.9])
        reached = own.first_below(float(reference.mean[-1]))
        share = "" if reached is None else f"{reached / queries:.2f}"
        gap = "{:+.3f} ({:+.3f}, {:+.3f})".format(*difference(own.at(quarter), level))
        yield (
            f"{case.detector + ', ' + case.variation:<18}{case.search:<16}{own.at(quarter).mean():>12.3f}"
            f"{own.at(queries).mean():>12.3f}{f'{low:.2f} … {high:.2f}':>16}{reached or 'never':>18}{share:>8}{gap:>28}"
        )


def _arguments(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.searches", description=__doc__)
    parser.add_argument("--searches", nargs="+", default=["mh", "evolution"], help="the first sets the level to reach")
    parser.add_argument("--detectors", nargs="+", default=["mls", "knn", "mds", "react"])
    parser.add_argument("--variations", nargs="+", default=["affine", "color"])
    parser.add_argument("--chains", type=int, default=64, help="one per outlier")
    parser.add_argument(
        "--queries", type=int, default=2_001, help="per chain, its start included; a quarter is looked at too"
    )
    parser.add_argument("--network", default="resnet20")
    parser.add_argument("--weights", type=Path, help="weights for the network; trained on the inliers unless given")
    parser.add_argument("--epochs", type=int, default=8, help="of that training")
    parser.add_argument("--mean", type=float, nargs=3, default=(0.485, 0.456, 0.406), help="of pixels, per channel")
    parser.add_argument("--std", type=float, nargs=3, default=(0.229, 0.224, 0.225), help="of pixels, per channel")
    parser.add_argument("--inliers", type=Path, help="images to fit on; SHAPES unless given")
    parser.add_argument(
        "--validation", type=Path, help="other inliers to standardize on; a fifth of those unless given"
    )
    parser.add_argument("--outliers", type=Path, help="images to vary; unknown figures of SHAPES unless given")
    parser.add_argument("--images", type=int, default=4_000, help="how many images to fit on")
    parser.add_argument("--curves", type=Path, help="a CSV file for the best score against queries, chain by chain")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=1, help="of torch")
    return parser.parse_args(list(arguments))


def main(arguments: Sequence[str] = ()) -> None:
    """Run what is asked for, and print."""
    given = _arguments(arguments)
    torch.set_num_threads(given.threads)
    found = curves(given)
    print(f"\nLowest standardized score, mean over {given.chains} chains, seed {given.seed}")
    print("\n".join(table(found, given.queries)))


if __name__ == "__main__":
    main(sys.argv[1:])
