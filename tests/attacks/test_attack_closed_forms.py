"""On affine classifiers the gradient is known, and so are the worst corner of a box and the nearest boundary."""

import itertools

import pytest
import torch

from farout.attacks import APGDCE, APGDT, FGSM, PGD, DeepFool, MaskedPGD
from farout.attacks.deepfool import LEAST
from helpers.victims import affine, generators, predicted, random_affine

SHAPE = (1, 4, 4)


def gray(count, seed=0, spread=0.2):
    """Images about .5, far from black and white."""
    noise = torch.rand(count, *SHAPE, generator=torch.Generator().manual_seed(seed))
    return 0.5 + spread * (noise - 0.5)


def run(attack, target, images, labels):
    return attack.run(target, images, labels, generators(range(len(images))))


def cross_entropy(weights, bias, images, labels):
    return torch.nn.functional.cross_entropy(images.flatten(1) @ weights.T + bias, labels, reduction="none")


@pytest.mark.parametrize("epsilon", [0.0, 0.01, 0.3])
@pytest.mark.parametrize("label", [0, 1])
@pytest.mark.parametrize("loss", ["cross_entropy", "odds"])
def test_fgsm_steps_along_the_difference_of_two_weights(epsilon, label, loss):
    target, weights, _ = random_affine(2)
    images, labels = gray(6), torch.full((6,), label)
    change = epsilon * (weights[1 - label] - weights[label]).sign().view(SHAPE)
    torch.testing.assert_close(
        run(FGSM(epsilon=epsilon, loss=loss), target, images, labels), images + change, atol=1e-6, rtol=0
    )


def test_fgsm_has_the_sign_of_the_expected_weight_minus_the_own():
    target, weights, bias = random_affine(5)
    images, labels = gray(8), torch.arange(8) % 5
    shares = (images.flatten(1) @ weights.T + bias).softmax(1)
    change = 0.05 * (shares @ weights - weights[labels]).sign().view(-1, *SHAPE)
    torch.testing.assert_close(run(FGSM(epsilon=0.05), target, images, labels), images + change, atol=1e-6, rtol=0)


def test_the_odds_know_the_way_where_the_cross_entropy_underflows():
    _, weights, bias = random_affine(3)
    sure, images = affine(500 * weights, 500 * bias, SHAPE), gray(6)
    labels = predicted(sure, images)
    logits = (500 * (images.flatten(1).double() @ weights.double().T + bias)).scatter(1, labels[:, None], -torch.inf)
    change = 0.05 * (logits.softmax(1) @ weights.double() - weights.double()[labels]).sign().view(-1, *SHAPE)
    lost = cross_entropy(500 * weights, 500 * bias, images, labels) == 0
    assert lost.any()
    assert not torch.equal(run(FGSM(epsilon=0.05), sure, images, labels)[lost], (images + change.float())[lost])
    torch.testing.assert_close(
        run(FGSM(epsilon=0.05, loss="odds"), sure, images, labels), images + change.float(), atol=1e-6, rtol=0
    )


@pytest.mark.parametrize(
    "attack",
    [PGD(epsilon=0.1, steps=62), PGD(epsilon=0.1, random_start=False), APGDCE(epsilon=0.1, steps=30)],
    ids=lambda attack: attack.label,
)
def test_the_worst_corner_of_the_ball_is_reached(attack):
    _, weights, _ = random_affine(2)
    far = affine(weights / 10, torch.tensor([5.0, 0.0]), SHAPE)  # no point of the ball fools it
    images, labels = gray(6, spread=1.0), torch.zeros(6, dtype=torch.int64)
    assert images.min() < 0.1
    assert images.max() > 0.9
    corner = (images + 0.1 * (weights[1] - weights[0]).sign().view(SHAPE)).clamp(0, 1)
    torch.testing.assert_close(run(attack, far, images, labels), corner, atol=1e-6, rtol=0)


@pytest.mark.parametrize("attack", [PGD(epsilon=0.2, steps=62), APGDCE(epsilon=0.2)], ids=lambda attack: attack.name)
def test_the_worst_corner_of_many_classes_is_reached(attack):
    """The cross-entropy is convex in x here, so its maximum is at a corner: all 2^8 are tried."""
    target, weights, bias = random_affine(4, (1, 2, 4), seed=3)
    weights, bias = weights / 8, bias / 8 + torch.tensor([9.0, 0.0, 0.0, 0.0])
    target, labels = affine(weights, bias, (1, 2, 4)), torch.zeros(5, dtype=torch.int64)
    images = 0.5 + 0.2 * (torch.rand(5, 1, 2, 4, generator=torch.Generator().manual_seed(1)) - 0.5)
    corners = torch.tensor(list(itertools.product([-0.2, 0.2], repeat=8))).view(-1, 1, 2, 4)
    worst = torch.stack([cross_entropy(weights, bias, images + corner, labels) for corner in corners]).amax(0)
    found = run(attack, target, images, labels)
    torch.testing.assert_close(cross_entropy(weights, bias, found, labels), worst, atol=0, rtol=1e-4)


@pytest.mark.parametrize("turned", [False, True])
def test_apgd_t_crosses_where_a_corner_does(turned):
    """Of six classes only the fifth can be reached within the ball, and is not the likeliest at first."""
    weights = torch.zeros(6, 16)
    weights[4] = torch.where(torch.arange(16) % 2 == 0, 10.0, -10.0)
    bias = torch.tensor([8.0, 5.0, 4.0, 3.0, 0.0, 2.0])
    if turned:
        weights, bias = weights.flip(0), bias.flip(0)
    target, images = affine(weights, bias, SHAPE), torch.full((3, *SHAPE), 0.5)
    labels = torch.full((3,), 5 if turned else 0)
    within, short = (
        run(APGDT(epsilon=e, steps=20), target, images, labels) for e in (8 / 160 + 0.003, 8 / 160 - 0.003)
    )
    assert (predicted(target, within) == (1 if turned else 4)).all()
    assert (predicted(target, short) == labels).all()


def test_masked_pgd_goes_to_the_corner_of_its_patch():
    _, weights, _ = random_affine(2)
    far, images = affine(weights / 10, torch.tensor([5.0, 0.0]), SHAPE), gray(5)
    attack = MaskedPGD(side=2, steps=100)
    outside = attack.outside(images, generators(range(5)))
    assert outside.logical_not().sum((1, 2, 3)).tolist() == [4] * 5
    corner = (weights[1] > weights[0]).float().view(SHAPE).expand_as(images)
    found = run(attack, far, images, torch.zeros(5, dtype=torch.int64))
    torch.testing.assert_close(found, torch.where(outside, images, corner), atol=0, rtol=0)


def test_patches_lie_everywhere():
    images = torch.zeros(400, 1, 6, 5)
    inside = ~MaskedPGD(side=4).outside(images, generators(range(400)))
    places = {tuple(patch[0].nonzero()[0].tolist()) for patch in inside}
    assert places == set(itertools.product(range(3), range(2)))
    for patch in inside:
        top, left = patch[0].nonzero()[0].tolist()
        assert patch[0, top : top + 4, left : left + 4].all()
        assert patch.sum() == 16


@pytest.mark.parametrize("classes", [2, 3, 7])
@pytest.mark.parametrize("overshoot", [0.02, 0.5])
def test_deepfool_projects_on_the_nearest_boundary(classes, overshoot):
    """For an affine classifier the step is |f_k| / ‖w_k‖ long for the k that makes it shortest, section 3."""
    target, weights, bias = random_affine(classes)
    images = gray(20)
    labels = predicted(target, images)
    found = run(DeepFool(overshoot=overshoot), target, images, labels)
    logits = images.flatten(1) @ weights.T + bias
    for image, changed, label, values in zip(images, found, labels, logits, strict=True):
        ways = weights - weights[label]
        distances = (values[label] - values) / ways.norm(dim=1)
        nearest = min((k for k in range(classes) if k != label), key=lambda k: float(distances[k]))
        way = (ways[nearest] / ways[nearest].norm()).view(SHAPE)
        expected = (image + (1 + overshoot) * (distances[nearest] + LEAST) * way).clamp(0, 1)
        assert expected.min() > 0
        assert expected.max() < 1
        torch.testing.assert_close(changed, expected, atol=2e-5, rtol=0)
    assert (predicted(target, found) != labels).all()


def test_deepfool_looks_at_its_candidates_alone():
    """The boundary to the third class is nearer, but its logit is the lowest."""
    weights = torch.zeros(3, 16)
    weights[1, 0], weights[2, 1] = 1.0, 20.0
    target = affine(weights, torch.tensor([0.7, 0.0, -10.0]), SHAPE)
    images, labels = torch.full((1, *SHAPE), 0.5), torch.zeros(1, dtype=torch.int64)
    moved = [run(DeepFool(candidates=count), target, images, labels)[0] != images[0] for count in (2, 3, 10)]
    assert [set(changed.flatten().nonzero().flatten().tolist()) for changed in moved] == [{0}, {1}, {1}]


@pytest.mark.parametrize("attack", [DeepFool(), APGDCE(), APGDT()], ids=lambda attack: attack.label)
def test_what_is_wrong_already_stays(attack):
    target, _, _ = random_affine(5)
    images = gray(10)
    labels = (predicted(target, images) + torch.arange(10) % 2) % 5
    found = run(attack, target, images, labels)
    changed = (found != images).flatten(1).any(1)
    assert changed.tolist() == [True, False] * 5
