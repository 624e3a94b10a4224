"""What every attack promises: bounds, what it asks of the network, randomness by image, and clear refusals."""

import dataclasses
import math
from typing import Any

import pytest
import torch

from farout import attacks
from farout.attacks import APGDCE, APGDT, ATTACKS, FGSM, PGD, DeepFool, MaskedPGD, Target
from farout.attacks.attack import epsilon_for
from farout.networks.network import Network
from helpers.victims import convolutional, generators, pixels, predicted, random_affine

EVERY = [FGSM(), PGD(steps=7), MaskedPGD(side=4, steps=7), DeepFool(steps=9), APGDCE(steps=9), APGDT(steps=9)]
BOUNDED = [FGSM, PGD, MaskedPGD, APGDCE, APGDT]
SHAPES = [(3, 8, 8), (1, 8, 8), (3, 7, 12)]
every_attack = pytest.mark.parametrize("attack", EVERY, ids=lambda attack: attack.name)
every_shape = pytest.mark.parametrize("shape", SHAPES, ids=str)


def case(shape=(3, 8, 8), count=6, seed=0):
    target, images = convolutional(shape[0]), pixels(count, shape, seed)
    images[0, :, :3], images[1, :, :3] = 0, 1
    return target, images, predicted(target, images)


def run(attack, target, images, labels, indices=None, seed=0):
    return attack.run(target, images, labels, generators(indices or range(len(images)), seed))


@every_attack
@every_shape
def test_images_stay_images(attack, shape):
    target, images, labels = case(shape)
    given = images.clone()
    found = run(attack, target, images, labels)
    assert torch.equal(images, given)
    assert found.shape == images.shape
    assert found.dtype == torch.float32
    assert not found.requires_grad
    assert found.min() >= 0
    assert found.max() <= 1
    assert ((found - images).flatten(1).abs().amax(1) > 0).all()
    assert all(parameter.grad is None for parameter in target.network.parameters())


@pytest.mark.parametrize("kind", BOUNDED, ids=lambda kind: kind.name)
@pytest.mark.parametrize("epsilon", [0.0, 2 / 255, 0.1])
@every_shape
def test_no_pixel_leaves_the_ball(kind, epsilon, shape):
    options = {} if kind is FGSM else {"steps": 6}
    target, images, labels = case(shape)
    found = run(kind(epsilon=epsilon, **options, **({"side": 5} if kind is MaskedPGD else {})), target, images, labels)
    change = (found - images).abs().max()
    assert change <= epsilon + 1e-7
    assert change >= min(epsilon, 0.06) * 0.3


@pytest.mark.parametrize(("side", "epsilon"), [(32, 8 / 255), (64, 8 / 255), (65, 4 / 255)])
def test_bounds_follow_the_size_of_images(side, epsilon):
    target, images = convolutional(1), torch.full((1, 1, side, 5), 0.5)
    found = run(FGSM(), target, images, predicted(target, images))
    assert epsilon_for(images, None) == epsilon
    assert float((found - images).abs().max()) == pytest.approx(epsilon, abs=1e-7)


@every_shape
def test_outside_the_patch_every_bit_stays(shape):
    target, images, labels = case(shape)
    attack = MaskedPGD(side=5, steps=20, step=0.2)
    outside = attack.outside(images, generators(range(6))).expand_as(images)
    found = run(attack, target, images, labels)
    assert torch.equal(found[outside].view(torch.int32), images[outside].view(torch.int32))
    assert ((found != images) & ~outside).flatten(1).any(1).all()


@every_attack
def test_an_image_knows_nothing_of_its_batch(attack):
    target, images, labels = case(count=5)
    whole = run(attack, target, images, labels)
    part = run(attack, target, images[[3, 1]], labels[[3, 1]], [3, 1])
    torch.testing.assert_close(part, whole[[3, 1]], atol=1e-5, rtol=0)


@every_attack
def test_the_same_generators_give_the_same_images(attack):
    target, images, labels = case()
    first, second, other = (run(attack, target, images, labels, seed=seed) for seed in (0, 0, 1))
    assert torch.equal(first, second)
    assert torch.equal(first, other) == isinstance(attack, FGSM | DeepFool)


@every_attack
def test_no_global_generator_is_read_or_changed(attack):
    target, images, labels = case()
    torch.manual_seed(1)
    state = torch.get_rng_state()
    first = run(attack, target, images, labels)
    assert torch.equal(torch.get_rng_state(), state)
    torch.manual_seed(2)
    assert torch.equal(run(attack, target, images, labels), first)


@every_attack
def test_gradients_flow_where_the_caller_has_them_off(attack):
    target, images, labels = case()
    expected = run(attack, target, images, labels)
    with torch.no_grad():
        assert torch.equal(run(attack, target, images, labels), expected)
    with torch.inference_mode():
        assert torch.equal(run(attack, target, images.clone(), labels.clone()), expected)


@every_attack
def test_passes_are_at_most_as_many_as_told(attack):
    target, images, labels = case()
    seen = []
    run(attack, dataclasses.replace(target, on_pass=seen.append), images, labels)
    most = len(images) * attack.passes(5)
    assert sum(seen) == most if isinstance(attack, FGSM | PGD | MaskedPGD) else 0 < sum(seen) <= most


@every_attack
def test_no_images_are_no_problem(attack):
    target, images, labels = case()
    assert run(attack, target, images[:0], labels[:0]).shape == (0, 3, 8, 8)


WRONG = [
    (FGSM, {"epsilon": -0.1}),
    (FGSM, {"epsilon": math.nan}),
    (FGSM, {"loss": "hinge"}),
    (PGD, {"loss": "dlr"}),
    (MaskedPGD, {"loss": ""}),
    (PGD, {"epsilon": math.inf}),
    (PGD, {"steps": 0}),
    (PGD, {"steps": 2.5}),
    (PGD, {"step": 0.0}),
    (PGD, {"step": math.nan}),
    (MaskedPGD, {"side": 0}),
    (MaskedPGD, {"epsilon": -1.0}),
    (MaskedPGD, {"step": -0.01}),
    (MaskedPGD, {"steps": 0}),
    (DeepFool, {"steps": 0}),
    (DeepFool, {"candidates": 1}),
    (DeepFool, {"overshoot": -0.02}),
    (DeepFool, {"overshoot": math.nan}),
    (APGDCE, {"epsilon": -1.0}),
    (APGDCE, {"steps": 0}),
    (APGDCE, {"restarts": 0}),
    (APGDT, {"targets": 0}),
    (APGDT, {"steps": 0}),
]


@pytest.mark.parametrize(("kind", "options"), WRONG, ids=str)
def test_settings_out_of_range_are_refused(kind, options):
    ((name, value),) = options.items()
    with pytest.raises(ValueError, match=rf"^{name} must be .*got {value!r}"):
        kind(**options)


@every_attack
def test_what_does_not_suit_is_refused(attack):
    target, images, labels = case()
    one, _, _ = random_affine(1, (3, 8, 8))
    with pytest.raises(ValueError, match=r"at least \d classes, got one with 1"):
        run(attack, one, images, torch.zeros_like(labels))
    with pytest.raises(ValueError, match="labels run from 0 to 5, the network has 5 classes"):
        run(attack, target, images, torch.arange(6))
    with pytest.raises(ValueError, match=r"labels of shape \[5\] and 6 generators"):
        run(attack, target, images, labels[:5])
    with pytest.raises(ValueError, match=r"labels of shape \[6\] and 5 generators"):
        run(attack, target, images, labels, range(5))


@pytest.mark.parametrize("shape", [(3, 7, 12), (3, 12, 7)], ids=str)
def test_a_patch_larger_than_the_image_is_refused(shape):
    target, images, labels = case(shape)
    with pytest.raises(ValueError, match=rf"side of 8 px, larger than .* {shape[1]}×{shape[2]} px"):
        run(MaskedPGD(), target, images, labels)


def test_the_targeted_loss_needs_four_classes():
    target, _, _ = random_affine(3, (3, 8, 8))
    with pytest.raises(ValueError, match="at least 4 classes, got one with 3"):
        run(APGDT(), target, *case()[1:])


@every_attack
def test_a_gradient_that_is_no_number_is_told(attack):
    class Root(torch.nn.Module):
        """The slope of the root of 0 is infinite."""

        def __init__(self):
            super().__init__()
            self.linear = torch.nn.Linear(192, 5)

        def forward(self, images):
            return self.linear((images - images.detach()).sqrt().flatten(1))

    target = Target(Network(Root(), mean=[0.0] * 3, std=[1.0] * 3, head="linear", blocks=()))
    images = torch.full((2, 3, 8, 8), 0.2)
    with pytest.raises(ValueError, match="holds NaN or infinity"):
        run(attack, target, images, predicted(target, images))


def test_all_are_known_by_name():
    made = {name: attacks.create(name) for name in ATTACKS}
    assert {"fgsm", "pgd", "masked_pgd", "deepfool", "apgd_ce", "apgd_t"} <= set(attacks.names())
    assert all(attack.name == name for name, attack in made.items())
    assert attacks.create("pgd", epsilon=0.1).label == "pgd(epsilon=0.1)"


@pytest.mark.parametrize(("epsilon", "number"), [("8/255", 8 / 255), ("0.1", 0.1), (1, 1.0), (None, None)])
def test_epsilon_may_be_a_fraction(epsilon: Any, number: float | None) -> None:
    assert ATTACKS.create("pgd", epsilon=epsilon).params["epsilon"] == number


@pytest.mark.parametrize("name", ["fgsm", "pgd", "masked_pgd", "apgd_ce", "adaptive_pgd", "score_pgd"])
@pytest.mark.parametrize(("epsilon", "said"), [(8, "did you mean 8/255"), ("a", "got 'a'"), (-0.1, "from 0 to 1")])
def test_an_epsilon_that_is_no_share_of_the_pixels_range(name: str, epsilon: Any, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        ATTACKS.create(name, epsilon=epsilon)
