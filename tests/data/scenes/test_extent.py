"""How far figures reach: no pixel outside, and the box is no larger than needed."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch
from some_scenes import cover, some

from farout.data.scenes.renderer import extent
from farout.data.scenes.scene import KINDS

SIDE = 96


@pytest.mark.parametrize("kind", KINDS)
def test_figures_touch_their_box_and_stay_inside(kind: str) -> None:
    scenes = some(6, seed=KINDS.index(kind), kinds=(kind,))
    count = len(scenes)
    lit = torch.tensor([1.0, 1.0, 0.0, 0.0]).expand(count, 4)
    scenes = dataclasses.replace(scenes, hue=torch.zeros(count), light=lit, position=torch.zeros(count, 2))
    for place, reach in enumerate(extent(scenes).numpy() * SIDE):
        drawn = cover(scenes[slice(place, place + 1)], SIDE)
        from_center = np.abs(np.arange(SIDE) + 0.5 - SIDE / 2)
        for axis, most in ((0, reach[0]), (1, reach[1])):
            seen = from_center[drawn.max(axis) > 0.02].max()
            assert most - 2 < seen < most + 1


@pytest.mark.parametrize("kind", KINDS)
def test_figures_of_usual_size_fit_under_any_rotation(kind: str) -> None:
    scenes = some(2000, seed=9, kinds=(kind,))
    turns = torch.rand(2000, 3, generator=torch.Generator().manual_seed(0)) * 360
    radii = torch.where(torch.rand(2000, 12, generator=torch.Generator().manual_seed(1)) < 0.5, 0.7, 1.3)
    full = torch.full((2000,), 0.55)
    assert extent(dataclasses.replace(scenes, size=full, rotation=turns, radii=radii)).max() <= 0.5


def test_known_extents() -> None:
    def reach(kind: str, rotation: list[float]) -> list[float]:
        scenes = dataclasses.replace(
            some(1, kinds=(kind,)),
            size=torch.tensor([0.4]),
            rotation=torch.tensor([rotation]),
            aspect=torch.tensor([[0.5, 0.25]]),
        )
        return [round(value, 4) for value in extent(scenes)[0].tolist()]

    assert reach("circle", [0, 0, 33]) == [0.2, 0.2]
    assert reach("ellipse", [0, 0, 90]) == [0.1, 0.2]
    assert reach("rectangle", [0, 0, 0]) == [0.2, 0.1]
    assert reach("square", [0, 0, 45]) == [0.2828, 0.2828]
    assert reach("eq_triangle", [0, 0, 0]) == [0.2, 0.2309]
    assert reach("rp6", [0, 0, 0]) == [0.1732, 0.2]
    assert reach("cube_3d", [0, 45, 0]) == [0.2828, 0.2]
    assert reach("cuboid_3d", [0, 90, 0]) == [0.05, 0.1]
    assert reach("ellipsoid_3d", [90, 0, 0]) == [0.2, 0.05]
    assert reach("cylinder_3d", [0, 0, 45]) == [0.2828, 0.2828]
    assert reach("cone_3d", [90, 0, 0]) == [0.2, 0.2]


def test_extent_passes_gradients() -> None:
    scenes = some(74, seed=4)
    size = scenes.size.clone().requires_grad_()
    reach = extent(dataclasses.replace(scenes, size=size))
    (slope,) = torch.autograd.grad(reach.sum(), size)
    torch.testing.assert_close(slope, (reach.sum(1) / size).detach())  # extents are proportional to the size
