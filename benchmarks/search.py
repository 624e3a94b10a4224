"""Images per second inside the Metropolis–Hastings loop beside bare forward passes of the same network and batches.

`python -m benchmarks.search --network resnet20 --repeats 15` measures at another size; --help lists the options.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

import farout
from benchmarks.peers import drawn
from farout import search, variations
from farout.api.arguments import build_target
from farout.networks.network import Network
from farout.search.objective import objective
from farout.search.walk import walk
from farout.tensors import CHUNK, chunks

SIZES = {"resnet20": (256, 7), "resnet18": (64, 4)}
"""Chains and steps. A ResNet-18 takes thirteen times a ResNet-20's time, hence the smaller search."""
LEAST = {"resnet20": 0.88, "resnet18": 0.95}
"""The share of the bare passes' images per second that a search must reach."""
VARIED = ("affine", "color")
BARE = "bare passes"


def bare(network: Network, base: Tensor, rounds: int) -> Callable[[], None]:
    """Run a bare forward pass over the same number of normalized images, channels last."""
    ready = [network.normalize(base[part]) for part in chunks(len(base), CHUNK)]

    def run() -> None:
        with torch.inference_mode():
            for _ in range(rounds):
                for batch in ready:
                    network.module(batch)

    return run


def searching(network: Network, base: Tensor, steps: int, variation: str) -> Callable[[], None]:
    """Chains of Metropolis–Hastings against the softmax's maximum, one per image."""
    varied = variations.create(variation).suited(tuple(base.shape[1:]))
    target = build_target(farout.Panel(network, ["msp"])["msp"])
    score = objective(varied, base, target.score, target.name)

    def run() -> None:
        for _ in walk(search.create("mh"), varied.space, score, len(base), steps, seed=0):
            pass

    return run


def seconds_of(runs: Mapping[str, Callable[[], None]], repeats: int) -> dict[str, NDArray[np.float64]]:
    """Seconds of every run and repeat, runs in turn and the first turn not counted."""
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(repeats + 1):
        for name, run in runs.items():
            start = time.perf_counter()
            run()
            seconds[name].append(time.perf_counter() - start)
    return {name: np.array(values[1:]) for name, values in seconds.items()}


def measure(name: str, chains: int, steps: int, repeats: int) -> None:
    """Measure on one network, and print: the ratio is the median over repeats of those within a repeat."""
    network = farout.networks.create(name, classes=10, side=32)
    base, rounds = drawn(chains, seed=0), 1 + steps
    runs = {BARE: bare(network, base, rounds), **{one: searching(network, base, steps, one) for one in VARIED}}
    seconds = seconds_of(runs, repeats)
    print(f"\n{name}: {chains} chains × {rounds} images of 32 px, batches of {min(chains, CHUNK)}; "
          f"threads: {torch.get_num_threads()}; median of {repeats}")  # fmt: skip
    print(f"{'':<24}{'images/s':>10}{'of bare':>9}{'quartiles':>16}{'at least':>10}")
    for key, values in seconds.items():
        low, ratio, high = np.quantile(seconds[BARE] / values, [0.25, 0.5, 0.75])
        judged = f"{LEAST[name]:>10.0%}  {'met' if ratio >= LEAST[name] else 'MISSED'}" if key != BARE else ""
        rate = chains * rounds / np.median(values)
        print(f"{key:<24}{rate:>10,.0f}{ratio:>9.1%}{f'{low:.1%} – {high:.1%}':>16}{judged}")


def main(arguments: Sequence[str] = ()) -> None:
    """Both networks, unless told otherwise."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.search", description=__doc__)
    parser.add_argument("--network", action="append", choices=list(SIZES), help="may be given twice; both unless given")
    parser.add_argument("--chains", type=int, help=f"unless given, chains and steps are {SIZES}")
    parser.add_argument("--steps", type=int)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--threads", type=int, default=2, help="of torch")
    given = parser.parse_args(list(arguments))
    torch.set_num_threads(given.threads)
    for name in given.network or SIZES:
        chains, steps = SIZES[name]
        measure(name, given.chains or chains, given.steps or steps, given.repeats)


if __name__ == "__main__":
    main(sys.argv[1:])
