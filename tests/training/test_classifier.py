"""The training loop: it learns, it repeats to the bit, it goes on where it stopped, and it refuses what cannot work."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from farout import networks
from farout.core import ImageSet
from farout.networks import Network
from farout.rng import generator


class Tiny(nn.Module):
    """Two convolutions with batch norms, dropout and a linear head."""

    side = 16

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(1, 8, 3, 2, 1),
            nn.BatchNorm2d(8),
            nn.ReLU(),
            nn.Conv2d(8, 16, 3, 2, 1),
            nn.BatchNorm2d(16),
            nn.ReLU(),
        )
        self.dropout, self.linear = nn.Dropout(0.1), nn.Linear(16, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.linear(self.dropout(self.body(x).mean((2, 3))))


def tiny(seed: int = 0) -> Network:
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return Network(Tiny(), mean=0.5, std=0.5)


def stripes(count: int, seed: int) -> ImageSet:
    """16×16 gray images of stripes: their direction and width are the class."""
    rng = np.random.default_rng(seed)
    labels = np.arange(count) % 4
    phase = rng.uniform(0, 6, count)
    axis = np.arange(16)
    waves = np.sin(axis * np.where(labels % 2, 0.8, 2.0)[:, None] + phase[:, None])
    images = np.where((labels < 2)[:, None, None], waves[:, :, None], waves[:, None, :]) * np.ones((1, 16, 16))
    noisy = 0.5 + 0.3 * images + rng.normal(0, 0.1, images.shape)
    return ImageSet.from_arrays((noisy.clip(0, 1) * 255).astype(np.uint8), labels, name="stripes")


TRAIN, VAL = stripes(600, 0), stripes(200, 1)
OPTIONS = {"epochs": 4, "lr": 0.05, "batch": 64}


class Stop(Exception):
    pass


def stop_after(epochs: int) -> Callable[[int, int, str], None]:
    def progress(done: int, total: int, message: str) -> None:
        if done == epochs * len(TRAIN) and "validation" in message:
            raise Stop

    return progress


def same(first: Network, second: Network) -> bool:
    pairs = zip(first.state_dict().values(), second.state_dict().values(), strict=True)
    return all(torch.equal(a, b) for a, b in pairs)


def test_it_learns() -> None:
    network = tiny()
    history = networks.train(network, TRAIN, VAL, epochs=10, lr=0.1, batch=64)
    assert not network.training
    assert history.best_accuracy > 0.95
    assert networks.accuracy(network, VAL) == history.best_accuracy == max(history.accuracies)
    assert history.losses[-1] < history.losses[0] / 2


def test_steps_are_those_of_torchs_own_loop() -> None:
    network, reference = tiny(), tiny().eval()
    network.module.dropout.p = reference.module.dropout.p = 0.0
    small = TRAIN.limit(96)
    networks.train(network, small, VAL, epochs=1, batch=32, lr=0.05, augment="none", seed=3)
    optimizer = torch.optim.SGD(reference.parameters(), lr=0.05, momentum=0.9, weight_decay=5e-4, nesterov=True)
    order = torch.randperm(96, generator=generator(3, "train", 0))
    reference.train()
    for step in range(3):
        for group in optimizer.param_groups:
            group["lr"] = 0.05 / 2 * (1 + np.cos(np.pi * step / 3))
        part = order[32 * step : 32 * (step + 1)].numpy()
        loss = F.cross_entropy(reference(small.batch(part)).logits, torch.as_tensor(small.labels[part]))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    for ours, theirs in zip(network.state_dict().values(), reference.state_dict().values(), strict=True):
        torch.testing.assert_close(ours, theirs)


def test_equal_seeds_give_equal_weights_and_others_do_not() -> None:
    first, second, third = tiny(), tiny(), tiny()
    networks.train(first, TRAIN, VAL, **OPTIONS)
    torch.rand(3)
    networks.train(second, TRAIN, VAL, **OPTIONS)
    networks.train(third, TRAIN, VAL, **OPTIONS, seed=1)
    assert same(first, second)
    assert not same(first, third)


def test_no_global_generator_is_changed() -> None:
    before = torch.get_rng_state()
    networks.train(tiny(), TRAIN, VAL, epochs=1)
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("epochs", [1, 3])
def test_an_interrupted_run_ends_in_the_same_weights(tmp_path: Path, epochs: int) -> None:
    whole, halted, anew = tiny(), tiny(), tiny()
    expected = networks.train(whole, TRAIN, VAL, **OPTIONS)
    file = tmp_path / "folder" / "run.safetensors"
    with pytest.raises(Stop):
        networks.train(halted, TRAIN, VAL, **OPTIONS, checkpoint=file, progress=stop_after(epochs))
    assert same(halted, tiny()), "an interrupted call leaves the network as it was given"
    assert [path.name for path in file.parent.iterdir()] == [file.name]
    seen: list[int] = []
    got = networks.train(anew, TRAIN, VAL, **OPTIONS, checkpoint=file, progress=lambda done, *_: seen.append(done))
    assert min(seen) > epochs * len(TRAIN), "finished epochs are not trained again"
    assert got == expected
    assert same(anew, whole)


def test_a_finished_run_is_read_and_not_repeated(tmp_path: Path) -> None:
    first, second = tiny(), tiny()
    history = networks.train(first, TRAIN, VAL, **OPTIONS, checkpoint=tmp_path / "run")
    again = networks.train(second, TRAIN, VAL, **OPTIONS, checkpoint=tmp_path / "run", progress=stop_after(4))
    assert again == history
    assert same(first, second)


@pytest.mark.parametrize("other", ["lr", "data", "network", "frozen", "damage"])
def test_a_checkpoint_of_another_run_is_not_used(tmp_path: Path, other: str) -> None:
    file = tmp_path / "run"
    with pytest.raises(Stop):
        networks.train(tiny(), TRAIN, VAL, **OPTIONS, checkpoint=file, progress=stop_after(2))
    options, data, network = dict(OPTIONS), TRAIN, tiny()
    if other == "lr":
        options["lr"] = 0.02
    elif other == "data":
        data = stripes(600, 2)
    elif other == "network":
        network = tiny(seed=1)
    elif other == "frozen":
        network.module.linear.bias.requires_grad_(False)
    else:
        file.write_bytes(file.read_bytes()[:200])
    seen: list[int] = []
    networks.train(network, data, VAL, **options, checkpoint=file, progress=lambda done, *_: seen.append(done))
    assert seen[0] <= 64


def test_of_equally_good_epochs_the_last_is_kept() -> None:
    history = networks.History((3.0, 2.0, 1.0), (0.5, 0.7, 0.7))
    assert history.best_epoch == 2
    assert history.best_accuracy == 0.7


def test_progress_counts_images_up_to_the_total() -> None:
    calls: list[tuple[int, int, str]] = []
    networks.train(tiny(), TRAIN, VAL, epochs=2, batch=256, progress=lambda *call: calls.append(call))
    assert [done for done, _, _ in calls] == [200, 400, 600, 600, 800, 1000, 1200, 1200]
    assert {total for _, total, _ in calls} == {1200}
    assert calls[3][2].startswith("epoch 1/2: validation accuracy 0.")


def test_frozen_parameters_stay() -> None:
    network = tiny()
    network.module.body[0].weight.requires_grad_(False)
    networks.train(network, TRAIN, VAL, epochs=1)
    assert torch.equal(network.module.body[0].weight, tiny().module.body[0].weight)
    assert not torch.equal(network.module.linear.weight, tiny().module.linear.weight)


def test_a_loss_that_is_no_number_says_what_to_do() -> None:
    network = tiny()
    with pytest.raises(FloatingPointError, match=r"loss became .*; lr=1e\+18 is probably too high: try 1e\+17"):
        networks.train(network, TRAIN, VAL, epochs=3, lr=1e18)
    assert same(network, tiny())


@pytest.mark.parametrize("lr", [1e9, 1e18, 1e38])
def test_divergence_in_the_last_step_says_what_to_do(lr: float) -> None:
    """The loss of the only step is that of the initial weights; the weights after it are useless."""
    network = tiny()
    with pytest.raises(FloatingPointError, match=r"became .*; lr=.* is probably too high: try 1e\+"):
        networks.train(network, TRAIN, VAL, epochs=1, batch=600, lr=lr)
    assert same(network, tiny())


def unlabeled(images: ImageSet, labels: np.ndarray | None) -> ImageSet:
    return ImageSet.from_arrays(images.batch(np.arange(len(images))).numpy(), labels, name="other")


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (None, "training set 'other' has no labels"),
        (np.full(600, 2), "all 600 images of the training set 'other' have the label 2"),
        (np.arange(600) % 7, r"labels from 0 to 6, the network has 4 classes \(0 to 3\); create it with classes=7"),
    ],
)
def test_labels_that_cannot_be_learned_are_refused(labels: np.ndarray | None, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        networks.train(tiny(), unlabeled(TRAIN, labels), VAL, epochs=1)


def test_an_empty_validation_set_is_refused() -> None:
    with pytest.raises(ValueError, match="validation set 'stripes' is empty"):
        networks.train(tiny(), TRAIN, VAL.subset([]), epochs=1)


def test_accuracy_counts_the_right_answers() -> None:
    network = tiny()
    with torch.inference_mode():
        right = network(VAL.batch(np.arange(200))).logits.argmax(1).numpy() == VAL.labels
    assert networks.accuracy(network, VAL) == right.mean()
