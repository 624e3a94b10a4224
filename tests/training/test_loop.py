"""The loop against plain torch: steps, optimizers, accumulation, moving averages, players, streams, augmentation."""

from __future__ import annotations

import copy
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from farout.core import ImageSet
from farout.networks import Network
from farout.rng import generator
from farout.training import Batch, Classifier, Context, Recipe, Stage, StageHistory, Task, fit
from farout.training.augment import augment, augmentations
from farout.training.feed import Feed
from helpers.small_tasks import OUTLIERS, TRAIN, VAL, Exposed, Gan, built, network, trained

PLAIN = {"epochs": 2, "batch": 16, "augment": "none"}


def smooth() -> Network:
    """A classifier without batch norm and dropout."""
    layers = lambda: nn.Sequential(nn.Flatten(), nn.Linear(64, 8), nn.Tanh(), nn.Linear(8, 2))  # noqa: E731
    return built(lambda: Network(layers(), mean=[0.5], std=[0.5], side=8))


def plain_loop(net: Network, recipe: Recipe, optimizer: torch.optim.Optimizer) -> list[dict[str, Tensor]]:
    """The same steps without the loop; the weights after each of them."""
    weights, per_epoch, step = [], 6, 0
    net.train()
    for epoch in range(2):
        order = torch.randperm(len(TRAIN), generator=generator(recipe.seed, "train", epoch))
        for indices in order.tensor_split(per_epoch):
            for group in optimizer.param_groups:
                group["lr"] = recipe.lr_at(step, per_epoch)
            logits, labels = net(TRAIN.batch(indices)).logits, torch.as_tensor(TRAIN.labels)[indices]
            optimizer.zero_grad()
            F.cross_entropy(logits, labels, label_smoothing=recipe.label_smoothing).backward()
            if recipe.clip is not None:
                nn.utils.clip_grad_norm_(net.parameters(), recipe.clip)
            optimizer.step()
            weights.append(copy.deepcopy(net.state_dict()))
            step += 1
    return weights


class Last(Classifier):
    """A classifier of which the last epoch is kept."""

    stages = (Stage(),)


@pytest.mark.parametrize(
    ("changes", "make"),
    [
        ({}, lambda p: torch.optim.SGD(p, 0.1, 0.9, weight_decay=5e-4, nesterov=True)),
        ({"momentum": 0.0}, lambda p: torch.optim.SGD(p, 0.1, weight_decay=5e-4)),
        ({"nesterov": False, "clip": 0.05}, lambda p: torch.optim.SGD(p, 0.1, 0.9, weight_decay=5e-4)),
        (
            {"optimizer": "adam", "lr": 0.01, "betas": (0.5, 0.9), "eps": 1e-6, "label_smoothing": 0.1},
            lambda p: torch.optim.Adam(p, 0.01, (0.5, 0.9), 1e-6, weight_decay=5e-4),
        ),
        (
            {"optimizer": "adamw", "lr": 0.01, "weight_decay": 0.3, "schedule": "milestones", "milestones": (1, 1.5)},
            lambda p: torch.optim.AdamW(p, 0.01, weight_decay=0.3),
        ),
    ],
)
def test_steps_are_those_of_a_plain_loop_bit_for_bit(changes: dict[str, Any], make: Any) -> None:
    recipe, reference, ours = Recipe(**PLAIN, **changes, seed=5), smooth(), smooth()
    fit(Last(ours, VAL), TRAIN, recipe)
    expected = plain_loop(reference, recipe, make(reference.parameters()))[-1]
    assert all(torch.equal(value, expected[key]) for key, value in ours.state_dict().items())
    assert not torch.equal(ours.state_dict()["1.weight"], smooth().state_dict()["1.weight"])


def test_the_last_decimal_of_lars_is_its_own() -> None:
    lars = pytest.importorskip("farout.training.lars").LARS
    recipe, reference, ours = Recipe(**PLAIN, optimizer="lars", lr=1.0, trust=0.01), smooth(), smooth()
    fit(Last(ours, VAL), TRAIN, recipe)
    optimizer = lars(reference.parameters(), lr=1.0, momentum=0.9, weight_decay=5e-4, trust=0.01)
    expected = plain_loop(reference, recipe, optimizer)[-1]
    assert all(torch.equal(value, expected[key]) for key, value in ours.state_dict().items())


def test_a_caller_that_disabled_gradients_gets_the_same_weights() -> None:
    expected = trained("gan")[0]
    with torch.no_grad():
        weights = trained("gan")[0]
        assert not torch.is_grad_enabled()
    assert all(torch.equal(weights[key], value) for key, value in expected.items())


def test_a_history_names_its_validation_figure() -> None:
    (history,) = fit(Classifier(smooth(), VAL), TRAIN, Recipe(**PLAIN))
    assert history.figure == "validation accuracy"


@pytest.mark.parametrize("accumulate", [2, 4])
def test_accumulated_passes_equal_one_large_batch(accumulate: int) -> None:
    """90 images: the passes are of unequal size."""
    small, large = smooth().double(), smooth().double()
    images = Doubled(TRAIN)
    fit(Last(small, VAL_DOUBLE), images, Recipe(epochs=2, batch=8, accumulate=accumulate, augment="none"))
    fit(Last(large, VAL_DOUBLE), images, Recipe(epochs=2, batch=8 * accumulate, augment="none"))
    for ours, theirs in zip(small.state_dict().values(), large.state_dict().values(), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-12, atol=1e-14)


class Doubled(ImageSet):
    """A set in float64."""

    def __init__(self, images: ImageSet) -> None:
        self.images, self.name, self.labels = images, images.name, images.labels
        self.classes, self.shape = images.classes, images.shape

    def __len__(self) -> int:
        return len(self.images)

    def batch(self, indices: Any) -> Tensor:
        return self.images.batch(indices).double()

    def _fingerprint(self) -> str:
        return self.images.fingerprint


VAL_DOUBLE = Doubled(VAL)


@pytest.mark.parametrize(("start", "ramp"), [(0, 0.0), (4, 0.0), (0, 0.2)])
def test_the_moving_average_is_its_recursion(start: int, ramp: float) -> None:
    recipe = Recipe(**PLAIN, ema=0.8, ema_start=start, ema_ramp=ramp)
    reference, ours = smooth(), smooth()
    expected = {key: value.double() for key, value in reference.state_dict().items()}
    optimizer = torch.optim.SGD(reference.parameters(), 0.1, 0.9, weight_decay=5e-4, nesterov=True)
    for step, weights in enumerate(plain_loop(reference, recipe, optimizer), start=1):
        decay = 0.0 if step < start else min(0.8, 0.5 ** (1 / (ramp * step))) if ramp else 0.8
        expected = {key: decay * expected[key] + (1 - decay) * value.double() for key, value in weights.items()}
    fit(Last(ours, VAL), TRAIN, recipe)
    for key, value in ours.state_dict().items():
        torch.testing.assert_close(value.double(), expected[key], rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("buffers", ["copy", "average"])
def test_buffers_of_the_average_are_copied_or_averaged(buffers: str) -> None:
    plain, ours = network(), network()
    fit(Last(plain, VAL), TRAIN, Recipe(**PLAIN))
    fit(Last(ours, VAL), TRAIN, Recipe(**PLAIN, ema=0.9, ema_buffers=buffers))
    assert torch.equal(plain.module.body[1].running_mean, ours.module.body[1].running_mean) == (buffers == "copy")
    assert torch.equal(plain.module.body[1].num_batches_tracked, ours.module.body[1].num_batches_tracked)
    assert not torch.equal(plain.module.linear.weight, ours.module.linear.weight)


def test_players_take_turns_on_images_of_their_own() -> None:
    _, (history,), task = trained("gan")
    assert isinstance(task, Gan)
    by_step: dict[int, list[tuple[str, tuple[int, ...]]]] = {}
    for player, step, indices, _ in task.calls:
        by_step.setdefault(step, []).append((player, indices))
    for calls in by_step.values():
        assert [player for player, _ in calls] == ["critic", "critic", "generator"]
        assert calls[0][1] == calls[2][1]
        assert not set(calls[0][1]) & set(calls[1][1])
        assert {len(indices) for _, indices in calls} == {16}
    assert sorted(by_step) == list(range(8))
    assert {player: len(losses) for player, losses in history.losses.items()} == {
        "critic": 4, "penalty": 4, "generator": 4,
    }  # fmt: skip
    assert [loss is None for loss in history.losses["penalty"]] == [False, False, True, False]  # steps 0, 3 and 6 of 8
    assert {(player, grad) for player, *_, grad in task.calls} == {("critic", False), ("generator", True)}


def test_an_epoch_uses_every_image_once_and_a_dropped_rest_never() -> None:
    seen = Counter[int]()
    for drop_last, sizes in ((False, {15}), (True, {16})):
        feed = Feed(TRAIN, Recipe(**PLAIN, drop_last=drop_last), 1, torch.device("cpu"))
        feed.begin(0, {})
        parts = [feed.step(turn, 0)[0] for turn in range(feed.per_epoch)]
        assert {len(part) for part in parts} == sizes
        seen = Counter(torch.cat(parts).tolist())
        assert set(seen.values()) == {1}
        assert len(seen) == feed.used == (80 if drop_last else 90)


def test_a_stream_goes_round_in_an_order_of_its_own() -> None:
    task = Exposed(network(), VAL, OUTLIERS)
    feed = Feed(TRAIN, Recipe(**PLAIN), 1, torch.device("cpu"))
    orders = []
    for epoch in (0, 1):
        feed.begin(epoch, task.streams)
        found = [feed.batch(feed.step(0, 0)[0], turn, 0).streams["outliers"].indices for turn in range(100)]
        assert {len(part) for part in found} == {7}
        orders.append(torch.cat(found).tolist())
        for place in range(0, 700, 50):
            assert sorted(orders[-1][place : place + 50]) == list(range(50))
    assert orders[0][:50] != orders[0][50:100]
    assert orders[0] != orders[1]


def test_too_few_images_are_refused() -> None:
    with pytest.raises(ValueError, match=r"has 90 images, and one turn takes 1 batches of 128, all of them full"):
        Feed(TRAIN, Recipe(epochs=1, drop_last=True), 1, torch.device("cpu"))
    with pytest.raises(ValueError, match="the stream 'outliers' has no images"):
        fit(Exposed(network(), VAL, OUTLIERS.subset([])), TRAIN, Recipe(**PLAIN))


def test_a_shift_that_draws_nothing_changes_half_of_the_images() -> None:
    images = TRAIN.batch(np.arange(90))
    flipped = augment(images, augmentations(["flip"]), seed=3)
    rounded = images.mul(255).round().div(255)
    changed = [not torch.equal(one, before) for one, before in zip(flipped, images, strict=True)]
    assert 30 < sum(changed) < 60
    assert all(
        torch.allclose(one, before.flip(2))
        for one, before, moved in zip(flipped, rounded, changed, strict=True)
        if moved
    )
    assert torch.equal(flipped, augment(images, augmentations(["flip"]), seed=3))
    assert not torch.equal(flipped, augment(images, augmentations(["flip"]), seed=4))


class Recorder(Task):
    """Records where it is; of its stages the first keeps its worst epoch and stops early."""

    stages = (Stage("first", keep="min"), Stage("second", {"steps": 3, "lr": 0.5, "threads": 1}, keep="max"))
    figure = "number"

    def __init__(self) -> None:
        self.modules = {"line": built(lambda: nn.Linear(64, 1))}
        self.seen: list[Any] = []
        self.numbers = iter([3.0, 1.0, 2.0, 0.0, 5.0])
        self.kept: list[Tensor] = []

    @property
    def identity(self) -> str:
        return "recorder"

    def loss(self, player: str, batch: Batch, context: Context) -> Tensor:
        at = context.position
        self.seen.append((at.stage, at.epoch, at.step, at.steps, context.recipe.lr, torch.get_num_threads()))
        return self.modules["line"](batch.images.flatten(1)).square().mean()

    def validate(self, context: Context) -> float:
        self.kept.append(self.modules["line"].weight.detach().clone())
        return next(self.numbers)

    def stops(self, history: StageHistory) -> bool:
        return history.stage == "first" and history.epochs == 3


def test_stages_follow_each_other_from_the_weights_that_were_kept() -> None:
    task, calls = Recorder(), list[tuple[int, int, str]]()
    recipe = Recipe(epochs=9, batch=45, lr=0.01, augment="none", threads=2)
    first, second = fit(task, TRAIN, recipe, progress=lambda *call: calls.append(call))
    steps = [("first", epoch, 2 * epoch + turn, 18, 0.01, 2) for epoch in range(3) for turn in range(2)]
    steps += [("second", 0, 0, 3, 0.5, 2), ("second", 0, 1, 3, 0.5, 2), ("second", 1, 2, 3, 0.5, 2)]
    assert task.seen == steps
    assert (first.figures, first.best_epoch, second.figures, second.best_epoch) == ([3.0, 1.0, 2.0], 1, [0.0, 5.0], 1)
    assert torch.equal(task.modules["line"].weight, task.kept[4])
    assert calls[0][:2] == (45, 9 * 90 + 135)
    assert calls[-1] == (9 * 90 + 135, 9 * 90 + 135, "second, epoch 2/2: number 5.0000")


def test_bf16_passes_compute_in_bf16_and_keep_float32_weights() -> None:
    kinds: set[torch.dtype] = set()

    class Watched(Last):
        def loss(self, player: str, batch: Batch, context: Context) -> Tensor:
            kinds.add(self.network(batch.images, needs=()).logits.dtype)
            return super().loss(player, batch, context)

    net = smooth()
    fit(Watched(net, VAL), TRAIN, Recipe(**PLAIN, autocast="bf16"))
    assert kinds == {torch.bfloat16}
    assert {value.dtype for value in net.state_dict().values()} == {torch.float32}


@pytest.mark.parametrize(
    ("answer", "error", "words"),
    [
        (None, ValueError, "Silent keeps its best epoch, but its validate returned None"),
        (float("nan"), FloatingPointError, "the validation accuracy became nan after epoch 1"),
    ],
)
def test_a_validation_figure_must_be_there_and_a_number(answer: Any, error: type[Exception], words: str) -> None:
    class Silent(Classifier):
        def validate(self, context: Context) -> Any:
            return answer

    with pytest.raises(error, match=words):
        fit(Silent(network(), VAL), TRAIN, Recipe(**PLAIN))


def test_weights_that_end_in_infinity_are_named_and_a_constant_mask_is_not() -> None:
    class Exploding(Task):
        identity = "exploding"

        def __init__(self) -> None:
            self.modules = {"net": nn.Linear(2, 2)}
            self.modules["net"].register_buffer("mask", torch.tensor([0.0, -torch.inf]))

        def loss(self, player: str, batch: Batch, context: Context) -> Tensor:
            return factor * self.modules["net"].weight.sum()

    one_step = Recipe(steps=1, augment="none", lr=10.0)
    factor = 1.0
    fit(Exploding(), TRAIN, one_step)
    factor = 1e38
    with pytest.raises(FloatingPointError, match=r"infinite: net/weight; lr=10.0 is probably too high: try 1$"):
        fit(Exploding(), TRAIN, one_step)


def test_the_task_of_the_docs_can_be_trained() -> None:
    text = (Path(__file__).parents[2] / "docs" / "training.md").read_text()
    code = text.split("```python\n")[1].split("```")[0].replace(', checkpoint="ae.checkpoint"', "")
    names: dict[str, Any] = {"val": VAL, "train": TRAIN}
    exec(code.replace("\nfit(", "\n(history,) = fit("), names)
    errors = names["history"].figures
    assert len(errors) == 10
    assert min(errors) < errors[0]
