"""Trainings inside `resumable` have a checkpoint without asking for one."""

import pytest
import torch
from torch import nn

import farout
from farout.networks.base import seeded
from farout.training import Recipe, Task, fit, resumable

IMAGES = farout.load("toy", "train", limit=96)
RECIPE = Recipe(epochs=3, batch=16, optimizer="adam", lr=1e-2, weight_decay=0.0, augment="none")


class Reconstruction(Task):
    def __init__(self):
        with seeded(0):
            self.model = nn.Sequential(nn.Conv2d(3, 4, 4, 4), nn.ReLU(), nn.ConvTranspose2d(4, 3, 4, 4))
        self.modules = {"model": self.model}
        self.steps = 0

    @property
    def identity(self):
        return "reconstruction"

    def loss(self, player, batch, context):
        self.steps += 1
        return (self.model(batch.images) - batch.images).square().mean()


class Enough(Exception):
    pass


def test_a_training_that_is_stopped_continues_from_the_folder(tmp_path):
    whole = Reconstruction()
    fit(whole, IMAGES, RECIPE)

    def stop(done, total, message):
        if done >= 10 * 16:
            raise Enough

    first, second = Reconstruction(), Reconstruction()
    with resumable(tmp_path, stop), pytest.raises(Enough):
        fit(first, IMAGES, RECIPE)
    seen = []
    with resumable(tmp_path, lambda done, total, message: seen.append(done)):
        fit(second, IMAGES, RECIPE)
    assert (whole.steps, first.steps, second.steps) == (18, 10, 8)
    assert seen[-1] == 3 * 96
    for got, expected in zip(second.model.parameters(), whole.model.parameters(), strict=True):
        assert torch.equal(got, expected)


@pytest.mark.parametrize("place", ["identity", "position", "content", "weights"])
def test_a_damaged_checkpoint_is_named_and_not_used(tmp_path, caplog, place):
    with resumable(tmp_path, lambda *told: None):
        fit(Reconstruction(), IMAGES, RECIPE)
    (file,) = tmp_path.iterdir()
    content = bytearray(file.read_bytes())
    at = len(content) - 3 if place == "weights" else content.index(place.encode()) + len(place) + 8
    content[at] ^= 1
    file.write_bytes(content)
    again = Reconstruction()
    with resumable(tmp_path, lambda *told: None):
        fit(again, IMAGES, RECIPE)
    assert again.steps == 18
    assert f"{file.name} is damaged" in caplog.text
