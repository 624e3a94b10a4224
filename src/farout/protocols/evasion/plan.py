"""`evasion`: are adversarial examples outliers to detectors that read the classifier they were made against?

"Deciphering the Definition of Adversarial Robustness for post-hoc OOD Detectors". Test images are attacked on the
classifier (level 1); what a detector says of them is compared with the test images as they are. What differs from the
paper:

- success is judged again by the caller, in both conventions, and once more after rounding to 8 bits;
- AUROC and FPR also for the successful examples alone (images that were classified right and no longer are), and FPR
  at 95 % recall of either side, by name;
- examples made on one network are shown to the detectors of the others (transfer);
- level 4, which the paper only asks for: attacks on classifier and detector together, and outliers that are turned into
  inliers, each made against the one detector that then judges them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from farout.attacks import ATTACKS, Attack
from farout.protocols.base import PROTOCOLS, Protocol
from farout.protocols.evasion.entries import EFFORT, Effort, TrialPlan, has_maps
from farout.protocols.evasion.tables import summarize
from farout.protocols.shared.budgets import IMAGES, check_counts, cut, least
from farout.protocols.shared.named import Named, made
from farout.protocols.shared.networks import classifiers
from farout.protocols.shared.selection import check_chosen, check_labels, chosen
from farout.report.content import Summary
from farout.study.cells.attack import AttackCell
from farout.study.cells.cell import Entry
from farout.study.results import Results
from farout.study.spec import Budget
from farout.study.study import Study, Trial

DEFAULT = ("pgd", "fgsm", "deepfool", "masked_pgd", "adaptive_pgd", "score_pgd")


@PROTOCOLS.register("evasion")
class Evasion(Protocol):
    """Adversarial examples against classifiers, and against the detectors themselves."""

    name = "evasion"

    def __init__(
        self,
        attacks: Sequence[Named] = DEFAULT,
        *,
        images: int | None = None,
        adaptive_images: int | None = None,
        rounded: bool = False,
        transfer: bool = True,
        attention: bool = True,
        detectors: Sequence[str] | None = None,
    ) -> None:
        """attacks: by name or with settings ({name: pgd, epsilon: 0.0157, label: weak}).
        images: as many are attacked, where the budget allows it; its own by default. adaptive_images: as many of these,
        and as many outliers of every set, are attacked on every detector.
        rounded: show detectors the examples in 8 bits. transfer: show them to all networks' detectors.
        attention: measure how far the classifier's attention moves. detectors: labels of those to be tested.
        """
        check_counts(images=images, adaptive_images=adaptive_images)
        check_labels("detectors", detectors)
        self.attacks: dict[str, Attack] = made("attacks", ATTACKS, attacks)
        self.images, self.adaptive_images, self.rounded = images, adaptive_images, rounded
        self.transfer, self.attention, self.detectors = transfer, attention, detectors

    def unsuited(self, study: Study) -> str | None:
        for trial in study.trials:
            images = trial.inliers.test.about
            if self._on_classifiers and not images.labeled:
                return f"it makes classifiers err, and the test images of {images.name} have no labels"
            for network in classifiers(chosen(trial, self.detectors)).values():
                for attack in map(self.attacks.__getitem__, self._on_classifiers):
                    if reason := AttackCell(attack, trial.inliers.test, network, None, trial.seed).unsuited():
                        return reason
        return None

    @property
    def _on_classifiers(self) -> list[str]:
        """The attacks that make a classifier err, alone or with the detector."""
        return [label for label, attack in self.attacks.items() if attack.against != "detector"]

    def effort(self, budget: Budget) -> Effort:
        """What the study asks for, as far as the budget allows."""
        asked = Effort(self.images, self.adaptive_images, None)
        return Effort(*(least(a, b) for a, b in zip(asked, EFFORT[budget], strict=True)))

    def cuts(self, study: Study) -> list[str]:
        allowed = EFFORT[study.budget]
        told = cut(self.images, allowed.images, f"images that {self.name} attacks")
        told += cut(self.adaptive_images, allowed.adaptive, f"images that {self.name} attacks")
        for label, attack in self.attacks.items():
            if attack.against != "classifier":
                told += cut(attack.params.get("steps"), allowed.steps, f"steps of {label}")
        return list(dict.fromkeys([*told, *(cut for trial in study.trials for cut in self._impossible(trial))]))

    def _impossible(self, trial: Trial) -> Iterator[str]:
        """What cannot be had with these detectors, networks and outliers."""
        networks = classifiers(chosen(trial, self.detectors))
        if self._on_classifiers and not networks:
            yield f"{', '.join(self._on_classifiers)}: no detector reads a classifier that is known"
        alone = [label for label in self.attacks if label not in self._on_classifiers]
        if alone and not trial.outliers:
            yield f"{', '.join(alone)}: there are no outliers to be turned into inliers"
        for label, network in networks.items():
            if self.attention and not has_maps(network.preview()):
                yield f"attention maps of {label}, which names no blocks or is an ensemble"

    def plan(self, study: Study) -> list[Entry]:
        check_chosen(self.detectors, study)
        effort = self.effort(study.budget)
        entries = [e for t in study.trials for e in TrialPlan(self, t, effort, IMAGES[study.budget]).entries()]
        if all(entry.tags["role"] == "inliers" for entry in entries):
            raise ValueError(
                f"protocol evasion: there is nothing that {', '.join(self.attacks)} could attack: attacks on "
                "classifiers need a detector that reads one, attacks on detectors alone (score_pgd) need outliers"
            )
        return entries

    @classmethod
    def summarize(cls, results: Results) -> Summary:
        return summarize(results, cls.name)
