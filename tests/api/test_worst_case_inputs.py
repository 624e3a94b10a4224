"""What `farout.worst_case` takes, and what it answers to what it cannot take."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from sklearn.ensemble import IsolationForest
from torch import Tensor, nn

import farout
from farout import detectors
from farout.data.scenes.scene import BACKGROUND, Scenes
from farout.search import MetropolisHastings
from farout.variations import Color
from farout.variations.composed import Composed


class Dimmer(farout.Variation):
    """Images between half as bright and as they are."""

    dim = 1

    def decode(self, z: Tensor, base: Tensor) -> Tensor:
        return (0.5 + 0.5 * z[:, :, None, None]) * base


class Box(farout.Variation):
    """Moves every number of a row by at most 1."""

    dim = 2

    def decode(self, z: Tensor, base: Tensor) -> Tensor:
        return base + 2 * z - 1


class Latent(farout.Variation):
    """Points of the unit square, of nothing."""

    dim, conditional = 2, False

    def decode(self, z: Tensor, base: Any) -> Tensor:
        return z


class Brightness(farout.Detector):
    def score(self, images: Tensor) -> Tensor:
        return images.double().mean((1, 2, 3))


def brightness(images: Tensor) -> Tensor:
    return images.double().mean((1, 2, 3))


def likeness_to_background(images: Tensor) -> Tensor:
    return -(images - BACKGROUND).abs().mean((1, 2, 3))


def total(rows: Tensor) -> Tensor:
    return rows.sum(1)


def images(count: int, seed: int = 0) -> Tensor:
    """Images that 8 bits can hold."""
    return torch.randint(256, (count, 3, 8, 8), generator=torch.Generator().manual_seed(seed)) / 255


def panel(*names: str) -> farout.Panel:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        module = nn.Sequential(nn.Flatten(), nn.Linear(192, 16), nn.ReLU(), nn.Linear(16, 3))
    val = farout.ImageSet.from_arrays(images(40, 1).numpy(), np.arange(40) % 3, "val")
    return farout.Panel(farout.Network(module, mean=0.5, std=0.25, side=8), names).fit(val=val)


def run(detector: Any = brightness, variation: Any = None, base: Any = None, **options: Any) -> farout.Found:
    given = images(5) if base is None else base
    return farout.worst_case(detector, variation or Dimmer(), given, **{"steps": 6} | options)


def test_a_set_a_tensor_and_an_array_are_the_same_base() -> None:
    base = images(70)
    stored = farout.ImageSet.from_arrays(base.numpy())
    assert stored.batch(range(70)).equal(base)
    found = [run(base=given) for given in (base, stored, base.numpy(), base.double().numpy())]
    for other in found[1:]:
        assert other.images.dtype == torch.float32
        assert other.latents.equal(found[0].latents)
        assert np.array_equal(other.scores, found[0].scores)


def test_data_that_are_no_images_keep_their_precision() -> None:
    """2**24 + 1 is no float32."""
    base = np.full((3, 2), 2.0**24 + 1)
    decoded: list[torch.dtype] = []

    def score(rows: Tensor) -> Tensor:
        decoded.append(rows.dtype)
        return (rows - torch.from_numpy(base[:1])).abs().sum(1)

    found = run(score, Box(), base, method="random", steps=50)
    assert set(decoded) == {torch.float64}
    assert found.scores.max() < 1  # each moved by less than a half: 51 draws miss with (7/8)^51 ≈ 0.1 %


def test_a_function_a_class_of_detectors_and_any_callable_are_asked_alike() -> None:
    class Callable_:  # noqa: N801
        def __call__(self, data: Tensor) -> list[float]:
            return brightness(data).tolist()

    found = [
        run(detector) for detector in (brightness, Brightness(), Callable_(), lambda data: brightness(data).numpy())
    ]
    assert all(np.array_equal(other.scores, found[0].scores) for other in found[1:])


@pytest.mark.parametrize("name", ["msp", "odin"])
def test_a_member_and_a_panel_of_one_search_with_their_validation_scores(name: str) -> None:
    one = panel(name)
    alone, member, three = run(one), run(one[name]), run(panel("msp", "ebo", "odin")[name])
    assert alone.std == pytest.approx(one.validation[name].std(), rel=1e-12)
    assert np.array_equal(alone.scores, one.score(alone.images)[name])
    assert np.array_equal(alone.scores, member.scores)
    assert np.array_equal(alone.scores, three.scores)


def test_inliers_that_are_given_go_before_validation_scores() -> None:
    inliers, member = images(30, 3), panel("ebo")["ebo"]
    found = run(member, inliers=inliers)
    assert found.std == pytest.approx(member.score(inliers).numpy().std(), rel=1e-12)
    assert found.std != run(member).std


def test_drawn_images_and_their_scenes_are_the_same_base_of_attributes() -> None:
    """The larger a figure, the less gray background: the size goes to its upper end."""
    drawn = farout.load("shapes", "test/ood_cls", limit=4)
    by_size = farout.variations.create("attributes", vary=["size"], side=32)
    scenes = by_size.base(drawn, range(4))
    assert isinstance(scenes, Scenes)
    found, same = (
        run(likeness_to_background, by_size, base, method=MetropolisHastings(temperature=0.05), steps=40)
        for base in (drawn, scenes)
    )
    assert found.latents.equal(same.latents)
    assert np.array_equal(found.scores, same.scores)
    assert found.latents.tolist() == [[1.0]] * 4


def test_settings_of_a_variation_that_is_given_as_an_object() -> None:
    base = torch.full((2, 3, 4, 4), 0.5)
    kept = Color(brightness=(0.8, 1), contrast=(1, 1), saturation=(1, 1), hue=(0, 0))
    found = run(brightness, kept, base, method=MetropolisHastings(temperature=0.01), steps=100)
    assert found.scores == pytest.approx(np.full(2, 0.4), rel=1e-6)


def test_own_variations_alone_or_composed_take_any_range() -> None:
    """A quarter of images that reach to 1000: half by each."""
    base = 1000 * images(2)
    twice = Composed(of=[Dimmer(), Dimmer()])
    found = [run(brightness, v, base, method=MetropolisHastings(temperature=0.01), steps=80) for v in (Dimmer(), twice)]
    assert found[0].scores == pytest.approx(brightness(base).numpy() / 2, rel=1e-6)
    assert found[1].scores == pytest.approx(brightness(base).numpy() / 4, rel=1e-6)
    with pytest.raises(ValueError, match="got values from 0 to 1000"):
        run(brightness, Composed(of=[Dimmer(), Color()]), base)


def nan(data: Tensor) -> Tensor:
    return torch.full((len(data),), float("nan"))


def too_few(data: Tensor) -> Tensor:
    return torch.zeros(len(data) - 1)


class Arrays(Dimmer):
    def decode(self, z: Tensor, base: Tensor) -> Any:
        return super().decode(z, base).numpy()


class Merging(Dimmer):
    def decode(self, z: Tensor, base: Tensor) -> Tensor:
        return super().decode(z, base).mean(0, keepdim=True)


HOLED = images(2).clone()
HOLED[0, 0, 0, 0] = float("nan")
WRONG: dict[str, tuple[dict[str, Any], type[Exception], str]] = {
    "several": ({"detector": panel("msp", "ebo")}, ValueError, r"panel of 2; select one: panel\['msp'\], "),
    "class": ({"detector": Brightness}, TypeError, r"got the class Brightness; create one: Brightness\(…\)"),
    "name": ({"detector": "msp"}, TypeError, r"got 'msp'; take a member of a panel: .*\['msp'\]\)"),
    "post-hoc": ({"detector": detectors.create("msp")}, TypeError, r"got MSP; take a member of a panel"),
    "network": ({"detector": panel("msp").network}, TypeError, "got Network; take a member of a panel: .*'msp'"),
    "estimator": ({"detector": IsolationForest()}, TypeError, "got IsolationForest; write a function that calls it"),
    "number": ({"detector": 3}, TypeError, "got int$"),
    "nan": ({"detector": nan}, farout.NonFiniteScores, "nan gave 256 NaN .* on data decoded by Dimmer"),
    "count": ({"detector": too_few}, ValueError, r"too_few .*returned scores of shape \(63,\) for 64"),
    "variation": ({"variation": "colour"}, ValueError, "unknown variation 'colour'. Did you mean 'color'?"),
    "variation class": ({"variation": Dimmer}, TypeError, r"got the class Dimmer; create one: Dimmer\(…\)"),
    "variation type": ({"variation": 3}, TypeError, "variation: expected a name or a Variation object, got int"),
    "search": ({"method": "mhh"}, ValueError, "unknown search 'mhh'. Did you mean 'mh'?"),
    "search class": ({"method": MetropolisHastings}, TypeError, r"create one: MetropolisHastings\(…\)"),
    "steps": ({"steps": 0}, ValueError, "steps must be a whole number of at least 1, got 0"),
    "seed": ({"seed": "a"}, TypeError, "a seed must be a whole number, got 'a'"),
    "device": ({"device": "gpu"}, ValueError, "cannot run on device 'gpu': "),
    "integers": ({"base": torch.zeros(2, 3, 4, 4, dtype=torch.int64)}, TypeError, "base: .*int64; divide 8-bit images"),
    "base nan": ({"base": HOLED}, ValueError, "base: 1 of 384 values are NaN or infinite"),
    "empty": ({"base": images(0)}, ValueError, "base is empty"),
    "empty set": ({"base": farout.ImageSet.from_arrays(images(2).numpy()).limit(0)}, ValueError, "base is empty"),
    "base name": ({"base": "shaeps"}, ValueError, "unknown data set 'shaeps'. Did you mean 'shapes'"),
    "base object": ({"base": object()}, TypeError, "base: expected images or other data .* got object"),
    "one number": ({"base": 0.5}, ValueError, r"base: expected data \[N, ...\], got a single number"),
    "chains": ({"base": 5}, TypeError, "Dimmer needs a base: give images or other data, got the number 5"),
    "no base": ({"variation": Latent(), "base": images(3)}, TypeError, "Latent has no base: give the number"),
    "no chains": ({"variation": Latent(), "base": 0}, ValueError, "at least one chain, got 0"),
    "range": ({"variation": "color", "base": 255 * images(2)}, ValueError, r"in \[0, 1\], got values from 0 to 255"),
    "one image": ({"variation": "color", "base": images(1)[0]}, ValueError, r"data of shape \(8, 8\)"),
    "inliers integers": ({"inliers": np.zeros((2, 3, 4, 4), np.int64)}, TypeError, "inliers: expected floats"),
    "inliers none": ({"inliers": images(0)}, ValueError, "2 or more inliers, got 0"),
    "inliers alike": ({"inliers": torch.ones(9, 3, 8, 8)}, ValueError, "gives all 9 inliers the score 1, so"),
    "inliers nan": ({"detector": nan, "inliers": images(9)}, farout.NonFiniteScores, "gave 9 NaN .* on the inliers"),
    "no tensor": ({"variation": Arrays()}, TypeError, "Arrays.decode must return a tensor, got ndarray"),
    "rows": ({"variation": Merging()}, ValueError, "Merging.decode returned 1 rows for 64 latents"),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_an_error_says_what_was_got_and_what_to_do(case: str) -> None:
    options, kind, message = WRONG[case]
    with pytest.raises(kind, match=message):
        run(**options)


def test_an_unfitted_detector_says_so() -> None:
    class Unfitted(farout.Detector):
        def score(self, images: Tensor) -> Tensor:
            raise farout.NotFitted("fit me first")

    with pytest.raises(farout.NotFitted, match="fit me first"):
        run(Unfitted())


def test_numbers_of_chains_may_be_numpys() -> None:
    plain, numpys = run(total, Latent(), 3), run(total, Latent(), np.int64(3))
    assert np.array_equal(plain.scores, numpys.scores)
    assert len(plain) == 3
