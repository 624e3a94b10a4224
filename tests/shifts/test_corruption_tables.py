"""The constants of the corruptions, typed a second time as the papers list them: severities 1 to 5 in a row."""

from __future__ import annotations

import re

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
"""
ROWS = re.findall(r"(\w+) +(\d+): (.+)", LISTED)


@pytest.mark.parametrize(("name", "size", "listed"), ROWS)
def test_constants_are_the_published_ones(name: str, size: str, listed: str) -> None:
    expected = tuple(tuple(map(float, row.split(","))) for row in listed.split())
    assert TABLES[name][int(size)] == expected
    assert [constants(name, severity, int(size)) for severity in range(1, 6)] == list(expected)


def test_every_corruption_has_three_sizes_and_five_severities() -> None:
    assert {(name, int(size)) for name, size, _ in ROWS} == {(name, size) for name in TABLES for size in TABLES[name]}
    assert set(TABLES) <= set(farout.shifts.names())


def test_the_size_is_chosen_by_the_shorter_side() -> None:
    assert [nearest_size(side) for side in (1, 28, 32, 47, 48, 64, 127, 128, 224, 512)] == [32] * 4 + [64] * 3 + [
        224
    ] * 3
    blur = farout.shifts.GaussianBlur(severity=5)
    assert [blur.constants((3, *sides)) for sides in ((40, 300), (300, 100), (200, 128))] == [(1,), (1.5,), (6,)]
