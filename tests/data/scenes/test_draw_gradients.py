"""Gradients of `draw` against central differences."""

from __future__ import annotations

import dataclasses

import pytest
import torch
from some_scenes import PRIMITIVES, some
from torch import Tensor

from farout.data.scenes.renderer import draw
from farout.data.scenes.scene import KINDS, SOLID, Scenes

STEPS = {"hue": 1e-4, "size": 1e-7, "rotation": 1e-5, "position": 2e-8, "light": 1e-5}
COUNT, SIDE = 12, 48


def brightness(scenes: Scenes) -> Tensor:
    """One number per image to which pixels and channels contribute unequally, [B]."""
    x, y = torch.linspace(0, 3, SIDE), torch.linspace(0, 2, SIDE)
    weights = torch.stack([torch.sin(x * (1 + c))[None, :] + torch.cos(y * (2 - c))[:, None] for c in range(3)])
    return (draw(scenes, SIDE).double() * weights).sum((1, 2, 3))


def moved(scenes: Scenes, field: str, column: int, step: float) -> Scenes:
    values = getattr(scenes, field).clone()
    (values if values.ndim == 1 else values[:, column]).add_(step)
    return dataclasses.replace(scenes, **{field: values})


@pytest.mark.parametrize("field", STEPS)
@pytest.mark.parametrize("kind", PRIMITIVES)
def test_gradients_are_slopes(kind: str, field: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.Tensor, "float", torch.Tensor.double)  # short steps: pixels of edges begin and end
    scenes = some(COUNT, seed=7, kinds=(kind,))
    turns = torch.rand(COUNT, 3, generator=torch.Generator().manual_seed(3), dtype=torch.float64) * 100 - 50
    scenes = dataclasses.replace(scenes, rotation=turns)
    values = getattr(scenes, field).clone().requires_grad_()
    total = brightness(dataclasses.replace(scenes, **{field: values})).sum()
    (slopes,) = torch.autograd.grad(total, values)
    for column in range(values.shape[1] if values.ndim == 2 else 1):
        ahead, behind = (brightness(moved(scenes, field, column, sign * STEPS[field])) for sign in (1, -1))
        found = slopes if values.ndim == 1 else slopes[:, column]
        expected = (ahead - behind) / (2 * STEPS[field])
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4 * expected.abs().max().item() + 1e-6)


def test_gradients_are_finite_everywhere() -> None:
    scenes = some(20 * len(KINDS), seed=8)  # rotations are multiples of 10 degrees, edge-on views among them
    leaves = {name: getattr(scenes, name).clone().requires_grad_() for name in STEPS}
    leaves["rotation"].data[: 5 * len(KINDS)] = 0
    leaves["rotation"].data[5 * len(KINDS) : 10 * len(KINDS)] = torch.tensor([90.0, 0, 0], dtype=torch.float64)
    total = draw(dataclasses.replace(scenes, **leaves), 33).square().sum()
    for gradient in torch.autograd.grad(total, list(leaves.values())):
        assert gradient.isfinite().all()


def test_flat_figures_have_no_gradient_about_x_and_y() -> None:
    flat = tuple(kind for kind in KINDS if kind not in SOLID)
    scenes = some(62, seed=9, kinds=flat)
    rotation = scenes.rotation.clone().requires_grad_()
    (slopes,) = torch.autograd.grad(brightness(dataclasses.replace(scenes, rotation=rotation)).sum(), rotation)
    assert (slopes[:, :2] == 0).all()
    assert (slopes[:, 2] != 0).any()
