"""`evasion`: adversarial examples, and whether detectors that read the attacked classifier find them outlying.

"Deciphering the Definition of Adversarial Robustness for post-hoc OOD Detectors". Test images are attacked on the
classifier (level 1); detectors score them against the unchanged test images. Differences from the paper:

- success is judged again by the caller, in both conventions, and once more after rounding to 8 bits;
- AUROC and FPR also for the successful examples alone (images that were classified correctly and no longer are), and
  FPR at 95 % recall of either side, by name;
- examples made on one network are also scored by the detectors of the others (transfer);
- level 4, which the paper only asks for: attacks on classifier and detector together, and outliers that are changed to
  look normal, each made against the one detector that then scores them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from farout.attacks import ATTACKS, Attack
from farout.protocols.base import PROTOCOLS, Protocol
from farout.protocols.evasion.entries import EFFORT, Effort, TrialPlan
from farout.protocols.evasion.tables import summarize
from farout.protocols.shared.budgets import IMAGES, check_counts, check_flags, cut, least
from farout.protocols.shared.named import create_components
from farout.protocols.shared.networks import classifiers
from farout.protocols.shared.selection import check_labels, check_selected, select
from farout.registry import Named
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
        images: number of test images to attack, at most as many as the budget allows, which is the default.
        adaptive_images: number of these, and of outliers of every set, to attack on every detector; likewise limited.
        rounded: round examples to 8 bits before detectors score them. transfer: score them by all networks' detectors.
        attention: measure how the classifier's attention changes. detectors: labels of the detectors to test.
        """
        check_counts(images=images, adaptive_images=adaptive_images)
        check_flags(rounded=rounded, transfer=transfer, attention=attention)
        check_labels("detectors", detectors)
        self.attacks: dict[str, Attack] = create_components("attacks", ATTACKS, attacks)
        self.images, self.adaptive_images, self.rounded = images, adaptive_images, rounded
        self.transfer, self.attention, self.detectors = transfer, attention, detectors

    def unsuited(self, study: Study) -> str | None:
        for trial in study.trials:
            images = trial.inliers.test.about
            if self._on_classifiers and not images.labeled:
                return f"attacks on classifiers need labels, and the test images of {images.name} have none"
            for network in classifiers(select(trial, self.detectors)).values():
                for attack in map(self.attacks.__getitem__, self._on_classifiers):
                    if reason := AttackCell(attack, trial.inliers.test, network, None, trial.seed).unsuited():
                        return reason
        return None

    @property
    def _on_classifiers(self) -> list[str]:
        """Labels of the attacks that make a classifier err, alone or together with the detector."""
        return [label for label, attack in self.attacks.items() if attack.against != "detector"]

    def effort(self, budget: Budget) -> Effort:
        """Return the size of the attacks: what the study asks for, limited by the budget."""
        asked = Effort(self.images, self.adaptive_images, None)
        return Effort(*(least(a, b) for a, b in zip(asked, EFFORT[budget], strict=True)))

    def cuts(self, study: Study) -> list[str]:
        allowed = EFFORT[study.budget]
        lines = cut(self.images, allowed.images, f"images that {self.name} attacks")
        lines += cut(self.adaptive_images, allowed.adaptive, f"images that {self.name} attacks")
        for label, attack in self.attacks.items():
            if attack.against != "classifier":
                lines += cut(attack.params.get("steps"), allowed.steps, f"steps of {label}")
        return list(dict.fromkeys([*lines, *(cut for trial in study.trials for cut in self._impossible(trial))]))

    def _impossible(self, trial: Trial) -> Iterator[str]:
        """Yield, as text, the parts that cannot be run with these detectors, networks and outliers."""
        networks = classifiers(select(trial, self.detectors))
        if self._on_classifiers and not networks:
            yield f"{', '.join(self._on_classifiers)}: no detector reads a classifier that is known"
        alone = [label for label in self.attacks if label not in self._on_classifiers]
        if alone and not trial.outliers:
            yield f"{', '.join(alone)}: there are no outliers to change"
        for label, network in networks.items():
            if self.attention and not network.about.has_maps:
                yield f"attention maps of {label}, which names no blocks or is an ensemble"

    def plan(self, study: Study) -> list[Entry]:
        check_selected(self.detectors, study)
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
