"""Every trained detector that is interrupted in its training continues to the same weights."""

from pathlib import Path

import pytest

import farout
from farout.detectors import TrainedDetector, names_of
from farout.rng import numpy_generator
from farout.training import resumable
from helpers.tiny_sizes import SIZES

SETTINGS = {"epochs": 2, "batch": 16}


class Stopped(Exception):
    pass


def fit(name: str) -> TrainedDetector:
    train, val = (farout.load("toy", split, limit=48) for split in ("train", "val"))
    detector = farout.detectors.create(name, training=SETTINGS, **SIZES.get(name, {}))
    assert isinstance(detector, TrainedDetector)
    return detector.fit(train, val=val, auxiliary_outliers=farout.load("noise", limit=48), seed=1)


@pytest.mark.parametrize("name", names_of(TrainedDetector))
def test_an_interrupted_training_continues_to_the_same_weights(name: str, tmp_path: Path) -> None:
    calls: list[int] = []
    with resumable(tmp_path / "whole", lambda done, total, message: calls.append(done)):
        whole = fit(name)
    stop, seen = int(numpy_generator(0, name).integers(1, len(calls))), list[int]()

    def count(done: int, total: int, message: str) -> None:
        seen.append(done)
        if len(seen) == stop:
            raise Stopped

    with resumable(tmp_path / "stopped", count), pytest.raises(Stopped):
        fit(name)
    rest: list[int] = []
    with resumable(tmp_path / "stopped", lambda done, total, message: rest.append(done)):
        resumed = fit(name)
    assert len(rest) < len(calls), "it does not start again"
    assert resumed.digest == whole.digest
