"""Generators of a study: their sources, built from the entries of the study file."""

from __future__ import annotations

from typing import Any

from farout.generators import Generator
from farout.study.budget import LIMITS
from farout.study.cells.train_generator import TrainedGenerator, TrainGeneratorCell
from farout.study.sources.generators import GeneratorSource, ObjectiveSource, StoredGenerator
from farout.study.sources.images import ImageSource
from farout.study.spec import SPLIT, Budget, GeneratorSpec, suggest_plugin
from farout.training import Recipe


def generator_from(
    spec: GeneratorSpec,
    train: ImageSource | None,
    like: ImageSource,
    budget: Budget,
    seed: int,
    label: str,
    objective: ObjectiveSource | None = None,
) -> GeneratorSource:
    """Return the source of a generator: from a file, or trained on images with an objective.

    like: images whose shape it makes. Raise for errors that can be found before training.
    """
    shape = like.about.shape
    with suggest_plugin():
        generator = spec.untrained(shape)
    if generator.classes and "classes" not in spec.params and train is not None:
        spec = spec.with_params({"classes": len(train.about.classes) if train.about.labeled else 0})
    if spec.weights:
        stored = StoredGenerator(spec, spec.label or label, shape)
        stored.identity()  # reads the weights, so that a wrong file is found before any work
        return stored
    if train is None:
        raise ValueError(f"{label}: a generator is to be trained, but there are no training images; {SPLIT}")
    if train.about.shape != shape:
        raise ValueError(f"{label}: the training images have the shape {train.about.shape}, expected {shape}")
    recipe = _within(generator.recipe(**{**spec.train, "seed": seed}), LIMITS[budget].epochs, train)
    trained = spec.without(generator.sampling)
    cell = TrainGeneratorCell(trained, spec.label or label, objective or ObjectiveSource(), recipe, train)
    return TrainedGenerator(cell, _sampling(generator, trained.untrained(shape)))


def _sampling(generator: Generator, default: Generator) -> dict[str, Any]:
    """Return the parameters of sampling that differ from the defaults."""
    return {name: value for name in generator.sampling if (value := generator.params[name]) != default.params[name]}


def _within(recipe: Recipe, epochs: int | None, images: ImageSource) -> Recipe:
    """Return the recipe with at most `epochs` epochs; unchanged for None."""
    return recipe if epochs is None else recipe.shortened(epochs, recipe.steps_per_epoch(images.about.total))


def recipe_cuts(generator: GeneratorSource, title: str) -> list[str]:
    """Return the part of a generator's training that the budget leaves out, as a line of text; none if it is whole."""
    if not isinstance(generator, TrainedGenerator):
        return []
    recipe, whole = generator.cell.recipe, generator.preview().recipe(**generator.cell.spec.train)
    now, full = (recipe.epochs, whole.epochs) if whole.steps is None else (recipe.steps, whole.steps)
    if now is None or full is None or now >= full:
        return []
    return [f"{full - now:,} of {full:,} {'epochs' if whole.steps is None else 'steps'} of {title}"]
