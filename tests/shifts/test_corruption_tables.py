"""The constants of the corruptions, typed a second time as the papers list them: severities 1 to 5 in a row."""

from __future__ import annotations

import re

import numpy as np
import pytest

import farout
from farout.shifts.tables import TABLES, constants, nearest_size

LISTED = """
gaussian_noise  32: .04 .06 .08 .09 .10
gaussian_noise  64: .04 .08 .12 .15 .18
gaussian_noise 224: .08 .12 .18 .26 .38
shot_noise  32: 500 250 100 75 50
shot_noise  64: 250 100 50 30 15
shot_noise 224: 60 25 12 5 3
impulse_noise  32: .01 .02 .03 .05 .07
impulse_noise  64: .01 .02 .05 .08 .14
impulse_noise 224: .03 .06 .09 .17 .27
speckle_noise  32: .06 .1 .12 .16 .2
speckle_noise  64: .15 .2 .25 .3 .35
speckle_noise 224: .15 .2 .35 .45 .6
gaussian_blur  32: .4 .6 .7 .8 1
gaussian_blur  64: .5 .75 1 1.25 1.5
gaussian_blur 224: 1 2 3 4 6
glass_blur  32: .05,1,1 .25,1,1 .4,1,1 .25,1,2 .4,1,2
glass_blur  64: .1,1,1 .5,1,1 .6,1,2 .7,2,1 .9,2,2
glass_blur 224: .7,1,2 .9,2,1 1,2,3 1.1,3,2 1.5,4,2
spatter  32: .62,.1,.7,.7,.5,0 .65,.1,.8,.7,.5,0 .65,.3,1,.69,.5,0 .65,.1,.7,.69,.6,1 .65,.1,.5,.68,.6,1
spatter  64: .62,.1,.7,.7,.6,0 .65,.1,.8,.7,.6,0 .65,.3,1,.69,.6,0 .65,.1,.7,.68,.6,1 .65,.1,.5,.67,.6,1
spatter 224: .65,.3,4,.69,.6,0 .65,.3,3,.68,.6,0 .65,.3,2,.68,.5,0 .65,.3,1,.65,1.5,1 .67,.4,1,.65,1.5,1
contrast  32: .75 .5 .4 .3 .15
contrast  64: .4 .3 .2 .1 .05
contrast 224: .4 .3 .2 .1 .05
brightness  32: .05 .1 .15 .2 .3
brightness  64: .1 .2 .3 .4 .5
brightness 224: .1 .2 .3 .4 .5
saturate  32: .3,0 .1,0 1.5,0 2,.1 2.5,.2
saturate  64: .3,0 .1,0 2,0 5,.1 30,.2
saturate 224: .3,0 .1,0 2,0 5,.1 20,.2
defocus_blur  32: .3,.4 .4,.5 .5,.6 1,.2 1.5,.1
defocus_blur  64: .5,.6 1,.1 1.5,.1 2.5,.01 3,.1
defocus_blur 224: 3,.1 4,.5 6,.5 8,.5 10,.5
motion_blur  32: 6,1 6,1.5 6,2 8,2 9,2.5
motion_blur  64: 10,1 10,1.5 10,2 10,2.5 12,3
motion_blur 224: 10,3 15,5 15,8 15,12 20,15
zoom_blur  32: 7,.01 12,.01 16,.01 21,.01 26,.01
zoom_blur  64: 7,.01 12,.01 16,.01 21,.01 26,.01
zoom_blur 224: 12,.01 16,.01 11,.02 13,.02 11,.03
snow  32: .1,.2,1,.6,8,3,.95 .1,.2,1,.5,10,4,.9 .15,.3,1.75,.55,10,4,.9 .25,.3,2.25,.6,12,6,.85 .3,.3,1.25,.65,14,12,.8
snow  64: .1,.2,1,.6,8,3,.8 .1,.2,1,.5,10,4,.8 .15,.3,1.75,.55,10,4,.7 .25,.3,2.25,.6,12,6,.65 .3,.3,1.25,.65,14,12,.6
snow 224: .1,.3,3,.5,10,4,.8 .2,.3,2,.5,12,4,.7 .55,.3,4,.9,12,8,.7 .55,.3,4.5,.85,12,8,.65 .55,.3,2.5,.85,12,12,.55
frost  32: 1,.2,.2 1,.3,.2 .9,.4,.2 .85,.4,.2 .75,.45,.2
frost  64: 1,.3,.3 .9,.4,.3 .8,.45,.3 .75,.5,.3 .7,.55,.3
frost 224: 1,.4,1 .8,.6,1 .7,.7,1 .65,.7,1 .6,.75,1
fog  32: .2,3 .5,3 .75,2.5 1,2 1.5,1.75
fog  64: .4,3 .7,3 1,2.5 1.5,2 2,1.75
fog 224: 1.5,2 2,2 2.5,1.7 2.5,1.5 3,1.4
elastic  32: 0,0,2.56 1.6,6.4,2.24 2.56,1.92,1.92 3.2,1.28,1.6 3.2,.96,.96
elastic  64: 0,0,5.12 3.2,19.2,3.84 6.4,5.12,3.84 6.4,1.92,1.92 10.24,1.92,1.28
elastic 224: 488,170.8,24.4 488,19.52,48.8 12.2,2.44,4.88 17.08,2.44,4.88 29.28,2.44,4.88
pixelate  32: .95 .9 .85 .75 .65
pixelate  64: .9 .8 .7 .6 .5
pixelate 224: .6 .5 .4 .3 .25
jpeg  32: 80 65 58 50 40
jpeg  64: 65 58 50 40 25
jpeg 224: 25 18 15 10 7
"""
ROWS = re.findall(r"(\w+) +(\d+): (.+)", LISTED)


@pytest.mark.parametrize(("name", "size", "listed"), ROWS)
def test_constants_are_the_published_ones(name: str, size: str, listed: str) -> None:
    expected = tuple(tuple(map(float, row.split(","))) for row in listed.split())
    rows = TABLES[name][int(size)]
    assert [len(row) for row in rows] == [len(row) for row in expected]
    np.testing.assert_allclose(rows, expected, rtol=1e-14, atol=0)  # elastic is given as shares of 64 or 244 pixels
    assert tuple(constants(name, severity, int(size)) for severity in range(1, 6)) == rows


def test_nineteen_corruptions_have_three_sizes() -> None:
    assert len(TABLES) == 19
    assert {(name, int(size)) for name, size, _ in ROWS} == {(name, size) for name in TABLES for size in (32, 64, 224)}
    assert all(sorted(sizes) == [32, 64, 224] for sizes in TABLES.values())
    assert set(TABLES) <= set(farout.shifts.names())


def test_the_size_is_chosen_by_the_shorter_side() -> None:
    assert [nearest_size(side) for side in (1, 28, 32, 47, 48, 64, 127, 128, 224, 512)] == [32] * 4 + [64] * 3 + [
        224
    ] * 3
    blur = farout.shifts.GaussianBlur(severity=5)
    assert [blur.constants((3, *sides)) for sides in ((40, 300), (300, 100), (200, 128))] == [(1,), (1.5,), (6,)]
