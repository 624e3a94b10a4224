"""Auto-PGD against the paper: loss, checkpoints, a slow version of its algorithm, and what it gains over PGD."""

import math

import pytest
import torch
from torch import nn

from farout.attacks import APGDCE, APGDT, PGD, Target
from farout.attacks.apgd import dlr
from farout.attacks.ascent import ascend, checkpoints
from farout.attacks.gradients import ball, odds
from farout.networks.network import Network
from helpers.victims import convolutional, generators, pixels, predicted


@pytest.mark.parametrize("steps", [1, 2, 7, 40, 100, 1000])
def test_checkpoints_are_the_papers(steps):
    """p = 0, .22, .41, .57, .70, .80, .87, .93, .99 (section 3.1), counted in exact hundredths."""
    shares = [0, 22, 41, 57, 70, 80, 87, 93, 99]
    assert checkpoints(steps) == sorted({math.ceil(share * steps / 100) for share in shares})


def test_checkpoint_shares_follow_their_rule():
    shares = [0.0, 0.22]
    while shares[-1] < 1:
        shares.append(shares[-1] + max(shares[-1] - shares[-2] - 0.03, 0.06))
    assert [share / 10_000 for share in checkpoints(10_000)] == pytest.approx(shares[:-1], abs=1e-4)


def test_dlr_is_the_papers():
    logits = torch.randn(40, 6, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    labels, targets = torch.arange(40) % 6, (torch.arange(40) + 1 + torch.arange(40) // 6 % 5) % 6
    expected = []
    for row, y, t in zip(logits.tolist(), labels.tolist(), targets.tolist(), strict=True):
        falling = sorted(row, reverse=True)
        expected.append(-(row[y] - row[t]) / (falling[0] - (falling[2] + falling[3]) / 2))
    assert dlr(logits, labels, targets).tolist() == pytest.approx(expected, rel=1e-9)
    assert dlr(7 * logits + 3, labels, targets).tolist() == pytest.approx(expected, rel=1e-9)


def slow_apgd(loss, start, low, high, size, steps):
    """Algorithm 1 for one image, with its lists written out; the step that a restart would undo is not taken."""
    points, values, sizes, highest = [start], [loss(start)[0]], [size], []
    best, top = start, values[0]
    ends = checkpoints(steps)
    point = start
    for k in range(steps):
        _, slope = loss(point)
        z = torch.minimum(torch.maximum(point + size * slope.sign(), low), high)
        new = z if k == 0 else point + 0.75 * (z - point) + 0.25 * (point - points[-2])
        new = torch.minimum(torch.maximum(new, low), high)
        highest.append(top)
        points.append(new)
        values.append(loss(new)[0])
        sizes.append(size)
        if values[-1] > top:
            best, top = new, values[-1]
        point = new
        if k + 1 in ends[1:]:
            begin = ends[ends.index(k + 1) - 1]
            rises = sum(values[i + 1] > values[i] for i in range(begin, k + 1))
            same = sizes[begin] == size and highest[begin] == top
            if rises < 0.75 * (k + 1 - begin) or same:
                size, point = size / 2, best
                points[-1], values[-1] = best, top
    return best, top


def test_the_ascent_is_the_papers_algorithm():
    """A wavy loss that never fools: every step has to be taken, and steps are halved many times."""
    torch.manual_seed(0)
    module = nn.Sequential(nn.Flatten(), nn.Linear(12, 16), Sine(), nn.Linear(16, 3)).double()
    target = Target(_double(module))
    images = torch.rand(5, 3, 2, 2, dtype=torch.float64)
    labels = torch.zeros(5, dtype=torch.int64)
    low, high = ball(images, 0.2)
    got = ascend(target, lambda logits, rows: odds(logits, labels[rows]), labels, images, low, high, 0.4, 60)

    def loss(image):
        image = image.clone().requires_grad_()
        logits = target.logits(image[None])[0]
        value = torch.logsumexp(logits[1:], 0) - logits[0]
        return value.item(), torch.autograd.grad(value, image)[0]

    assert not got.misclassified.any()
    for i in range(5):
        best, top = slow_apgd(loss, images[i], low[i], high[i], 0.4, 60)
        assert got.loss[i].item() == pytest.approx(top, abs=1e-9)
        torch.testing.assert_close(got.images[i], best, atol=1e-9, rtol=0)


class Sine(nn.Module):
    def forward(self, values):
        return torch.sin(6 * values)


def _double(module):
    """The first class wins by far, wherever the image goes."""
    with torch.no_grad():
        module[-1].bias.copy_(torch.tensor([50.0, 0.0, 0.0]))
    return Network(module, mean=[0.0] * 3, std=[1.0] * 3, head="3", blocks=()).double()


class Watched(Target):
    """Remembers all images it was asked about."""

    def logits(self, images):
        found = super().logits(images)
        self.asked.extend(zip(images.detach().clone(), found.argmax(1).tolist(), strict=True))
        return found


@pytest.mark.parametrize("attack", [APGDCE(epsilon=0.1, steps=25), APGDT(epsilon=0.1, steps=25)], ids=str)
def test_it_stops_at_the_first_point_that_fools(attack):
    network, images = convolutional().network, pixels(12, (3, 8, 8))
    labels = predicted(Target(network), images)
    together = attack.run(Target(network), images, labels, generators(range(12)))
    stopped = 0
    for i in range(12):
        watched = Watched(network)
        object.__setattr__(watched, "asked", [])
        (found,) = attack.run(watched, images[[i]], labels[[i]], generators([i]))
        wrong = [image for image, said in watched.asked if said != labels[i]]
        assert len(wrong) <= 1
        for image in wrong:
            assert torch.equal(found, image)
            torch.testing.assert_close(together[i], image, atol=1e-5, rtol=0)
            stopped += len(watched.asked) < attack.passes(5)
    assert stopped >= 8


CLASSES, EPSILON = 8, 4 / 255


def noisy(count, seed):
    """Images of one of eight patterns under noise, 10 px."""
    patterns = torch.rand(CLASSES, 3, 10, 10, generator=torch.Generator().manual_seed(0))
    noise = torch.randn(count, 3, 10, 10, generator=torch.Generator().manual_seed(seed))
    labels = torch.arange(count) % CLASSES
    return (0.4 + 0.2 * patterns[labels] + 0.12 * noise).clamp(0, 1), labels


@pytest.fixture(scope="module")
def trained():
    """A small network that knows the patterns, and images it gets right."""
    target, (images, labels) = convolutional(classes=CLASSES), noisy(800, 1)
    optimizer = torch.optim.Adam(target.network.parameters(), 1e-2)
    for epoch in range(4):
        for batch in torch.randperm(800, generator=torch.Generator().manual_seed(epoch)).split(40):
            optimizer.zero_grad()
            nn.functional.cross_entropy(target.logits(images[batch]), labels[batch]).backward()
            optimizer.step()
    images, labels = noisy(80, 2)
    right = predicted(target, images) == labels
    assert right.sum() > 50
    return target, images[right], labels[right]


def test_apgd_climbs_higher_than_pgd(trained):
    """Where neither fools the classifier their losses compare: apgd stops where it fools, pgd goes on."""
    target, images, labels = trained
    epsilon, every = 2 / 255, generators(range(len(images)))
    by_apgd = APGDCE(epsilon=epsilon).run(target, images, labels, every)
    by_pgd = PGD(epsilon=epsilon, steps=100).run(target, images, labels, generators(range(len(images))))
    wrong, wrong_too = (predicted(target, found) != labels for found in (by_apgd, by_pgd))
    assert wrong.sum() >= wrong_too.sum()
    left = ~(wrong | wrong_too)
    assert left.sum() >= 10
    assert wrong.sum() >= 5
    with torch.no_grad():
        higher, lower = (odds(target.logits(found[left]), labels[left]) for found in (by_apgd, by_pgd))
    assert higher.mean() >= lower.mean() - 1e-5


def test_restarts_and_targets_help_or_do_nothing(trained):
    target, images, labels = trained
    some = [APGDT(epsilon=EPSILON, steps=15, targets=1), APGDT(epsilon=EPSILON, steps=15)]
    some += [APGDCE(epsilon=EPSILON, steps=15), APGDCE(epsilon=EPSILON, steps=15, restarts=3)]
    wrong = [
        predicted(target, one.run(target, images, labels, generators(range(len(images))))) != labels for one in some
    ]
    assert (wrong[1] >= wrong[0]).all()
    assert (wrong[3] >= wrong[2]).all()
    assert wrong[1].sum() > wrong[0].sum()
