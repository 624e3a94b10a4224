"""Letters against FreeType's own drawing, distances against closed forms, and fonts that do not do."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image, ImageDraw, ImageFont
from some_scenes import cover, scene

from farout.data.scenes import glyphs
from farout.data.scenes.renderer import extent, render
from farout.data.scenes.scene import GLYPHS

FONTS = glyphs._default().parent


@pytest.mark.parametrize("character", GLYPHS)
def test_letters_look_as_freetype_draws_them(character: str) -> None:
    side, size = 512, 320
    drawn = cover(scene(character, size=size / side), side) > 0.5
    font = ImageFont.truetype(str(FONTS / "DejaVuSansMono.ttf"), size, layout_engine=ImageFont.Layout.BASIC)
    canvas = Image.new("L", (side, side))
    ImageDraw.Draw(canvas).text((100, 50), character, 255, font)
    left, top, right, bottom = canvas.getbbox() or (0, 0, 0, 0)
    reference = np.roll(np.asarray(canvas) > 127, ((side - top - bottom) // 2, (side - left - right) // 2), (0, 1))
    shifts = [(i, j) for i in (-1, 0, 1) for j in (-1, 0, 1)]  # hinting moves edges by up to a pixel
    moved = [np.roll(reference, shift, (0, 1)) for shift in shifts]
    assert max((drawn & other).sum() / (drawn | other).sum() for other in moved) > 0.95


def test_distances_to_a_square_with_a_hole() -> None:
    def ring(half: float, turn: int) -> list[tuple[float, float]]:
        return [(-half, -half), (half, -half), (half, half), (-half, half)][::turn]

    corners = [ring(0.5, 1), ring(0.25, -1)]
    pieces = np.array([(ends[i], ends[(i + 1) % 4]) for ends in corners for i in range(4)])
    x, y = np.array([0, 0.375, 0.3, 0.75, 0.9, -0.5]), np.array([0, 0, 0.1, 0, 0.8, 0.2])
    found = glyphs.signed_distances(pieces, x, y)
    np.testing.assert_allclose(found, [0.25, -0.125, -0.05, 0.25, 0.5, 0], atol=1e-12)


def test_a_letter_is_as_high_as_its_font_says() -> None:
    upright = extent(scene("h", size=0.5))[0, 1].item()
    assert upright == pytest.approx(0.5 * 1556 / 2048 / 2, abs=1e-6)  # DejaVu's ascenders reach 1556 of 2048 units


def test_letters_keep_their_form_at_any_size() -> None:
    areas = [cover(scene("a", size=size), 224).sum() / (size * 224) ** 2 for size in (0.1, 0.3, 0.6)]
    assert max(areas) / min(areas) < 1.02


def test_another_font(tmp_path: Path) -> None:
    serif = tmp_path / "mine.ttf"
    shutil.copy(FONTS / "DejaVuSerif-Bold.ttf", serif)
    assert glyphs.digest(serif) != glyphs.digest()
    assert glyphs.digest(serif) == glyphs.digest(FONTS / "DejaVuSerif-Bold.ttf")
    assert not render(scene("g"), 64, serif).equal(render(scene("g"), 64))
    assert extent(scene("g"), serif)[0, 0] > extent(scene("g"))[0, 0]
    assert render(scene("circle"), 32, serif).equal(render(scene("circle"), 32))


@pytest.mark.parametrize("alike", [False, True], ids=["plain", "of the same size and time"])
def test_a_font_put_in_the_place_of_another(tmp_path: Path, alike: bool) -> None:
    mine = tmp_path / "mine.ttf"
    for other in (FONTS / "DejaVuSerif-Bold.ttf", FONTS / "DejaVuSans.ttf"):
        mine.write_bytes(other.read_bytes().ljust(10**6 if alike else 0, b"\0"))
        if alike:
            os.utime(mine, (1e9, 1e9))
        assert glyphs.digest(mine) == glyphs.digest(other)
        assert render(scene("g"), 64, mine).equal(render(scene("g"), 64, other))


def test_a_font_is_measured_once() -> None:
    assert glyphs.atlas() is glyphs.atlas()


def test_digest_stands_for_the_default_font() -> None:
    assert glyphs.digest() == glyphs.digest(FONTS / "DejaVuSansMono.ttf")
    assert torch.from_numpy(glyphs.atlas()).isfinite().all()


def test_fonts_that_do_not_do(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="no font file at"):
        glyphs.digest(tmp_path / "missing.ttf")
    broken = tmp_path / "broken.ttf"
    broken.write_bytes(b"no font")
    with pytest.raises(ValueError, match=r"broken\.ttf cannot be read as a TrueType font"):
        render(scene("a"), 32, broken)
    with pytest.raises(ValueError, match="has no 'a'"):
        glyphs.digest(FONTS / "STIXSizOneSymReg.ttf")
