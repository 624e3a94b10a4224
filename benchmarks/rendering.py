"""SHAPES drawn by farout, moderngl (software), cairo and Pillow, beside the forward pass that the images are for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import torch

from benchmarks.scenes_pillow import Pillow
from benchmarks.timing import Time, timed
from farout import networks
from farout.data.scenes.renderer import SMALLEST_SIDE, render
from farout.data.scenes.sampling import sample
from farout.data.scenes.scene import Scenes
from farout.data.scenes.worlds import SHAPES
from farout.tensors import CHUNK

KINDS = SHAPES.inliers + SHAPES.outliers
BATCHES = {32: 17, 64: 17, 224: 4}
"""Sides, and how many batches are drawn at each."""
PASSED = {32: 64, 64: 32, 224: 8}
"""Images of each side that pass through the network."""
MOST_OF_A_PASS = 0.05
"""Largest time of drawing, as a fraction of the time of a forward pass."""
OURS, FASTEST = "farout", "fill of the output (limit)"
PREPARATION = f"farout at {SMALLEST_SIDE} px: preparation"
SINGLE, ATLAS = "moderngl, image by image", "moderngl, batch in one frame"
CAIRO, PILLOW = "cairo", "Pillow, 4 × 4 samples"
NETWORK = "resnet18, forward pass"

Draw = Callable[[Scenes], object]


class Row(NamedTuple):
    """Something to time, and for how many images it stands."""

    run: Callable[[], object]
    images: int


def scenes_of(kind: str, count: int) -> Scenes:
    """Scenes of one class, all other attributes as inliers have them."""
    return sample(SHAPES._replace(inliers=(kind,)), f"bench/{kind}", count, seed=0).scenes


def joined(parts: list[Scenes]) -> Scenes:
    """The first scene of every part, then the second of every part, and so on."""
    columns = [part.columns() for part in parts]
    return Scenes(**{name: torch.stack([c[name] for c in columns], 1).flatten(0, 1) for name in columns[0]})


def rivals(side: int) -> dict[str, Draw]:
    """Other renderers of batches at this side; those that cannot run are left out with a word on how to get them."""
    found: dict[str, Draw] = {PILLOW: Pillow(side)}
    try:
        from benchmarks.scenes_cairo import Cairo

        found[CAIRO] = Cairo(side)
    except ImportError as error:
        print(f"without cairo ({error}): apt-get install libcairo2-dev pkg-config, then pip install pycairo")
    try:
        from benchmarks.scenes_moderngl import Atlas, Single

        found |= {SINGLE: Single(side), ATLAS: Atlas(side, CHUNK)}
    except Exception as error:  # moderngl raises this very class where there is no EGL
        print(f"without moderngl ({error}): apt-get install libegl1 libgl1-mesa-dri, then pip install moderngl")
    return found


def forward(side: int) -> dict[str, Row]:
    """A pass of the network that farout takes at this side; nothing where it needs timm and timm is missing."""
    try:
        network = networks.create("resnet18", classes=8, side=side)
    except ImportError as error:
        print(f"without a forward pass at {side} px: {error}")
        return {}
    images = network.normalize(torch.rand(PASSED[side], 3, side, side))

    def run() -> None:
        with torch.inference_mode():
            network.module(images)

    return {NETWORK: Row(run, PASSED[side])}


def drawing(draw: Draw, batches: list[Scenes]) -> Row:
    """All batches in turn."""

    def run() -> None:
        for batch in batches:
            draw(batch)

    return Row(run, sum(map(len, batches)))


def limits(side: int) -> dict[str, Draw]:
    """The least that can be done for an array of images, and what farout does before it comes to pixels."""
    return {
        FASTEST: lambda scenes: torch.full((len(scenes), 3, side, side), 155, dtype=torch.uint8),
        PREPARATION: lambda scenes: render(scenes, SMALLEST_SIDE),
    }


def per_image(rows: Mapping[str, Row], repeats: int = 5) -> dict[str, Time]:
    """Seconds per image, rows timed in turn."""
    times = timed({name: row.run for name, row in rows.items()}, repeats)
    return {name: time._replace(seconds=time.seconds / rows[name].images) for name, time in times.items()}


def show(title: str, times: Mapping[str, Time]) -> None:
    """Print times as multiples of ours, and images per second."""
    print(f"\n{title}\n{'':<44}{'× farout':>12}{'images/s':>10}{'spread':>8}")
    for name, time in times.items():
        ratio = time.seconds / times[OURS].seconds
        print(f"{name:<44}{ratio:>12.2f}{1 / time.seconds:>10,.0f}{time.spread:>8.0%}")


def judge(times: Mapping[str, Time]) -> None:
    """Print whether ours is fast enough."""
    others = {name: times[name].seconds for name in (SINGLE, ATLAS, CAIRO, PILLOW) if name in times}
    best = min(others, key=others.__getitem__)
    _judge(times[OURS].seconds / others[best], 1, f"the time of the fastest other, {best}")
    if NETWORK in times:
        _judge(times[OURS].seconds / times[NETWORK].seconds, MOST_OF_A_PASS, "a forward pass")


def _judge(share: float, most: float, what: str) -> None:
    print(f"farout takes {share:.2%} of {what}; at most {most:.0%}: {'met' if share <= most else 'MISSED'}")


def show_classes(side: int, draws: Mapping[str, Draw], scenes: Mapping[str, Scenes]) -> None:
    """Print where the time goes: microseconds of ours, and the others as multiples, for batches of one class."""
    others = [name for name in draws if name != OURS]
    print(f"\n{f'per class at {side} px':<26}{'farout, µs':>12}" + "".join(f"{name:>32}" for name in others))
    for kind in KINDS:
        times = per_image({name: drawing(draw, [scenes[kind]]) for name, draw in draws.items()}, repeats=9)
        ours = times[OURS].seconds
        ratios = "".join(f"{times[name].seconds / ours:>32.2f}" for name in others)
        print(f"{kind:<26}{ours * 1e6:>12.1f}{ratios}")


def main() -> None:
    """Batches of all classes alike, then of single classes, on one thread."""
    torch.set_num_threads(1)
    scenes = {kind: scenes_of(kind, CHUNK) for kind in KINDS}
    mixed = joined(list(scenes.values()))
    for side, count in BATCHES.items():
        batches = [mixed[slice(i * CHUNK, (i + 1) * CHUNK)] for i in range(count)]
        draws: dict[str, Draw] = {OURS: lambda batch, side=side: render(batch, side), **rivals(side)}
        rows = {name: drawing(draw, batches) for name, draw in (limits(side) | draws).items()}
        times = per_image(rows | forward(side))
        show(f"SHAPES at {side} px, {len(KINDS)} classes alike, batches of {CHUNK}, one thread", times)
        judge(times)
        show_classes(side, {name: draws[name] for name in (OURS, ATLAS, CAIRO) if name in draws}, scenes)


if __name__ == "__main__":
    main()
