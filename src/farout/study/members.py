"""Members of the ensemble that the generators of a set are trained against, and their accuracy."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from farout.study.cells.predict import PredictCell
from farout.study.cells.train_generator import TrainedGenerator
from farout.study.sources.generated import GeneratedImages
from farout.study.sources.images import ImageSource
from farout.study.sources.networks import JoinedNetworks

if TYPE_CHECKING:
    from farout.study.store import Store


class MemberAccuracy(NamedTuple):
    """Accuracy of one member of an ensemble."""

    network: str
    accuracy: float
    n: int
    """Number of images."""
    images: str
    """Name of the images."""


def ensemble_of(images: GeneratedImages) -> JoinedNetworks | None:
    """Return the ensemble that a set's generators are trained against; None if the study does not train them."""
    trained = [one for one in images.cell.generators if isinstance(one, TrainedGenerator)]
    found = trained[0].cell.objective.ensemble if trained else None
    return found if isinstance(found, JoinedNetworks) else None


def member_cells(images: GeneratedImages, tested: ImageSource) -> list[PredictCell]:
    """Return the predictions of every member of a set's ensemble; none without an ensemble or without labels."""
    ensemble = ensemble_of(images)
    if ensemble is None or not tested.about.labeled:
        return []
    return [PredictCell(member, tested) for member in ensemble.members]


def member_accuracy(cell: PredictCell, store: Store) -> MemberAccuracy:
    """Return the accuracy of a member, from its stored predictions."""
    correct = store.column(cell.id, "prediction") == store.column(cell.id, "label")
    return MemberAccuracy(cell.network.label, float(correct.mean()), len(correct), cell.images.about.name)
