"""gram against explicit Gram matrices and loops over classes; its traps; its sign; its place in a panel."""

from __future__ import annotations

import copy
import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.metrics import roc_auc_score
from torch import Tensor, nn

from farout import ImageSet, Network, Panel
from farout.core import Activations, NotFitted
from farout.detectors import Gram
from farout.networks.statistics import grams
from farout.rng import numpy_generator

Bounds = dict[tuple[Any, ...], tuple[float, float]]


class Small(nn.Module):
    """Two stages, the second one signed; it counts the images that pass."""

    block_names = ("first", "second")

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Sequential(nn.Conv2d(3, 6, 3), nn.ReLU(inplace=True))
        self.second = nn.Conv2d(6, 5, 3, 2)
        self.linear = nn.Linear(5, 3)
        self.passed = 0

    def forward(self, x: Tensor) -> Tensor:
        self.passed += len(x)
        logits: Tensor = self.linear(self.second(self.first(x)).relu().mean((2, 3)))
        return logits


def pixels(total: int, seed: int = 0, spread: float = 0.5) -> Tensor:
    """Gray levels of their own, and noise."""
    source = torch.Generator().manual_seed(seed)
    levels = torch.rand(total, 3, 1, 1, generator=source)
    return (levels + spread * (torch.rand(total, 3, 9, 9, generator=source) - 0.5)).clamp(0, 1)


def network() -> Network:
    """All three classes are predicted for such pixels."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        module = Small()
    net = Network(module, mean=0.5, std=0.25)
    with torch.no_grad():
        logits = net(pixels(500, 9)).logits
        module.linear.bias -= logits.mean(0)
    module.passed = 0
    return net


def labels_of(total: int) -> list[int]:
    return [i % 3 for i in range(total)]


def images(total: int, seed: int = 0, **options: Any) -> ImageSet:
    return ImageSet.from_arrays(pixels(total, seed, **options), np.array(labels_of(total)), name="images")


def explicit(net: Network, x: Tensor, orders: Sequence[int]) -> tuple[list[int], list[dict[tuple[Any, ...], float]]]:
    """Predicted classes, and every image's g by block, order and channel: the matrices written out."""
    with torch.no_grad():
        seen = net(x, needs={"blocks"})
    values: list[dict[tuple[Any, ...], float]] = [{} for _ in x]
    for name, block in seen.blocks.items():
        for row, output in zip(values, block.double().numpy(), strict=True):
            places = output.reshape(len(output), -1)
            for order in orders:
                for channel, line in enumerate(places**order @ (places**order).T):
                    total = math.fsum(line)
                    row[name, order, channel] = math.copysign(abs(total) ** (1 / order), total)
    return seen.logits.argmax(1).tolist(), values


def outside(value: float, low: float, high: float) -> float:
    if value < low:
        return (low - value) / max(abs(low), 1e-6)
    return (value - high) / max(abs(high), 1e-6) if value > high else 0.0


def slow_gram(net: Network, train: Tensor, test: Tensor, orders: Sequence[int], seed: int) -> list[float]:
    classes, values = explicit(net, train, orders)
    held = set(numpy_generator(seed, "gram").choice(len(train), len(train) // 10, replace=False).tolist())
    kept = [(classes[i], values[i]) for i in range(len(train)) if i not in held]
    bounds: Bounds = {}
    for label in range(3):
        for key in values[0]:
            inside = [row[key] for predicted, row in kept if predicted == label]
            bounds[label, key] = min(inside), max(inside)

    def deviations(predicted: int, row: dict[tuple[Any, ...], float]) -> dict[str, float]:
        parts: dict[str, list[float]] = {name: [] for name in net.block_names}
        for key, value in row.items():
            parts[key[0]].append(outside(value, *bounds[predicted, key]))
        return {name: math.fsum(part) for name, part in parts.items()}

    of_held = [deviations(classes[i], values[i]) for i in held]
    expected = {name: math.fsum(one[name] for one in of_held) / len(held) for name in net.block_names}
    assert all(expected.values()), "the reference says nothing of blocks that never deviate"
    found = [deviations(predicted, row) for predicted, row in zip(*explicit(net, test, orders), strict=True)]
    return [math.fsum(one[name] / expected[name] for name in one) for one in found]


@pytest.mark.parametrize(("orders", "seed"), [((1, 2, 3, 4, 5), 0), ((1, 2, 3, 4, 5), 7), ((3,), 0), ([5, 1], 0)])
def test_gram_is_the_deviation_of_explicit_matrices(orders: Sequence[int], seed: int) -> None:
    net, train, test = network(), images(200), torch.cat([pixels(30, 1), pixels(30, 2, spread=2.0)])
    scores = Panel(net, {"gram": Gram(orders=orders, seed=seed)}).fit(train).score(test)["gram"]
    assert scores.dtype == np.float64
    expected = slow_gram(net, pixels(200), test, list(orders), seed)
    assert np.median(expected) > 0
    np.testing.assert_allclose(scores, expected, rtol=1e-6, atol=1e-12)


def beyond(value: float, low: float, high: float) -> float:
    """The deviation as OpenOOD divides it."""
    return max(low - value, 0) / abs(low + 1e-6) + max(value - high, 0) / abs(high + 1e-6)


def slow_main(net: Network, train: Tensor, labels: Sequence[int], test: Tensor, seed: int) -> list[float]:
    """OpenOOD's main: bounds and expected deviations by label, a tenth of each class held out, divided by max p."""
    orders = (1, 2, 3, 4, 5)
    _, values = explicit(net, train, orders)
    rng, kept, held = numpy_generator(seed, "gram"), dict[int, list[int]](), dict[int, list[int]]()
    for label in sorted(set(labels)):
        of_class = [place for place, known in enumerate(labels) if known == label]
        drawn = {of_class[i] for i in rng.choice(len(of_class), int(0.1 * len(of_class)), replace=False)}
        kept[label], held[label] = [i for i in of_class if i not in drawn], sorted(drawn)

    def deviation(label: int, row: dict[tuple[Any, ...], float], block: str) -> float:
        parts = []
        for key, value in row.items():
            inside = [values[i][key] for i in kept[label]]
            parts.append(beyond(value, min(inside), max(inside)))
        return math.fsum(part for key, part in zip(row, parts, strict=True) if key[0] == block)

    expected = {
        block: np.mean([deviation(label, values[i], block) for label in held for i in held[label]])
        for block in net.block_names
    }
    with torch.no_grad():
        confidence = net(test).logits.double().softmax(1).amax(1).tolist()
    found = zip(*explicit(net, test, orders), confidence, strict=True)
    return [sum(deviation(c, row, block) / expected[block] for block in expected) / p for c, row, p in found]


@pytest.mark.parametrize("seed", [0, 3])
def test_the_openood_variant_is_the_arithmetic_of_its_main(seed: int) -> None:
    net, test = network(), torch.cat([pixels(12, 1), pixels(12, 2, spread=2.0)])
    scores = Panel(net, {"gram": Gram(variant="openood", seed=seed)}).fit(images(60)).score(test)["gram"]
    expected = slow_main(net, pixels(60), labels_of(60), test, seed)
    assert min(expected) >= 0
    assert np.median(expected) > 0
    np.testing.assert_allclose(scores, expected, rtol=1e-6)


def test_the_openood_variant_finds_images_of_another_kind_and_v1_5_takes_them_for_inliers() -> None:
    """Main has the sign of the paper; the tag v1.5 reads the deviation as confidence."""
    net, train = network(), images(600, 1, spread=0.2)
    panel = Panel(net, {v: Gram(variant=v) for v in ("openood", "openood-1.5")}).fit(train)
    inside, outside = (panel.score(pixels(150, seed, spread=s)) for seed, s in ((2, 0.2), (3, 2.0)))
    found = {v: roc_auc_score([0] * 150 + [1] * 150, np.concatenate([inside[v], outside[v]])) for v in inside}
    assert found["openood"] > 0.9
    assert found["openood-1.5"] < 0.1


def test_the_openood_1_5_variant_is_its_arithmetic() -> None:
    """Bounds by label over all channels, sums over channels against them, no split, 50, and the sign of confidence."""
    net, test, orders = network(), torch.cat([pixels(20, 1), pixels(20, 2, spread=2.0)]), (1, 2, 3, 4, 5)
    scores = Panel(net, {"gram": Gram(variant="openood-1.5")}).fit(images(100)).score(test)["gram"]
    _, values = explicit(net, pixels(100), orders)
    expected = []
    for predicted, row in zip(*explicit(net, test, orders), strict=True):
        parts = []
        for name in net.block_names:
            for order in orders:
                of_class = [
                    value
                    for one, label in zip(values, labels_of(100), strict=True)
                    for key, value in one.items()
                    if label == predicted and key[:2] == (name, order)
                ]
                total = math.fsum(value for key, value in row.items() if key[:2] == (name, order))
                parts.append(beyond(total, min(of_class), max(of_class)))
        expected.append(-math.fsum(parts) / 50)
    assert min(expected) < max(expected) <= 0
    np.testing.assert_allclose(scores, expected, rtol=1e-6)


def reading(values: Tensor, classes: Tensor | Sequence[int] | None = None, count: int = 3) -> Activations:
    """Rows of one block of five equal orders and as many channels as values has columns, and the class predicted."""
    predicted = torch.zeros(len(values), dtype=torch.long) if classes is None else torch.as_tensor(classes)
    logits = torch.nn.functional.one_hot(predicted, count).float()
    return Activations(logits, values.float(), grams={"block": values.double()[:, None].repeat(1, 5, 1)})


def held_out(total: int, seed: int = 0) -> Tensor:
    return torch.from_numpy(numpy_generator(seed, "gram").choice(total, total // 10, replace=False))


def two_to_four(held: float, total: int = 40) -> Tensor:
    """One channel: 2 and 4 in turn, `held` on the images held out."""
    values = torch.tensor([2.0, 4.0]).repeat(total // 2)[:, None]
    values[held_out(total)] = held
    return values


def test_gram_in_figures() -> None:
    detector = Gram(orders=(2,)).fit(reading(two_to_four(5.0)), None)
    scores = detector.score(reading(torch.tensor([[1.0], [2.0], [3.0], [4.0], [6.0], [-2.0]])))
    assert detector.fitted("expected:block").item() == 0.25
    assert scores.tolist() == [2.0, 0.0, 0.0, 0.0, 2.0, 8.0]


def test_negative_bounds_divide_by_their_size() -> None:
    detector = Gram(orders=(1,)).fit(reading(-two_to_four(5.0)), None)
    assert detector.score(reading(torch.tensor([[-6.0], [-1.0]]))).tolist() == [2 / 4 / 0.25, 1 / 2 / 0.25]


def test_a_block_whose_held_out_images_stay_inside_counts_by_its_deviation() -> None:
    detector = Gram(orders=(1, 4)).fit(reading(two_to_four(3.0)), None)
    assert detector.fitted("expected:block").item() == 1
    assert detector.score(reading(torch.tensor([[1.0], [6.0]]))).tolist() == [1.0, 1.0]


def test_channels_that_are_dead_for_a_class_divide_by_a_millionth() -> None:
    values = torch.cat([two_to_four(3.0), torch.zeros(40, 1)], 1)
    scores = Gram(orders=(1,)).fit(reading(values), None).score(reading(torch.tensor([[3.0, 0.0], [3.0, 1e-3]])))
    assert scores.tolist() == [0.0, pytest.approx(1e-3 / 1e-6, rel=1e-6)]


def test_a_class_that_is_never_predicted_has_the_bounds_of_all() -> None:
    values = torch.rand(200, 4, generator=torch.Generator().manual_seed(0))
    classes = [2 * (i % 2) for i in range(200)]
    values[[i for i in range(200) if classes[i] == 2]] += 10
    detector = Gram().fit(reading(values, classes), None)
    low, high = detector.fitted("low:block"), detector.fitted("high:block")
    torch.testing.assert_close(low[1], low[0], rtol=0, atol=0)
    torch.testing.assert_close(high[1], high[2], rtol=0, atol=0)
    between = reading(torch.full((3, 4), 5.0), [0, 1, 2])
    assert (detector.score(between) > 0).tolist() == [True, False, True]


def test_images_that_made_the_bounds_do_not_leave_them() -> None:
    values = torch.randn(300, 7, generator=torch.Generator().manual_seed(0))
    classes = torch.arange(300) % 3
    scores = Gram().fit(reading(values, classes), None).score(reading(values, classes))
    held = torch.zeros(300, dtype=torch.bool)
    held[held_out(300)] = True
    assert (scores[~held] == 0).all()
    assert scores[held].mean().item() == pytest.approx(1, rel=1e-12)


def test_long_tables_have_the_bounds_of_all_their_rows() -> None:
    values = torch.randn(2600, 3, generator=torch.Generator().manual_seed(0))
    classes = torch.randint(3, (2600,), generator=torch.Generator().manual_seed(1))
    detector = Gram(seed=4).fit(reading(values, classes), None)
    kept = torch.ones(2600, dtype=torch.bool)
    kept[held_out(2600, 4)] = False
    for label in range(3):
        rows = values[kept & (classes == label)].double()
        assert detector.fitted("low:block")[label, 0].tolist() == rows.amin(0).tolist()
        assert detector.fitted("high:block")[label, 4].tolist() == rows.amax(0).tolist()


def test_the_seed_decides_who_is_held_out_and_nothing_else_does() -> None:
    table = reading(torch.randn(100, 3, generator=torch.Generator().manual_seed(0)))
    states = [Gram(seed=seed).fit(table, None).state for seed in (0, 0, 1)]
    again = Gram(seed=1).fit(table, None).fit(table, torch.zeros(100)).state
    assert all(torch.equal(states[0][key], states[1][key]) for key in states[0])
    assert not torch.equal(states[0]["expected:block"], states[2]["expected:block"])
    assert all(torch.equal(states[2][key], again[key]) for key in again)


def test_gram_finds_images_of_another_kind() -> None:
    """The paper's sign: smooth images are the inliers, and noise and checks leave their range."""
    net, train = network(), images(600, 1, spread=0.2)
    inliers, noise = pixels(150, 2, spread=0.2), pixels(150, 3, spread=2.0)
    checks = (pixels(150, 4, spread=0.2) + 0.5 * (torch.arange(81).view(9, 9) % 2 - 0.5)).clamp(0, 1)
    panel = Panel(net, [Gram()]).fit(train)
    inside = panel.score(inliers)["gram"]
    for outliers in (noise, checks):
        scores = np.concatenate([inside, panel.score(outliers)["gram"]])
        assert roc_auc_score([0] * 150 + [1] * 150, scores) > 0.95


def test_gram_shares_the_pass_of_all() -> None:
    net = network()
    panel = Panel(net, ["msp", Gram(), "mds"]).fit(images(130))
    assert net.module.passed == 130
    panel.score(pixels(70, 3))
    assert net.module.passed == 200


@pytest.mark.parametrize(
    "detector",
    [Gram(), Gram(orders=(2, 4), seed=3), Gram(variant="openood"), Gram(variant="openood-1.5")],
    ids=repr,
)
def test_a_saved_gram_is_the_same(detector: Gram, tmp_path: Path) -> None:
    net, test = network(), pixels(40, 3, spread=1.0)
    panel = Panel(net, {"mine": detector}).fit(images(130))
    panel.save(tmp_path / "panel.safetensors")
    loaded = Panel.load(tmp_path / "panel.safetensors", net)
    assert loaded.detectors["mine"] == detector
    np.testing.assert_array_equal(loaded.score(test)["mine"], panel.score(test)["mine"])
    assert Gram(**json.loads(json.dumps(detector.params))) == detector


def test_gradients_of_gram_are_those_of_finite_differences() -> None:
    maps = 1 + torch.rand(900, 3, 2, 2, generator=torch.Generator().manual_seed(0)).double()
    logits = torch.eye(3)[torch.arange(900) % 3]
    train = Activations(logits, logits, grams={"block": grams(maps)})
    detector = Gram().fit(train, None)

    def score(x: Tensor) -> Tensor:
        return detector.score(Activations(logits[: len(x)], logits[: len(x)], grams={"block": grams(x)}))

    between = (maps[2:3] + maps[5:6]) / 2  # an image of training may lie on a bound, where there is a kink
    given = torch.cat([0.5 * maps[:1], 1.7 * maps[1:2], between]).requires_grad_()
    assert (score(given) > 0).tolist() == [True, True, False]
    assert torch.autograd.gradcheck(score, (given,))


def test_gradients_reach_images_through_gram_past_dead_channels() -> None:
    net, given = network(), pixels(8, 5, spread=2.0).requires_grad_()
    net.module.first[0].bias.data[0] = -100  # this channel never lives
    panel = Panel(net, [Gram()]).fit(images(130))
    (gradient,) = torch.autograd.grad(panel["gram"].score(given).sum(), given)
    assert gradient.isfinite().all()
    assert (gradient != 0).any()
    precise, step = copy.deepcopy(net).double(), 1e-7 * (pixels(8, 6, spread=2.0).double() - 0.5)
    with torch.no_grad():
        ends = [precise(given.double() + side * step, needs={"grams"}) for side in (-1, 1)]
    before, after = (panel.detectors["gram"].score(end) for end in ends)
    torch.testing.assert_close((after - before) / 2, (gradient.double() * step).sum((1, 2, 3)), rtol=1e-3, atol=1e-9)


@pytest.mark.parametrize("variant", ["paper", "openood", "openood-1.5"])
def test_no_images_give_no_scores(variant: Any) -> None:
    scores = (
        Gram(variant=variant).fit(reading(two_to_four(5.0)), torch.zeros(40).long()).score(reading(torch.ones(0, 1)))
    )
    assert scores.shape == (0,)
    assert scores.dtype == torch.float64


@pytest.mark.parametrize("orders", [(), (0, 1), (1, 6), (1, 1), (1.5,), ("1",), (True,)])
def test_impossible_orders_are_refused(orders: Any) -> None:
    with pytest.raises(ValueError, match="orders must be different numbers out of 1 to 5, at least one, got"):
        Gram(orders=orders)


@pytest.mark.parametrize("bad", [math.nan, math.inf])
@pytest.mark.parametrize("place", ["held out", "kept"])
def test_activations_that_are_not_finite_cannot_be_learned_from(bad: float, place: str) -> None:
    values, held = two_to_four(5.0), held_out(40).tolist()
    values[held[0] if place == "held out" else min(set(range(40)) - set(held))] = bad
    detector = Gram()
    with pytest.raises(ValueError, match="the blocks to fit on gave NaN or infinity"):
        detector.fit(reading(values), None)
    with pytest.raises(NotFitted):
        detector.score(reading(values))


def test_nan_stays_in_its_row() -> None:
    detector = Gram().fit(reading(two_to_four(5.0)), None)
    assert detector.score(reading(torch.tensor([[3.0], [math.nan], [7.0]]))).isnan().tolist() == [False, True, False]


def test_what_gram_cannot_work_with_is_said() -> None:
    table = reading(two_to_four(5.0))
    with pytest.raises(ValueError, match=r"variant must be one of paper, openood, openood-1\.5, got 'old'"):
        Gram(variant="old")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="at least 10 training images, to hold out a tenth of them, got 9"):
        Gram().fit(table[:9], None)
    for variant in ("openood", "openood-1.5"):
        with pytest.raises(ValueError, match=f"variant='{variant}' needs the class of every training image"):
            Gram(variant=variant).fit(table, None)
    for wrong in (-1, 3):
        with pytest.raises(ValueError, match=f"gram: labels run from {wrong} to {wrong}, the network has 3 classes"):
            Gram(variant="openood").fit(table, torch.full((40,), wrong))
    with pytest.raises(ValueError, match="holds out a tenth of each class, and no class has 10 training images"):
        Gram(variant="openood").fit(table[:18], torch.arange(18) % 2)
    with pytest.raises(ValueError, match="reads the blocks' Gram matrices, and these activations have none"):
        Gram().fit(Activations(torch.zeros(20, 3), torch.zeros(20, 2)), None)
    with pytest.raises(NotFitted, match="gram is not fitted: call fit on the inliers' train split"):
        Gram().score(table)
