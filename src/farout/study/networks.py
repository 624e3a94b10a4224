"""Networks of a study: their sources, built from the entries of the study file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from farout.data.class_names import class_indices, read_class_names
from farout.rng import seed_of
from farout.study.budget import SHARED
from farout.study.cells.train import TrainCell, TrainedNetwork
from farout.study.sources.images import ImageSource
from farout.study.sources.networks import JoinedNetworks, NetworkSource, StoredNetwork
from farout.study.spec import SPLIT, Budget, EnsembleSpec, NetworkSpec, TrainSpec, suggest_plugin

if TYPE_CHECKING:
    from farout.study.study import Inliers


def network_from(item: NetworkSpec | EnsembleSpec, inliers: Inliers, budget: Budget, seed: int) -> NetworkSource:
    """Return the source of a network or an ensemble. Raise for errors that can be found before training.

    seed: that of the study's trial, for networks that do not set their own.
    """
    if members := _members(item, seed):
        return JoinedNetworks(item.title, tuple(network_from(part, inliers, budget, own) for part, own in members))
    assert isinstance(item, NetworkSpec)
    if item.train is None:
        return stored_network(item, inliers.train or inliers.test)
    return _trained_network(item, item.train, inliers, budget, _seed(item, seed))


def depends_on_seed(item: NetworkSpec | EnsembleSpec) -> bool:
    """Return True if the network, or a member of the ensemble, is trained anew for every seed of the study."""
    return any(part.train is not None and part.seed is None for part in item.parts)


def stored_network(item: NetworkSpec, images: ImageSource) -> NetworkSource:
    """Return the source of a network with existing weights that fits the images."""
    channels, side, _ = images.about.shape
    if item.classes_from:
        return _restricted_network(item, item.classes_from, images)
    if item.classes is None and not item.pretrained and not images.about.labeled:
        raise ValueError(
            f"network {item.title!r}: the number of its classes is unknown, since the images of "
            f"{images.about.name} have no labels: give classes: 10 beside its weights (classes: 0 for its features "
            "alone)"
        )
    classes = len(images.about.classes) if item.classes is None else item.classes
    return _checked(StoredNetwork(item, item.title, classes, item.side or side, channels, mode=item.mode))


def _restricted_network(item: NetworkSpec, classes_from: str, images: ImageSource) -> NetworkSource:
    """Return the source of a network with the logits of the images' classes alone."""
    if not images.about.labeled:
        raise ValueError(
            f"network {item.title!r}: the images of {images.about.name} have no labels, so classes_from: cannot select "
            "their classes"
        )
    channels, side, _ = images.about.shape
    names = read_class_names(classes_from)
    kept = class_indices(names, images.about.classes, classes_from)
    return _checked(StoredNetwork(item, item.title, len(names), item.side or side, channels, kept, item.mode))


def _checked(stored: StoredNetwork) -> StoredNetwork:
    """Return the source after reading its weights, so that a missing file is found before any work."""
    with suggest_plugin():
        stored.identity()
    return stored


def _trained_network(
    item: NetworkSpec, recipe: TrainSpec, inliers: Inliers, budget: Budget, seed: int
) -> TrainedNetwork:
    """Return the source of a network that the study trains."""
    if inliers.train is None or inliers.val is None:
        raise ValueError(f"network {item.title!r} is to be trained, but the inliers have no train split; {SPLIT}")
    if not inliers.train.about.labeled:
        raise ValueError(
            f"network {item.title!r} is to be trained, and the images of {inliers.train.about.name} have no labels: "
            "give a folder with one sub-folder per class, or an .npz file with 'labels'"
        )
    recipe = _within(recipe, SHARED[budget].epochs, inliers.train)
    trained = item.model_copy(update={"train": recipe, "precision": "fp32", "compile": False})
    cell = TrainCell(trained, trained.title, seed, inliers.train, inliers.val)
    with suggest_plugin():
        cell.about  # noqa: B018 raises now for a wrong name or normalizer
    return TrainedNetwork(cell, item.mode)


def _within(recipe: TrainSpec, epochs: int | None, images: ImageSource) -> TrainSpec:
    """Return the recipe with at most `epochs` epochs; unchanged for None."""
    return recipe if epochs is None else recipe.shortened(epochs, recipe.steps_per_epoch(images.about.total))


def _seed(item: NetworkSpec, seed: int) -> int:
    return seed if item.seed is None else item.seed


def _members(item: NetworkSpec | EnsembleSpec, seed: int) -> list[tuple[NetworkSpec, int]]:
    """Return the networks of an ensemble with their seeds; the first of `members` equals the network by itself."""
    if isinstance(item, EnsembleSpec):
        return [(member, seed) for member in item.ensemble]
    if isinstance(item.weights, tuple):
        return [(item.model_copy(update={"weights": file}), seed) for file in item.weights]
    first, unrepeated = _seed(item, seed), {"members": None, "seed": None}
    return [
        (
            item.model_copy(update={"label": f"{item.label or item.name}, member {index + 1}", **unrepeated}),
            seed_of(first, "member", index) if index else first,
        )
        for index in range(item.members or 0)
    ]
