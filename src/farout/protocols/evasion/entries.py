"""Cells of `evasion`: attacks, and the detectors' and networks' results on the attacked images."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, replace
from typing import TYPE_CHECKING, NamedTuple

from farout.attacks import Attack
from farout.protocols.shared.networks import classifiers
from farout.protocols.shared.selection import select
from farout.study.cells.attack import AttackCell
from farout.study.cells.attend import AttentionCell
from farout.study.cells.cell import Cell, Entry
from farout.study.cells.predict import PredictCell
from farout.study.cells.score import ScoreCell
from farout.study.sources.attacked import AttackedImages
from farout.study.sources.images import ImageSource, NamedImages, subset
from farout.study.sources.networks import NetworkSource
from farout.study.spec import Budget
from farout.study.study import Trial
from farout.study.subjects.subject import Subject

if TYPE_CHECKING:
    from farout.protocols.evasion.plan import Evasion


class Effort(NamedTuple):
    """Size of the attacks that a budget allows; None = no limit."""

    images: int | None
    """Test images that are attacked on the classifier."""
    adaptive: int | None
    """Number of these test images, and of outliers of every set, that are attacked on every detector."""
    steps: int | None
    """Steps of attacks on detectors: a score without a gradient needs many queries for each."""


EFFORT: dict[Budget, Effort] = {
    "quick": Effort(128, 32, 20),
    "standard": Effort(1_000, 200, None),
    "full": Effort(None, 1_000, None),
}


EFFORT_TAGS = ("images", "of_images", "steps", "of_steps")
"""Tags of an attack's effort: images and steps, and how many of each a level of the roadmap requires."""


def effort_tags(cell: AttackCell, most: int | None, pool: ImageSource) -> dict[str, str]:
    """Return the tags of an attack's effort; the full budget attacks `most` images of the pool, all for None."""
    defaults = {field.name: field.default for field in fields(cell.attack)}
    whole = _total(pool)
    steps, of_steps = (str(settings.get("steps", "")) for settings in (cell.attack.params, defaults))
    numbers = (str(cell.images.about.total), str(whole if most is None else min(most, whole)), steps, of_steps)
    return dict(zip(EFFORT_TAGS, numbers, strict=True))


def _total(images: ImageSource) -> int:
    """Return the size of the whole set, also if the study limits it."""
    if isinstance(images, NamedImages) and images.spec.limit is not None:
        return len(NamedImages(images.spec.model_copy(update={"limit": None})).preview())
    return images.about.total


class TrialPlan:
    """Builder of the cells of one trial."""

    def __init__(self, protocol: Evasion, trial: Trial, effort: Effort, most: int | None) -> None:
        self.protocol, self.trial, self.effort = protocol, trial, effort
        self.inliers = trial.stressed(trial.inliers.test, most)
        self.subjects = select(trial, protocol.detectors)
        self.networks = classifiers(self.subjects)

    def entries(self) -> Iterator[Entry]:
        """Yield the scores of unchanged images, then the attacks with the results on their images."""
        if not self.networks and not self._alone:
            return
        for subject in self.subjects:
            yield self._entry("inliers", ScoreCell(subject, self.inliers), subject)
        for label, attack in self.protocol.attacks.items():
            if attack.against == "classifier":
                for network in self.networks.values():
                    yield from self._against_classifier(label, attack, network)
            elif attack.against == "both":
                yield from self._against_both(label, self._shortened(attack))
            else:
                yield from self._against_detector(label, self._shortened(attack))

    def _shortened(self, attack: Attack) -> Attack:
        """Return the attack with at most as many steps as the budget allows."""
        steps, most = attack.params.get("steps", 0), self.effort.steps
        return attack if most is None or steps <= most else replace(attack, **{"steps": most})

    @property
    def _alone(self) -> bool:
        """True if an attack needs no classifier, and there are outliers for it."""
        alone = any(attack.against == "detector" for attack in self.protocol.attacks.values())
        return alone and bool(self.trial.outliers)

    def _against_classifier(self, label: str, attack: Attack, network: NetworkSource) -> Iterator[Entry]:
        cell = AttackCell(attack, self._subset(self.effort.images), network, None, self.trial.seed)
        images = AttackedImages(cell, self.protocol.rounded)
        made_on = {"attack": label, "made_on": network.label, "level": str(attack.level)}
        made_on |= effort_tags(cell, EFFORT["full"].images, self.trial.inliers.test)
        yield self._entry("attack", cell, None, network=network.label, **made_on)
        for other in self.networks.values():
            if other is not network and self.protocol.transfer:
                yield self._entry("prediction", PredictCell(other, images), None, network=other.label, **made_on)
        for subject in self.subjects:
            if self.protocol.transfer or subject.network in ("", network.label):
                yield self._entry("attacked", ScoreCell(subject, images), subject, **made_on)
        if self.protocol.attention and network.about.has_maps:
            yield self._entry("attention", AttentionCell(images), None, network=network.label, **made_on)

    def _against_both(self, label: str, attack: Attack) -> Iterator[Entry]:
        """Yield the attacks on a classifier together with each detector, scored by that detector alone."""
        for subject in self.subjects:
            if network := self.networks.get(subject.network):
                images = subset(self._subset(self.effort.images), self.effort.adaptive)
                cell = AttackCell(attack, images, network, subject, self.trial.seed)
                tags = effort_tags(cell, EFFORT["full"].adaptive, self.trial.inliers.test)
                yield from self._own(label, attack, cell, **tags)

    def _against_detector(self, label: str, attack: Attack) -> Iterator[Entry]:
        """Yield the attacks that make outliers look normal to each detector."""
        for name, source in self.trial.outliers.items():
            images = self.trial.stressed(source, self.effort.adaptive)
            for subject in self.subjects:
                yield self._entry("outliers", ScoreCell(subject, images), subject, outliers=name)
                cell = AttackCell(attack, images, None, subject, self.trial.seed)
                tags = effort_tags(cell, EFFORT["full"].adaptive, source)
                yield from self._own(label, attack, cell, outliers=name, **tags)

    def _own(self, label: str, attack: Attack, cell: AttackCell, **tags: str) -> Iterator[Entry]:
        subject = cell.subject
        assert subject is not None
        tags |= {"attack": label, "made_on": subject.network, "level": str(attack.level)}
        yield self._entry("own_attack", cell, subject, **tags)
        scored = ScoreCell(subject, AttackedImages(cell, self.protocol.rounded))
        yield self._entry("own_attacked", scored, subject, **tags)

    def _subset(self, count: int | None) -> ImageSource:
        return subset(self.inliers, count)

    def _entry(self, role: str, cell: Cell, subject: Subject | None, **tags: str) -> Entry:
        names = {"network": subject.network, "detector": subject.label} if subject else {"network": "", "detector": ""}
        details = dict.fromkeys(("outliers", "attack", "made_on", "level", *EFFORT_TAGS), "")
        details["rounded"] = "8 bits" if self.protocol.rounded else ""
        return Entry(self.protocol.name, cell, {"role": role, **names, "seed": str(self.trial.seed), **details, **tags})
