"""Generated sets of a trial, with the networks and plain generators that they are compared by."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

from farout.generators.perceptual import Form
from farout.rng import seed_of
from farout.study.cells.generate import SampleCell, TranslateCell
from farout.study.cells.near_ood import NearCell
from farout.study.cells.train import TrainedNetwork
from farout.study.cells.train_generator import TrainedGenerator
from farout.study.generated import generated_from
from farout.study.members import ensemble_of
from farout.study.networks import network_from
from farout.study.quality import plan_quality
from farout.study.sources.generated import GeneratedImages
from farout.study.sources.images import ImageSource
from farout.study.sources.networks import JoinedNetworks, NetworkSource
from farout.study.spec import BarSpec, Budget
from farout.study.study import Trial

if TYPE_CHECKING:
    from farout.protocols.raised_bar.plan import RaisedBar


@dataclass(frozen=True)
class BarSets:
    """Near-OoD and Shifted sets of a trial by label, and what is needed to compare them with others."""

    near: dict[str, GeneratedImages]
    shifted: dict[str, GeneratedImages]
    plain: dict[str, GeneratedImages]
    """The study's sets of plain samples of a generator: neither hard by construction nor natural images."""
    conventional: dict[str, ImageSource]
    """The study's other outlier sets."""
    sanity: NetworkSource | None
    """Ensemble that the generators have not seen."""
    cuts: list[str] = field(default_factory=list)
    """Texts on what cannot be tested."""

    @property
    def compared(self) -> dict[str, ImageSource]:
        """Outlier sets that Near-OoD sets are compared with: plain samples and conventional ones."""
        return {**self.plain, **self.conventional}

    @classmethod
    def of(cls, protocol: RaisedBar, trial: Trial, budget: Budget) -> BarSets:
        """Return the sets that the protocol or the study's outliers name."""
        make = partial(generated_from, inliers=trial.inliers, budget=budget)
        found = {name: one for name, one in trial.outliers.items() if isinstance(one, GeneratedImages)}
        listed = {
            "near": {name: one for name, one in found.items() if isinstance(one.cell, NearCell)},
            "shifted": {name: one for name, one in found.items() if isinstance(one.cell, TranslateCell)},
        }
        plain = {name: one for name, one in found.items() if isinstance(one.cell, SampleCell)}
        specs = {"near": protocol.near, "shifted": protocol.shifted}
        sets = {kind: _sets(spec, protocol.asked[kind], listed[kind], make) for kind, spec in specs.items()}
        named = {name for one in (*listed.values(), plain) for name in one}
        others = {name: one for name, one in trial.outliers.items() if name not in named}
        if taken := (sets["near"].keys() | sets["shifted"].keys()) & (others.keys() | plain.keys()):
            raise ValueError(f"two outlier sets are called {min(taken)!r}; give one a label: near: {{label: another}}")
        generated = [*sets["near"].values(), *sets["shifted"].values()]
        sanity, cuts = _sanity(protocol, trial, budget, generated) if protocol.check_sanity else (None, [])
        return cls(sets["near"], sets["shifted"], plain, others, sanity, cuts)


def _sets(
    spec: BarSpec | None,
    asked: bool,
    listed: Mapping[str, GeneratedImages],
    make: Callable[[BarSpec], GeneratedImages],
) -> dict[str, GeneratedImages]:
    """Return the sets of a kind: those that the study lists, and the protocol's own if it is asked for or alone."""
    if spec is None:
        return {}
    if listed and not asked:
        return dict(listed)
    return {**listed, spec.title: make(spec)}


def members_of(network: NetworkSource | None) -> tuple[NetworkSource, ...]:
    """Return the networks of an ensemble, those called VGG first; a single network as it is; none for None."""
    if network is None:
        return ()
    members = network.members if isinstance(network, JoinedNetworks) else (network,)
    return tuple(sorted(members, key=lambda one: "vgg" not in one.label.lower()))


def features_of(images: GeneratedImages) -> tuple[NetworkSource, Form] | None:
    """Return the feature network of a set's perceptual loss and its form; None if the study does not train it."""
    trained = [one for one in images.cell.generators if isinstance(one, TrainedGenerator)]
    objective = trained[0].cell.objective if trained else None
    return None if objective is None or objective.features is None else (objective.features, objective.form)


def plain_of(images: GeneratedImages, trial: Trial) -> GeneratedImages | None:
    """Return the same set of a generator trained without the losses of the raised bar."""
    plan = plan_quality(images, trial.inliers)
    return None if plan is None else plan.plain


def _sanity(
    protocol: RaisedBar, trial: Trial, budget: Budget, generated: list[GeneratedImages]
) -> tuple[NetworkSource | None, list[str]]:
    """Return the sanity ensemble; by default the generators' ensemble, trained with other seeds."""
    if protocol.sanity is not None:
        return network_from(protocol.sanity, trial.inliers, budget, seed_of(0, "sanity")), []
    ensembles = [ensemble for images in generated if (ensemble := ensemble_of(images))]
    members = [member for member in ensembles[0].members if isinstance(member, TrainedNetwork)] if ensembles else []
    if not members:
        return None, ["the sanity check: the study trains no ensemble; name one (sanity: [lenet, resnet18])"]
    others = tuple(_reseeded(member) for member in members)
    return (others[0] if len(others) == 1 else JoinedNetworks("sanity ensemble", others)), []


def _reseeded(network: TrainedNetwork) -> TrainedNetwork:
    cell = network.cell
    return replace(network, cell=replace(cell, seed=seed_of(cell.seed, "sanity"), label=f"{cell.label}, sanity"))
