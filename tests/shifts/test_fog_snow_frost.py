"""Fog, snow and frost: given what was drawn, each image as one made by itself; drawn anew, alike on average."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from scipy import ndimage

import farout
from farout.core import Params, Shift
from farout.shifts.tables import TABLES
from farout.shifts.textures import frost_procedural
from farout.shifts.textures.frost_sheets import Sheets
from farout.shifts.textures.plasma import plasma
from helpers import slow_corruptions as slow
from helpers import slow_weather as weather

SETTINGS = [(severity, side) for side in (32, 64, 224) for severity in range(1, 6)]
SHAPES = [(3, 32, 32), (1, 32, 32), (3, 21, 44), (3, 8, 8)]


def pictures(count: int, shape: Sequence[int]) -> torch.Tensor:
    return torch.randint(0, 256, (count, *shape), generator=torch.Generator().manual_seed(1)).div(255)


def drawn(shift: Shift, count: int, shape: Sequence[int]) -> Params:
    rng = torch.Generator().manual_seed(3)
    all_of_them = [shift.sample(shape, rng) for _ in range(count)]
    return {name: torch.stack([one[name] for one in all_of_them]) for name in all_of_them[0]}


def hwc(images: torch.Tensor) -> np.ndarray:
    """In levels."""
    return images.permute(0, 2, 3, 1).double().mul(255).round().numpy()


def row(name: str, severity: int, shape: Sequence[int]) -> tuple[float, ...]:
    side = min(shape[-2:])
    return TABLES[name][32 if side < 48 else 64 if side < 128 else 224][severity - 1]


def at_most_one_level_apart(fast: torch.Tensor, slowly: Sequence[np.ndarray], seldom: float = 2e-3) -> None:
    """Truncated at 8 bits, numbers that differ in float32 alone may fall to either side, but seldom do."""
    apart = np.abs(hwc(fast) - np.stack([slow.cut(image + 1e-9).astype(float) for image in slowly]))
    assert apart.max() <= 1
    assert (apart > 0).mean() < seldom


def same_on_average(a: np.ndarray, b: np.ndarray) -> None:
    """Mean and standard deviation of the change within 4.5 Monte-Carlo errors (and a hundredth of a level)."""
    for summary in (lambda x: x.mean((1, 2, 3)), lambda x: x.std((1, 2, 3))):
        first, second = summary(a), summary(b)
        error = np.sqrt(first.var() / len(a) + second.var() / len(b))
        assert abs(first.mean() - second.mean()) < 4.5 * error + 0.01


# fog


def slow_fog(image: np.ndarray, noise: np.ndarray, severity: int) -> np.ndarray:
    strength, decay = row("fog", severity, image.shape[:2])
    side = 2 ** int(np.ceil(np.log2(max(image.shape[:2]))))
    return weather.fog(image, weather.plasma(iter(noise), side, decay), strength)


@pytest.mark.parametrize(("severity", "shape"), [(s, (3, side, side)) for s, side in SETTINGS if side < 224 or s == 4])
def test_fog_given_its_noise(severity: int, shape: tuple[int, ...]) -> None:
    count, fog = 128 // shape[1] + 1, farout.shift("fog", severity=severity)
    images, params = pictures(count, shape), drawn(fog, count, shape)
    pairs = zip(hwc(images) / 255, params["noise"].double().numpy(), strict=True)
    at_most_one_level_apart(fog.apply(images, params), [slow_fog(*pair, severity) for pair in pairs])


@pytest.mark.parametrize("shape", SHAPES)
def test_fog_on_other_shapes(shape: tuple[int, ...]) -> None:
    fog = farout.shift("fog", severity=5)
    images, params = pictures(4, shape) * 0.6, drawn(fog, 4, shape)
    pairs = zip(images.permute(0, 2, 3, 1).double().numpy(), params["noise"].double().numpy(), strict=True)
    at_most_one_level_apart(fog.apply(images, params), [slow_fog(*pair, 5) for pair in pairs])


@pytest.mark.parametrize("severity", range(1, 6))
def test_fog_drawn_anew(severity: int) -> None:
    rng = np.random.default_rng(severity)
    base = pictures(1, (3, 32, 32)) * 0.5 + 0.25
    base = base.mul(255).round().div(255)
    fast = hwc(farout.shift("fog", severity=severity)(base.expand(400, -1, -1, -1))) - hwc(base)
    noises = rng.uniform(-1, 1, (80, 32 * 32 - 1))
    slowly = [slow.cut(slow_fog(hwc(base)[0] / 255, noise, severity) + 1e-9) for noise in noises]
    same_on_average(fast, np.stack(slowly) - hwc(base))


def test_the_maps_run_from_0_to_1() -> None:
    maps = plasma(np.random.default_rng(0).uniform(-1, 1, (20, 64 * 64 - 1)).astype(np.float32), 2.5)
    assert maps.dtype == np.float32
    assert maps.min((1, 2)).tolist() == [0] * 20
    assert maps.max((1, 2)).tolist() == [1] * 20


def test_the_smallest_map_by_hand() -> None:
    """Of four points the first is 0, the middle .4, and the others are the mean of two of each, and noise."""
    heights = plasma(np.array([[0.4, 0.6, -0.4]], np.float32), 3.0)[0]
    expected = np.array([[0, 0.2 + 0.6], [0.2 - 0.4, 0.4]])
    np.testing.assert_allclose(heights, (expected + 0.2) / 1.0, atol=1e-6)


def test_fog_keeps_the_brightest_value() -> None:
    """Black stays black; a flat image is at its own value where the fog is densest."""
    flat = torch.tensor([0, 51, 255]).div(255)[:, None, None, None].expand(-1, 3, 32, 32)
    for severity in range(1, 6):
        assert hwc(farout.shift("fog", severity=severity)(flat)).max((1, 2, 3)).tolist() == [0, 51, 255]


# snow


def slow_snow(image: np.ndarray, noise: np.ndarray, share: float, severity: int) -> np.ndarray:
    """Around the part that is enlarged there may be anything."""
    full = np.full(image.shape[:2], np.nan)
    top, left = ((side - part) // 2 for side, part in zip(full.shape, noise.shape, strict=True))
    full[top : top + noise.shape[0], left : left + noise.shape[1]] = noise
    return weather.snow(image, full, -135 + 90 * share, row("snow", severity, image.shape[:2]))


def check_snow(severity: int, shape: tuple[int, ...], count: int) -> None:
    snow = farout.shift("snow", severity=severity)
    images, params = pictures(count, shape) * 0.5, drawn(snow, count, shape)
    numbers = zip(
        images.permute(0, 2, 3, 1).double().numpy(),
        params["noise"].double().numpy(),
        params["angle"].double(),
        strict=True,
    )
    slowly = [slow_snow(image, noise, float(share), severity) for image, noise, share in numbers]
    at_most_one_level_apart(snow.apply(images, params), slowly)


@pytest.mark.parametrize(("severity", "side"), SETTINGS)
def test_snow_given_its_flakes(severity: int, side: int) -> None:
    check_snow(severity, (3, side, side), 256 // side)


@pytest.mark.parametrize("shape", SHAPES)
def test_snow_on_other_shapes(shape: tuple[int, ...]) -> None:
    check_snow(4, shape, 4)


@pytest.mark.parametrize("severity", range(1, 6))
def test_snow_drawn_anew(severity: int) -> None:
    rng = np.random.default_rng(severity)
    base = torch.full((1, 3, 32, 32), 51 / 255)
    fast = hwc(farout.shift("snow", severity=severity)(base.expand(400, -1, -1, -1))) - 51
    constants = row("snow", severity, (32, 32))
    draws = [(rng.normal(size=(32, 32)), rng.uniform(-135, -45)) for _ in range(150)]
    slowly = [slow.cut(weather.snow(hwc(base)[0] / 255, *draw, constants) + 1e-9) for draw in draws]
    same_on_average(fast, np.stack(slowly) - 51.0)


def test_a_day_without_flakes_is_pale() -> None:
    snow, images = farout.shift("snow", severity=3), pictures(2, (3, 32, 32))
    params = {"noise": torch.full((2, 19, 19), -2.0), "angle": torch.zeros(2)}
    exact = hwc(images) / 255
    gray = (exact @ [0.299, 0.587, 0.114])[..., None]
    pale = exact * 0.9 + np.maximum(exact, 1.5 * gray + 0.5) * 0.1
    at_most_one_level_apart(snow.apply(images, params), list(pale))


# frost

WEIGHTS = (0.2, 0.4, 0.2, 0.2)
STATISTICS = {
    32: (
        ((78, 149, 166), 14, -1.1, 0.5),
        ((201, 205, 214), 18, -0.8, 0.99),
        ((144, 159, 171), 26, -0.4, 0.99),
        ((101, 113, 124), 34, -1.1, 1.0),
    ),
    224: (
        ((78, 149, 166), 16, -1.5, 0.5),
        ((201, 205, 214), 20, -1.9, 0.99),
        ((138, 153, 166), 27, -1.5, 0.99),
        ((112, 123, 135), 36, -1.8, 1.0),
    ),
}
"""Mean RGB, standard deviation in a crop, slope of the spectrum, correlation of red and blue; by size and texture."""


def crops(sheets: Sheets, number: int, side: int, count: int) -> np.ndarray:
    """Of one texture, [count, 3, side, side]."""
    rng = torch.Generator().manual_seed(number)
    place = torch.rand(count, 3, generator=rng)
    place[:, 0] = float(np.cumsum((0, *WEIGHTS))[number]) + WEIGHTS[number] / 2
    return sheets.cut(side, side, place, torch.randn(count, generator=rng)).double().numpy()


def spectral_slope(images: np.ndarray) -> float:
    """Of power over frequency, both in logarithms: Hann window, mean over rings."""
    side = images.shape[-1]
    window = np.hanning(side + 1)[:-1]
    centered = images - images.mean((2, 3), keepdims=True)
    power = (np.abs(np.fft.fft2(centered * window * window[:, None])) ** 2).mean((0, 1))
    ring = np.rint(np.hypot(*np.meshgrid(np.fft.fftfreq(side), np.fft.fftfreq(side))) * side)
    radii = np.arange(2, side // 2)
    rings = [power[ring == radius].mean() for radius in radii]
    return float(np.polyfit(np.log(radii), np.log(rings), 1)[0])


@pytest.mark.parametrize("number", range(4))
@pytest.mark.parametrize(("side", "count"), [(32, 1500), (224, 60)])
def test_frost_has_the_statistics_of_photographs(side: int, count: int, number: int) -> None:
    """Tolerances: four errors of the mean; of the rest what a sheet may be off by (its own draw, cut at white)."""
    mean, std, slope, correlation = STATISTICS[side][number]
    found = crops(frost_procedural.build_sheets(side, side), number, side, count)
    of_crops = found.mean((2, 3))
    assert of_crops.mean(0) == pytest.approx(mean, abs=4 * 12 / count**0.5)
    assert np.sqrt(found.var((2, 3)).mean(0)) == pytest.approx([std] * 3, rel=0.06)
    assert spectral_slope(found) == pytest.approx(slope, abs=0.12)
    red, blue = found[:, 0].reshape(count, -1), found[:, 2].reshape(count, -1)
    assert np.mean([np.corrcoef(*pair)[0, 1] for pair in zip(red, blue, strict=True)]) == pytest.approx(
        correlation, abs=0.04
    )
    assert 7 < of_crops[:, 1].std() < 14


def test_frost_of_64_px_lies_between() -> None:
    for number, texture in enumerate(frost_procedural.TEXTURES):
        (small, *few), (large, *many) = (STATISTICS[side][number][:3] for side in (32, 224))
        mean, *rest = frost_procedural.statistics(texture, 64)
        assert mean == pytest.approx(np.mean([small, large], 0))
        assert rest == pytest.approx(np.mean([few, many], 0))


def test_every_texture_as_often_as_it_should_be() -> None:
    """A black image shows the frost alone; the four are told apart by their mean color. Error: √(.4·.6/2000) = .011."""
    frost = hwc(farout.shift("frost", severity=5)(torch.zeros(2000, 3, 32, 32))).mean((1, 2)) / 0.45
    colors = np.array([statistics[0] for statistics in STATISTICS[32]])
    nearest = np.square(frost[:, None] - colors).sum(-1).argmin(1)
    assert np.bincount(nearest) / 2000 == pytest.approx(WEIGHTS, abs=0.05)


@pytest.mark.parametrize("severity", range(1, 6))
@pytest.mark.parametrize("shape", [(3, 32, 32), (3, 64, 64), (3, 224, 224), (3, 50, 23), (3, 8, 8)])
def test_frost_given_its_place(severity: int, shape: tuple[int, ...]) -> None:
    frost, (_, height, width) = farout.shift("frost", severity=severity), shape
    images, params = pictures(3, shape), drawn(frost, 3, shape)
    sheets = frost_procedural.build_sheets(height, width)
    image_weight, frost_weight, _ = row("frost", severity, shape)
    expected = []
    for i, image in enumerate(hwc(images)):
        which, *place = params["place"][i].double().tolist()
        number = int(np.searchsorted(np.cumsum(WEIGHTS), which, side="right"))
        side = sheets.levels.shape[2] - height + 1
        top, left = (int(share * side) for share in place)
        levels = sheets.levels[number, :, top : top + height, left : left + width].double().numpy()
        levels = levels + np.rint(float(params["brightness"][i] * sheets.varying[number]))
        expected.append(image_weight * image / 255 + frost_weight * levels.clip(0, 255).transpose(1, 2, 0) / 255)
    at_most_one_level_apart(frost.apply(images, params), expected)


def test_frost_goes_on_beyond_its_edge() -> None:
    """The last rows and columns repeat the first, so that a crop may begin at each of 256² places."""
    levels = frost_procedural.build_sheets(32, 40).levels
    assert levels.shape == (4, 3, 256 + 31, 256 + 39)
    assert torch.equal(levels[:, :, 256:], levels[:, :, :31])
    assert torch.equal(levels[..., 256:], levels[..., :39])


@pytest.mark.parametrize("name", ["fog", "snow", "frost"])
@pytest.mark.parametrize("severity", range(1, 6))
def test_one_channel(name: str, severity: int) -> None:
    """A gray image in color and the same of one channel draw the same; frost is tinted, and counts by its gray."""
    gray, shift = pictures(3, (1, 32, 32)), farout.shift(name, severity=severity)
    colored = hwc(shift(gray.expand(-1, 3, -1, -1)))
    clipped = (colored == 255).any(-1)
    apart = np.abs(hwc(shift(gray))[..., 0] - colored @ [0.299, 0.587, 0.114])
    assert apart[~clipped].max() <= 1.01
    assert (~clipped).mean() > 0.1


# photographs of frost


def save(folder: Path, **photographs: np.ndarray) -> str:
    folder.mkdir()
    for name, pixels in photographs.items():
        Image.fromarray(pixels).save(folder / f"{name}.png")
    (folder / "notes.txt").write_text("no photograph")
    return str(folder)


def photograph(seed: int, height: int = 300, width: int = 350) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3), np.uint8)


def test_photographs_are_scaled_as_by_bilinear_reading(tmp_path: Path) -> None:
    """What a crop of 32, 64 and 224 px shows. Scaled by .3, many values lie at a half, and round to either side."""
    pixels = photograph(0)
    frost = farout.shift("frost", severity=1, frost_dir=save(tmp_path / "frost", a=pixels))
    for side, scale in ((32, 0.2), (64, 0.3), (224, 1.0)):
        rows, columns = (np.arange(round(n * scale)) for n in pixels.shape[:2])
        read = [(places + 0.5) / scale - 0.5 for places in (rows, columns)]
        grid = np.meshgrid(*read, indexing="ij")
        small = [
            ndimage.map_coordinates(c.astype(float), grid, order=1, mode="nearest") for c in pixels.T.swapaxes(1, 2)
        ]
        params = drawn(frost, 2, (3, side, side))
        crop = []
        for place in params["place"].double().numpy():
            top, left = (int(share * (len(n) - side + 1)) for share, n in zip(place[1:], (rows, columns), strict=True))
            crop.append(np.rint(np.stack(small, -1)[top : top + side, left : left + side]))
        weight = TABLES["frost"][side][0][1]
        expected = [weight * levels / 255 for levels in crop]
        at_most_one_level_apart(frost.apply(torch.zeros(2, 3, side, side), params), expected, 0.02)
    assert np.array_equal(np.rint(np.stack(small, -1)), pixels)


def test_every_photograph_is_as_likely(tmp_path: Path) -> None:
    """Of five sizes, each of one color. Error of a share: √(.2·.8/1000) = .013."""
    flat = {f"p{i}": np.full((170 + 40 * i, 400 - 30 * i, 3), 50 * i + 20, np.uint8) for i in range(5)}
    frost = farout.shift("frost", severity=1, frost_dir=save(tmp_path / "frost", **flat))
    shown = hwc(frost(torch.zeros(1000, 3, 32, 32))).reshape(1000, -1)
    assert np.array_equal(shown.min(1), shown.max(1))
    levels, counts = np.unique(shown[:, 0], return_counts=True)
    assert levels.tolist() == [4, 14, 24, 34, 44]
    assert counts / 1000 == pytest.approx([0.2] * 5, abs=0.057)


def test_photographs_count_by_what_they_show(tmp_path: Path) -> None:
    one, two = photograph(1), photograph(2)
    here = farout.shift("frost", severity=2, frost_dir=save(tmp_path / "here", a=one, b=two))
    there = farout.shift("frost", severity=2, frost_dir=save(tmp_path / "there", x=two, y=one))
    other = farout.shift("frost", severity=2, frost_dir=save(tmp_path / "other", a=one, b=photograph(3)))
    images = pictures(5, (3, 32, 32))
    assert here.identity() == there.identity()
    assert torch.equal(here(images), there(images))
    assert str(tmp_path) not in str(here.identity())
    assert len({str(shift.identity()) for shift in (here, other, farout.shift("frost", severity=2))}) == 3
    assert not torch.equal(here(images), other(images))


def test_a_changed_photograph_is_read_again(tmp_path: Path) -> None:
    folder = save(tmp_path / "frost", a=photograph(1))
    before = farout.shift("frost", severity=2, frost_dir=folder)
    kept = before.identity()
    Image.fromarray(photograph(2, 310)).save(Path(folder) / "a.png")
    assert farout.shift("frost", severity=2, frost_dir=folder).identity() != kept == before.identity()


def test_labels_say_what_the_frost_is(tmp_path: Path) -> None:
    folder = save(tmp_path / "frost", a=photograph(1))
    assert farout.shift("frost", severity=3).label == "frost (procedural) 3"
    assert farout.shift("frost", severity=3, frost_dir=folder).label == "frost 3"
    assert farout.shift("frost", severity=3).identity() == {"name": "frost", "version": 1, "severity": 3}


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda folder: str(folder),
            "frost_dir: there is no folder .*; expected one with photographs of frost, or None",
        ),
        (lambda folder: save(folder), "frost_dir: .* has no images; expected photographs of frost in files ending in"),
    ],
)
def test_folders_without_photographs(make: Callable[[Path], str], message: str, tmp_path: Path) -> None:
    with pytest.raises((ValueError, FileNotFoundError), match=message):
        farout.shift("frost", severity=1, frost_dir=make(tmp_path / "frost"))


@pytest.mark.parametrize(("side", "scale", "least"), [(32, "0.2", 158), (64, "0.3", 212), (224, "1", 224)])
def test_photographs_that_are_too_small(side: int, scale: str, least: int, tmp_path: Path) -> None:
    """The least that does is told, and does."""
    small = farout.shift("frost", severity=1, frost_dir=save(tmp_path / "small", a=photograph(1, least - 1, 400)))
    message = f"a photograph of {least - 1} × 400 pixels, scaled by {scale}, does not cover images of {side} × {side}"
    with pytest.raises(ValueError, match=rf"frost_dir: {message}; expected at least {least} × {least} pixels"):
        small(torch.zeros(1, 3, side, side))
    enough = farout.shift("frost", severity=1, frost_dir=save(tmp_path / "enough", a=photograph(1, least, least)))
    assert enough(torch.zeros(1, 3, side, side)).max() > 0.1
