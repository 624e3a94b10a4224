"""Parts of the cost of trainings: a few steps of the training loop, on images of noise."""

from __future__ import annotations

import copy
from collections.abc import Callable

import numpy as np
import torch

from farout.core import ImageSet
from farout.data.arrays import ArraySet
from farout.detectors.catalog import create_any
from farout.detectors.trained.detector import Inputs, TrainedDetector, TrainingSets
from farout.networks.base import seeded
from farout.study.cells.fit_detector import DetectorFitCell
from farout.study.cells.train import TrainCell, TrainedNetwork, TrainingCell
from farout.study.cells.train_generator import TrainGeneratorCell
from farout.study.estimates.parts import (
    PASS,
    TRAINING,
    Part,
    Shape,
    Trial,
    architecture,
    batch_size,
    load,
    noise,
    pixels,
)
from farout.training import Classifier, Recipe, Task, fit

STEPS = 2
"""Steps of a trial."""
OTHER = 6.0
"""Rough number of passes that a step of another training takes per image."""
LARGER = 4
"""Times as many images as in other trials are in a step, if the recipe has as many: its optimizer works once a step."""
VALIDATED = 2
"""Images that a trial validates on; the validation of a classifier is counted as passes."""


def training_part(cell: TrainingCell) -> Part:
    """Return a training of a network or of a generator; its unit is an image of a step."""
    shape, recipe = cell.train.about.shape, shortened(cell.recipe, cell.train.about.shape)
    if type(cell) is TrainCell:
        of = architecture(TrainedNetwork(cell), shape)

        def classifier(device: torch.device) -> Task:
            network = copy.deepcopy(load(of, device))
            return Classifier(network, _images(VALIDATED, shape, cell.classes))

        trial = _trial(classifier, shape, recipe, lambda: cell.classes)
        return Part("training", f"{of} {recipe}", TRAINING * PASS * pixels(shape), trial)
    if isinstance(cell, TrainGeneratorCell):

        def generator(device: torch.device) -> Task:
            return cell.untrained().task(_images(VALIDATED, shape, 2), cell.objective.preview(), seed=0)

        trial = _trial(generator, shape, recipe, lambda: max(2, getattr(cell.untrained(), "classes", 0)))
        name = str([cell.identity["generator"], cell.objective.identity(), recipe])
        return Part("training", name, OTHER * PASS * pixels(shape), trial)
    return Part("training", cell.label, OTHER * PASS * pixels(shape))


def detector_part(cell: DetectorFitCell, detector: TrainedDetector, shape: Shape, classes: int) -> Part:
    """Return the training of a detector; its unit is an image of a step."""
    recipe = shortened(detector.changed_recipe(), shape)

    def task(device: torch.device) -> Task:
        made = create_any(cell.spec.name, **cell.spec.params)
        assert isinstance(made, TrainedDetector)
        few = _images(VALIDATED, shape, classes)
        outliers = None if made.outliers == "unused" else _images(recipe.batch, shape, 0)
        with seeded(0):
            made.modules = made.build(Inputs(shape[0], shape[1], classes))
        return made.task(TrainingSets(_images(STEPS * recipe.batch, shape, classes), few, outliers))

    name = str([cell.own, recipe, classes])
    return Part("training", name, OTHER * PASS * pixels(shape), _trial(task, shape, recipe, lambda: classes))


def shortened(recipe: Recipe, shape: Shape) -> Recipe:
    """Return the recipe of a trial: a few steps of few images, at a low rate that diverges nowhere."""
    return recipe.changed(
        steps=STEPS, batch=min(recipe.batch, LARGER * batch_size(shape)), seed=0, lr=1e-6, final_lr=0.0,
        schedule="constant", milestones=(), warmup_steps=0, warmup_epochs=0.0,
    )  # fmt: skip


def _trial(
    make: Callable[[torch.device], Task], shape: Shape, recipe: Recipe, classes: Callable[[], int]
) -> Callable[[torch.device, int], Trial]:
    def trial(device: torch.device, fitted: int) -> Trial:
        task = make(device)
        lengths = [name for stage in task.stages for name in ("steps", "epochs") if name in stage.changes]
        if lengths:
            raise ValueError("its stages have lengths of their own")
        turn = recipe.batch * recipe.accumulate * max(p.steps for one in task.stages for p in task.players(one.name))
        images = _images(STEPS * turn, shape, classes())
        weights = sum(t.nbytes for module in task.modules.values() for t in module.state_dict().values())
        call = lambda: fit(task, images, recipe, device=device, progress=lambda *_: None)  # noqa: E731
        return Trial(call, STEPS * recipe.batch * len(task.stages), weights)

    return trial


def _images(count: int, shape: Shape, classes: int) -> ImageSet:
    labels = np.arange(count) % classes if classes else None
    return ArraySet(noise(count, shape).numpy(), labels, classes=tuple(map(str, range(classes))), name="noise")
