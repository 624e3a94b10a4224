"""ATOM and ROWL: mining, the attack, the score, and the switch."""

from __future__ import annotations

import pytest
import torch

import farout
from farout.detectors.trained import atom
from farout.detectors.trained.atom import ATOM, MinedClassifier, window
from farout.detectors.trained.background import attack, background
from farout.detectors.trained.detector import Inputs, TrainingSets
from farout.detectors.trained.inner_attack import maximize
from farout.detectors.trained.rowl import ROWL, OpenWorldClassifier
from farout.networks import create
from farout.training import Batch, Context, Position, Recipe

TRAIN, OTHERS = farout.load("toy", "train").limit(40), farout.load("toy", "test/ood_pair").limit(40)
TINY = {"epochs": 1, "batch": 16}


def context(seed: int = 0) -> Context:
    return Context(Position("", 0, 0, 1, 1), Recipe(epochs=1, augment="none"), {}, torch.device("cpu"), seed)


def test_a_window_leaves_out_the_lowest_and_keeps_the_next() -> None:
    scores = torch.arange(16.0).flip(0)  # index i has rank 15 − i
    assert window(scores, 0.125, 4).tolist() == [13, 12, 11, 10]
    assert window(scores, 0.0, 2).tolist() == [15, 14]
    assert window(scores[:13], 0.125, 0).tolist() == [11]  # 1.625 ranks are one rank; one score at least


def mining(**params: float) -> MinedClassifier:
    detector = ATOM(layers=1, **params)
    torch.manual_seed(0)
    detector.modules = detector.build(Inputs(3, 32, 4))
    task = detector.task(TrainingSets(TRAIN, TRAIN, OTHERS))
    assert isinstance(task, MinedClassifier)
    return task


def test_mining_keeps_the_outliers_in_a_window_of_ranks_of_the_background_probability() -> None:
    task = mining()
    with torch.no_grad():
        logits = task.network.eval()(OTHERS.batch(range(40))).logits
    order = logits.double().softmax(1)[:, 4].argsort().tolist()
    task.network.train()
    task.start_epoch(context())
    assert sorted(task.mined.tolist()) == sorted(order[5:15])
    assert task.network.training
    stream = task.streams["outliers"]
    assert torch.equal(stream.images.batch([0]), OTHERS.batch(task.mined[:1].numpy()))


def test_a_pool_is_drawn_anew_in_every_epoch_and_restored_from_a_state() -> None:
    task, other = mining(pool=8, mined=0.5), mining(pool=8, mined=0.5)
    task.start_epoch(context())
    first = task.mined
    task.start_epoch(context(seed=1))
    assert len(first) == len(task.mined) == 4
    assert sorted(first.tolist()) != sorted(task.mined.tolist())
    other.load_state(task.state())
    assert torch.equal(other.mined, task.mined)


def test_the_attack_raises_the_cross_entropy_and_stays_in_the_ball() -> None:
    network, images = create("lenet", 5, 32), OTHERS.batch(range(8))
    labels = background(network, images)
    found = attack(network.train(), images, labels, 8 / 255, 5, torch.Generator().manual_seed(0))
    assert network.training
    assert (found - images).abs().max() <= 8 / 255 + 1e-6
    assert found.min() >= 0
    assert found.max() <= 1
    before, after = (network(one).logits.log_softmax(1)[:, 4] for one in (images, found))
    assert (after < before).all()


def test_half_of_the_outliers_of_a_batch_are_attacked() -> None:
    task, images = mining(), OTHERS.batch(range(8))
    batch = Batch(images, None, torch.arange(8), {"outliers": Batch(images, None, torch.arange(8))})
    found = task.select_outliers(batch, context())
    assert torch.equal(found[:4], images[:4])
    assert (found[4:] != images[4:]).flatten(1).any(1).all()
    assert (found[4:] - images[4:]).abs().max() <= 8 / 255 + 1e-6


def test_a_batch_of_the_full_preset_has_two_outliers_per_inlier() -> None:
    detector = ATOM(preset="full")
    detector.modules = ATOM(layers=1).build(Inputs(3, 32, 4))
    assert detector.task(TrainingSets(TRAIN, TRAIN, OTHERS)).streams["outliers"].batch == 128


def exposed_batch() -> tuple[Batch, torch.Tensor, torch.Tensor]:
    images, others = TRAIN.batch(range(6)), OTHERS.batch(range(4))
    labels = torch.tensor([0, 1, 2, 3, 0, 1])
    batch = Batch(images, labels, torch.arange(6), {"outliers": Batch(others, None, torch.arange(4))})
    return batch, torch.cat([images, others]), torch.cat([labels, torch.full((4,), 4)])


def test_atom_learns_classes_and_background_in_equal_parts() -> None:
    task, (batch, _, labels) = mining(), exposed_batch()
    task.network.eval()
    images = torch.cat([batch.images, task.select_outliers(batch, context())])
    losses = torch.nn.functional.cross_entropy(task.network(images).logits, labels, reduction="none")
    expected = losses[:6].mean() + losses[6:].mean()
    torch.testing.assert_close(task.loss("model", batch, context()), expected)


@pytest.mark.parametrize("fixed", [True, False])
def test_rowl_learns_clean_and_attacked_images_of_all_classes(fixed: bool) -> None:
    detector = ROWL(layers=1, steps=2, fixed=fixed)
    torch.manual_seed(0)
    detector.modules = detector.build(Inputs(3, 32, 4))
    task, (batch, images, labels) = detector.task(TrainingSets(TRAIN, TRAIN, OTHERS)), exposed_batch()
    network = detector.network.eval()
    attacked = attack(network, images, labels, 8 / 255, 2, context().generator) if fixed else images
    expected = sum(torch.nn.functional.cross_entropy(network(one).logits, labels) for one in (images, attacked))
    torch.testing.assert_close(task.loss("model", batch, context()), expected)


def test_mining_passes_over_the_pool_in_chunks_and_augments_it_as_in_training() -> None:
    task = mining()
    plain = context()
    changed = Context(plain.position, Recipe(epochs=1, augment="flip"), {}, plain.device, plain.seed)
    scores = [task.background_probabilities(torch.arange(40), one) for one in (plain, changed)]
    same = torch.isclose(*scores, rtol=1e-6, atol=0)
    assert same.any()
    assert not same.all()  # a random half of the images is mirrored


def test_every_chunk_of_the_pool_is_augmented_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(atom, "AT_ONCE", 8)
    task, plain = mining(), context()
    cropped = Context(plain.position, Recipe(epochs=1, augment="crop_flip"), {}, plain.device, plain.seed)
    first, second = task.background_probabilities(torch.zeros(16, dtype=torch.long), cropped).split(8)
    assert not torch.isclose(first, second, rtol=1e-6, atol=0).all()


def test_the_attack_is_that_of_algorithm_1_on_a_network_in_evaluation_mode() -> None:
    """Start at whole levels of noise, steps of 2/255 with the gradient's sign in the ball, the best point of each."""
    network, images = mining().network.train(), OTHERS.batch(range(6))
    labels = background(network, images)
    found = attack(network, images, labels, 8 / 255, 5, torch.Generator().manual_seed(3))
    network.eval()
    noise = (torch.rand(images.shape, generator=torch.Generator().manual_seed(3)) * 16 - 8).round() / 255
    low, high = (images - 8 / 255).clamp(min=0), (images + 8 / 255).clamp(max=1)
    point, best, highest = (images + noise).clamp(low, high), images, torch.full((6,), -torch.inf)
    for _ in range(6):
        point = point.detach().requires_grad_()
        loss = torch.nn.functional.cross_entropy(network(point).logits, labels, reduction="none")
        (slope,) = torch.autograd.grad(loss.sum(), point)
        better = loss.detach() > highest
        best = torch.where(better.view(-1, 1, 1, 1), point.detach(), best)
        highest = torch.where(better, loss.detach(), highest)
        point = (point.detach() + slope.sign() * 2 / 255).clamp(low, high)
    torch.testing.assert_close(found, best, rtol=0, atol=1e-6)


def test_the_inner_attack_keeps_a_start_that_no_step_betters() -> None:
    """Three steps of 0.15 along the loss −|x − 0.41|, from 0.4, which is best, and from 0."""
    mean = torch.nn.Linear(4, 2)
    torch.nn.init.constant_(mean.weight, 0.25)
    torch.nn.init.zeros_(mean.bias)
    network = farout.Network(torch.nn.Sequential(torch.nn.Flatten(), mean), mean=[0.0], std=[1.0], side=2)
    start = torch.tensor([0.4, 0.0]).view(2, 1, 1, 1).expand(2, 1, 2, 2)
    bounds = torch.zeros_like(start), torch.ones_like(start)
    found = maximize(network, lambda logits: -(logits[:, 0] - 0.41).abs(), start, bounds, step=0.15, steps=3)
    torch.testing.assert_close(found.mean((1, 2, 3)), torch.tensor([0.4, 0.45]))


@pytest.mark.parametrize("kind", [ATOM, ROWL])
def test_the_score_is_the_background_probability_or_its_logit(kind: type[ATOM | ROWL]) -> None:
    detector = kind(layers=1, steps=1, training=TINY).fit(TRAIN, auxiliary_outliers=OTHERS)
    images = OTHERS.batch(range(8))
    logits = detector.network(images).logits.double()
    assert logits.shape == (8, 5)
    torch.testing.assert_close(detector.score(images), logits.softmax(1)[:, 4])
    other = kind(layers=1, scoring="logit")
    other.load_state_dict(detector.state_dict())
    torch.testing.assert_close(other.score(images), logits[:, 4])


def test_the_faithful_form_of_rowl_trains_on_clean_images_twice() -> None:
    weights = []
    for fixed in (True, False):
        detector = ROWL(layers=1, steps=1, count=20, fixed=fixed, training=TINY)
        task = detector.fit(TRAIN, auxiliary_outliers=OTHERS).task(TrainingSets(TRAIN, TRAIN, OTHERS))
        assert isinstance(task, OpenWorldClassifier)
        images = OTHERS.batch(range(4))
        found = task.attacked(images, background(task.network, images), torch.Generator().manual_seed(0))
        assert torch.equal(found, images) != fixed
        assert len(task.streams["outliers"].images) == 20
        assert task.streams["outliers"].batch == 8  # 16 inliers of 40 come with 8 outliers of 20
        weights.append(detector.network.module.linear.weight)
    assert not torch.equal(*weights)


def test_fractions_of_the_pool_are_checked() -> None:
    with pytest.raises(ValueError, match=r"a sum of at most 1, got 0\.5 and 0\.75"):
        ATOM(quantile=0.5, mined=0.75)
