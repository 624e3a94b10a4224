"""The same images as Foolbox's, or as good ones: FGSM and PGD pixel by pixel, DeepFool by success and size."""

import pytest
import torch

from farout.attacks import FGSM, PGD, DeepFool
from helpers.victims import convolutional, generators, pixels, predicted

foolbox = pytest.importorskip("foolbox")

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


@pytest.fixture(scope="module")
def case():
    return attacked(classes=7, count=300)


def attacked(classes, count):
    """A target, its peer, images and labels, of which a fifth is wrong from the start."""
    target, images = convolutional(classes=classes), pixels(count, (3, 10, 10))
    labels = predicted(target, images)
    labels[::5] = (labels[::5] + 1) % classes
    preprocessing = {"mean": [0.5] * 3, "std": [0.25] * 3, "axis": -3}
    peer = foolbox.PyTorchModel(target.network.module, bounds=(0, 1), preprocessing=preprocessing, device="cpu")
    return target, peer, images, labels


def run(attack, case):
    target, _, images, labels = case
    return attack.run(target, images, labels, generators(range(len(images))))


@pytest.mark.parametrize("epsilon", [1 / 255, 8 / 255, 0.3])
def test_fgsm_gives_the_same_images(case, epsilon):
    _, peer, images, labels = case
    expected = foolbox.attacks.LinfFastGradientAttack().run(peer, images, labels, epsilon=epsilon)
    torch.testing.assert_close(run(FGSM(epsilon=epsilon), case), expected, atol=1e-6, rtol=0)


@pytest.mark.parametrize("epsilon", [1 / 255, 8 / 255])
def test_pgd_gives_the_same_images(case, epsilon):
    """But for pixels whose gradient is 0 up to rounding, whose sign is anybody's."""
    _, peer, images, labels = case
    attack = foolbox.attacks.LinfPGD(rel_stepsize=1 / 30, steps=40, random_start=False)
    expected = attack.run(peer, images, labels, epsilon=epsilon)
    differs = (run(PGD(epsilon=epsilon, random_start=False), case) - expected).abs() > 1e-6
    assert differs.float().mean() < 1e-3


@pytest.mark.parametrize("epsilon", [0.5 / 255, 1 / 255])
def test_pgd_from_random_starts_fools_as_many(case, epsilon):
    target, peer, images, labels = case
    attack = foolbox.attacks.LinfPGD(rel_stepsize=1 / 30, steps=40, random_start=True)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        expected = attack.run(peer, images, labels, epsilon=epsilon)
    rates = [rate(target, some, labels) for some in (run(PGD(epsilon=epsilon), case), expected)]
    assert 0.21 < rates[1] < 0.99
    assert rates[0] == pytest.approx(rates[1], abs=0.01)


def rate(target, images, labels):
    return (predicted(target, images) != labels).float().mean().item()


def test_deepfool_counts_its_candidates_alike():
    """Of 40 classes three are looked at, the image's own among them."""
    case = attacked(classes=40, count=100)
    _, peer, images, labels = case
    expected = foolbox.attacks.L2DeepFoolAttack(steps=50, candidates=3, overshoot=0.02).run(peer, images, labels)
    sizes = [(some - images).flatten(1).norm(dim=1) for some in (run(DeepFool(candidates=3), case), expected)]
    torch.testing.assert_close(*sizes, rtol=0.01, atol=1e-5)


def test_deepfool_fools_as_many_by_as_little(case):
    target, peer, images, labels = case
    expected = foolbox.attacks.L2DeepFoolAttack(steps=50, candidates=10, overshoot=0.02).run(peer, images, labels)
    found = run(DeepFool(), case)
    rates = [rate(target, some, labels) for some in (found, expected)]
    right = predicted(target, images) == labels
    sizes = [(some - images)[right].flatten(1).norm(dim=1).median().item() for some in (found, expected)]
    assert torch.equal(found[~right], images[~right])
    assert rates[0] == pytest.approx(rates[1], abs=0.01)
    assert rates[0] > 0.9
    assert sizes[0] == pytest.approx(sizes[1], rel=0.05)
