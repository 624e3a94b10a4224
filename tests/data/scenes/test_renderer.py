"""Two executions of one set of formulas; batches; colors, places and light; wrong input."""

from __future__ import annotations

import colorsys
import dataclasses
import subprocess
import sys
from typing import Any

import pytest
import torch
from some_scenes import cover, scene, some

from farout.data.scenes import painter
from farout.data.scenes.renderer import draw, render
from farout.data.scenes.scene import GLYPHS, KINDS, Scenes

GRAY = 155


@pytest.mark.parametrize("side", [8, 32, 45, 64, 224])
def test_compiled_and_tensor_execution_give_equal_bytes(side: int) -> None:
    scenes = some(370 if side < 100 else 111, seed=side)
    assert (draw(scenes, side) * 255).round().to(torch.uint8).equal(render(scenes, side))


def test_equal_bytes_at_extreme_values() -> None:
    scenes = some(370, seed=5)
    for extreme in (
        dataclasses.replace(scenes, aspect=torch.full((370, 2), 0.05), size=scenes.size * 3),
        dataclasses.replace(scenes, size=scenes.size * 0.01),
        dataclasses.replace(scenes, points=torch.full((370,), 3), radii=scenes.radii * 2),
    ):
        assert (draw(extreme, 40) * 255).round().to(torch.uint8).equal(render(extreme, 40))


@pytest.mark.parametrize("away", [(-0.9, 0), (0.9, 0), (0, -0.9), (0, 0.9), (-8, 0), (8, 8)], ids=str)
def test_nothing_is_drawn_of_figures_out_of_sight(away: tuple[float, float]) -> None:
    """Drawn after figures of their kind that are in sight."""
    position = torch.tensor([(0.0, 0.0)] * 37 + [away] * 37)
    scenes = dataclasses.replace(some(74, seed=4), size=torch.full((74,), 0.3), position=position)
    images = render(scenes, 40)
    assert (images[:37] != GRAY).flatten(1).any(1).all()
    assert (images[37:] == GRAY).all()


@pytest.mark.parametrize("size", [1, 7, 64])
def test_bytes_do_not_depend_on_the_batch(size: int) -> None:
    scenes = some(111, seed=1)
    whole = render(scenes, 33)
    parts = [render(scenes[slice(start, start + size)], 33) for start in range(0, 111, size)]
    assert torch.cat(parts).equal(whole)
    order = torch.randperm(111, generator=torch.Generator().manual_seed(0))
    assert render(scenes[order], 33).equal(whole[order])


def test_precision_of_the_given_numbers_does_not_matter() -> None:
    scenes = some(74, seed=2)
    singles = Scenes(**{k: v.float() if v.is_floating_point() else v for k, v in scenes.columns().items()})
    doubles = Scenes(**{k: v.double() if v.is_floating_point() else v for k, v in singles.columns().items()})
    assert render(singles, 32).equal(render(doubles, 32))


def test_no_scenes_no_images() -> None:
    assert render(some(3)[slice(0, 0)], 16).shape == (0, 3, 16, 16)


@pytest.mark.parametrize("hue", [0, 30, 75, 120, 210, 285, 330, 360, -90])
def test_hue(hue: int) -> None:
    expected = torch.tensor(colorsys.hsv_to_rgb(hue / 360 % 1, 1, 1))
    torch.testing.assert_close(draw(scene("square", hue=float(hue)), 16)[0, :, 8, 8], expected)
    torch.testing.assert_close(
        draw(scene("circle", hue=float(hue), light=[0.4, 0.3, 0.2, 0]), 16)[0, :, 8, 8], expected * 0.4
    )


def test_background_is_the_papers_gray() -> None:
    assert (render(some(37, seed=3), 64)[:, :, 0, 0] == GRAY).all()
    assert (render(scene("circle", position=[3.0, 0.0]), 16) == GRAY).all()


def test_position_counts_to_the_right_and_upwards() -> None:
    found = cover(scene("circle", size=0.2, position=[0.25, 0.125]), 64)
    rows, columns = found.sum(1), found.sum(0)
    steps = torch.arange(64).double().numpy() + 0.5
    assert (columns * steps).sum() / found.sum() == pytest.approx(32 + 16, abs=1e-4)
    assert (rows * steps).sum() / found.sum() == pytest.approx(32 - 8, abs=1e-4)


@pytest.mark.parametrize("kind", ["is_triangle", "random", "g", "4"])
def test_rotation_turns_counter_clockwise(kind: str) -> None:
    form: dict[str, Any] = {"aspect": [0.5, 1], "radii": [1.3, 0.7] * 6}
    upright, turned = draw(scene(kind, **form), 32), draw(scene(kind, rotation=[0, 0, 90], **form), 32)
    torch.testing.assert_close(turned, upright.rot90(1, (2, 3)), atol=1e-4, rtol=0)


def test_light_falls_from_its_direction() -> None:
    above = draw(scene("sphere_3d", light=[1, 0.2, 0.3, 90]), 32)[0, 0]
    assert above[10, 16] > above[22, 16] + 0.3
    torch.testing.assert_close(draw(scene("sphere_3d", light=[1, 0.2, 0.3, 180]), 32)[0, 0], above.T, atol=1e-5, rtol=0)


def test_every_kind_looks_different() -> None:
    turn = [-30.0, 40.0, 10.0]
    images = [render(scene(k, rotation=turn, aspect=[0.5, 0.6], light=[1, 0.3, 0.2, 60]), 64) for k in KINDS]
    for i, image in enumerate(images):
        for other in images[:i]:
            assert (image.int() - other.int()).abs().amax(1).gt(40).sum() > 15


@pytest.mark.parametrize("side", [7, 0, -3])
def test_too_small_a_side(side: int) -> None:
    for function in (render, draw):
        with pytest.raises(ValueError, match="expected at least 8 pixels"):
            function(scene("circle"), side)


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("size", float("nan"), "scene 1: size is nan; it must lie in 0.001..8"),
        ("size", 0.0, "scene 1: size is 0"),
        ("hue", float("inf"), "scene 1: hue is inf"),
        ("position", float("nan"), "scene 1: position is nan"),
        ("light", -1.0, "scene 1: light is -1"),
        ("aspect", 1.5, "scene 1: aspect is 1.5"),
        ("kind", len(KINDS), "scene 1: kind is 37; it must lie in 0..36"),
        ("kind", -1, "scene 1: kind is -1"),
        ("points", 13, "scene 1: points is 13"),
    ],
)
def test_wrong_values(field: str, value: float, message: str) -> None:
    scenes = some(3)
    column = getattr(scenes, field).clone()
    column[1] = value
    for function in (render, draw):
        with pytest.raises(ValueError, match=message):
            function(dataclasses.replace(scenes, **{field: column}), 32)


def test_compiled_code_is_kept_between_processes() -> None:
    render(some(17), 16)
    code = (
        "import torch; from farout.data.scenes import renderer, primitives, scene as s, painter;"
        "one = torch.ones(1); many = lambda n: torch.ones(1, n);"
        "renderer.render(s.Scenes(torch.zeros(1).long(), one, one / 2, many(3), many(2) * 0, many(4), many(2),"
        " torch.full((1,), 5), one, many(12)), 16);"
        "print(sum(painter.compile_painter(primitives.PRIMITIVES[0]).stats.cache_hits.values()))"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "1\n"


def test_edited_formulas_are_compiled_anew() -> None:
    """All modules that formulas stand in count toward the hash that compiled code is kept under."""
    from farout.data.scenes.primitives import PRIMITIVES

    functions = [f for p in PRIMITIVES for f in (p.reach, p.prepare, p.shade, p.outline, p.locate) if f]
    assert {function.__module__.rpartition(".")[2] for function in functions} < set(painter.FORMULAS)


def test_glyphs_are_the_last_kinds() -> None:
    assert KINDS[-len(GLYPHS) :] == GLYPHS
