"""`farout.train`: train a detector, a generator or a network by name, and write its weights to a file."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from farout.api.generate import inlier_splits, splits_to_train_on
from farout.api.models import Model, model_of
from farout.core import ImageSet
from farout.data.joined import Joined
from farout.data.matched import match
from farout.devices import as_device
from farout.files import check_path
from farout.progress import Event, Listener, shown
from farout.study.sources.images import NamedImages
from farout.study.spec import Data, DataSpec, format_problems
from farout.training import resumable

SUFFIX = ".safetensors"
Source = str | Path | Mapping[str, Any]
"""Image set: a name, "name:split", the path of a file, a folder or shards, or a mapping as in a study file."""


def train(
    name: str,
    data: Source,
    out: str | Path,
    *,
    val: Source | None = None,
    outliers: Source | Sequence[Source] | None = None,
    preset: str | None = None,
    seed: int = 0,
    device: str = "cpu",
    **settings: Any,
) -> Any:
    """Train a detector, a generator or a network, write its weights to `out`, and return it.

    name: one of `farout list detectors` that is trained, `farout list generators` or `farout list networks`.
    data: training images: a name, or the path of a file, a folder or shards; its train split, or all of it. val:
        validation images; by default the data's val split, else a tenth of the training images.
    outliers: auxiliary outliers to learn from, one set or several.
    preset: "small" or "full" of a detector; a recipe by name of a network ("raised_bar_cifar").
    settings: parameters of the model (width=16), or settings of its training (epochs=3).
    Interrupted, it leaves a folder OUT.checkpoint, from which the same call continues.
    """
    with shown() as listener:
        model = plan(name, data, out, val=val, outliers=outliers, preset=preset, seed=seed, settings=settings)
        run(model, Path(out), device=device, progress=listener)
    return model.trained


def plan(
    name: str,
    data: Source,
    out: str | Path,
    *,
    val: Source | None = None,
    outliers: Source | Sequence[Source] | None = None,
    preset: str | None = None,
    seed: int = 0,
    settings: Mapping[str, Any],
) -> Model:
    """Return the model to be trained. Raise for errors that can be found before training."""
    check_out(Path(out))
    several: Sequence[Any] = outliers if isinstance(outliers, list | tuple) else [outliers] if outliers else []
    images, held_out = _inliers(data, val)
    learned = [match(NamedImages(_spec(one)).preview(), images.shape) for one in several]
    auxiliary = (Joined(learned) if len(learned) > 1 else learned[0]) if learned else None
    return model_of(name, images, held_out, auxiliary, preset, seed, dict(settings))


def check_out(path: Path) -> None:
    """Raise unless weights can be written to a new file of this name."""
    if path.suffix != SUFFIX:
        raise ValueError(f"--out takes a file that ends in {SUFFIX}, got {path}")
    if path.exists():
        raise ValueError(f"{path} is there already, and nothing is done; choose another file with --out, or delete it")


def _inliers(data: Source, val: Source | None) -> tuple[ImageSet, ImageSet]:
    """Return training and validation images."""
    try:
        spec = splits_to_train_on(_plain(data))
    except ValidationError as error:
        raise ValueError(f"the data {data} cannot be read:\n{format_problems(error)}") from None
    if val is not None:
        train = spec.train or spec.test
        return NamedImages(train).preview(), NamedImages(_spec(val)).preview()
    inliers = inlier_splits(spec, "full")
    assert inliers.train is not None
    assert inliers.val is not None
    return inliers.train.preview(), inliers.val.preview()


def _spec(images: Source) -> DataSpec:
    try:
        return TypeAdapter[DataSpec](Data).validate_python(_plain(images))
    except ValidationError as error:
        raise ValueError(f"the images {images} cannot be read:\n{format_problems(error)}") from None


def _plain(images: Source) -> Any:
    return str(images) if isinstance(images, Path) else images


def run(model: Model, out: Path, *, device: str = "cpu", progress: Listener) -> None:
    """Train a model, and write its file; an interrupted training resumes from the folder OUT.checkpoint."""
    as_device(device)
    folder = check_path(out.with_name(f"{out.name}.checkpoint"))
    folder.mkdir(parents=True, exist_ok=True)
    try:
        with resumable(folder, _Count(f"train {model.title}", progress)):
            model.fit(device)
    except BaseException:
        if not any(folder.iterdir()):
            folder.rmdir()
        raise
    model.save(out)
    shutil.rmtree(folder)


class _Count:
    """Progress of one or several trainings as events."""

    def __init__(self, title: str, listener: Listener) -> None:
        self.title, self.listener, self.done, self.total = title, listener, 0, 0

    def __call__(self, done: int, total: int, message: str) -> None:
        new = done < self.done or total != self.total
        added = total if new else 0
        self.done, before = done, 0 if new else self.done
        self.total = total
        self.listener(Event(f"{self.title}, {message}", done - before, added))
