"""Cuts of a study: what its budget leaves out, and detectors that cannot read a network. All of it is reported."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch

from farout.core import Activations, PostHoc
from farout.data.memo import remembered
from farout.detectors.catalog import names_of
from farout.detectors.trained.detector import TrainedDetector
from farout.identity import is_users
from farout.networks import Network
from farout.networks.passes import forward
from farout.rng import numpy_generator
from farout.study.budget import SHARED
from farout.study.cells.fit import FitCell
from farout.study.cells.train import TrainedNetwork
from farout.study.sources.networks import JoinedNetworks
from farout.study.spec import Budget, DetectorSpec, StudySpec
from farout.study.subjects.posthoc import PostHocSubject

if TYPE_CHECKING:
    from farout.study.study import Trial


def cut_to_budget(spec: StudySpec) -> tuple[StudySpec, list[str]]:
    """Return the study without the seeds and trained networks beyond its budget, with the budget's preset of trained
    detectors, and a text per cut."""
    shared, cuts = SHARED[spec.budget], []
    trained = [index for index, network in enumerate(spec.networks) if any(part.train for part in network.parts)]
    left_out = trained[shared.trained_networks :] if shared.trained_networks else []
    seeds = spec.seeds[: shared.seeds]
    if left_out:
        names = ", ".join(spec.networks[index].title for index in left_out)
        cuts.append(f"{len(left_out)} of {len(trained)} networks to be trained: {names}")
    if seeds != spec.seeds:
        cuts.append(f"{len(spec.seeds) - len(seeds)} of {len(spec.seeds)} seeds")
    recipes = [part.train for network in spec.networks for part in network.parts if part.train]
    epochs = max((recipe.epochs or 0 for recipe in recipes), default=0)
    if shared.epochs and epochs > shared.epochs:
        cuts.append(f"{epochs - shared.epochs} of {epochs} epochs of training")
    if shared.epochs and any(recipe.steps for recipe in recipes):
        cuts.append(f"steps of a network's training beyond {shared.epochs} epochs, if there are any")
    networks = [network for index, network in enumerate(spec.networks) if index not in left_out]
    detectors = [_with_preset(item, spec.budget) for item in spec.detectors]
    small = [new.name for new, item in zip(detectors, spec.detectors, strict=True) if new != item]
    if small and spec.budget != "full":
        cuts.append(f"the papers' settings (preset: full) of {', '.join(dict.fromkeys(small))}: preset small")
    return spec.model_copy(update={"networks": networks, "seeds": seeds, "detectors": detectors}), cuts


def _with_preset(item: DetectorSpec, budget: Budget) -> DetectorSpec:
    """Return a trained detector with the preset of the budget, if it has neither a preset nor weights."""
    if item.name not in names_of(TrainedDetector) or item.params.keys() & {"preset", "weights"}:
        return item
    preset = "full" if budget == "full" else "small"
    return item.model_copy(update={"params": {**item.params, "preset": preset}})


def drop_unsuited_detectors(trials: list[Trial]) -> list[str]:
    """Remove the detectors that cannot read one of several networks, and return the reasons.

    Raise if a detector can read none of the networks.
    """
    subjects = [subject for subject in trials[0].subjects if isinstance(subject, PostHocSubject)]
    reasons = _reasons([s for s in subjects if _may_not_suit(s.fit)], trials[0].inliers.test.about.shape)
    for name in dict.fromkeys(subject.label for subject in subjects):
        if all((subject.network, name) in reasons for subject in subjects if subject.label == name):
            raise ValueError(next(reason for (_, detector), reason in reasons.items() if detector == name))
    for trial in trials:
        trial.subjects[:] = [s for s in trial.subjects if (s.network, s.label) not in reasons]
    return [f"{detector} on {network}: {reason}" for (network, detector), reason in reasons.items()]


def _may_not_suit(fit: FitCell) -> bool:
    """Return True if the detector has requirements on its network that this one may not meet."""
    checks_network = type(fit.detector).check_network is not PostHoc.check_network
    return checks_network or ("head" in fit.detector.needs and isinstance(fit.network, JoinedNetworks))


def _reasons(subjects: list[PostHocSubject], shape: tuple[int, int, int]) -> dict[tuple[str, str], str]:
    """Return the reasons why detectors cannot read networks, by network and detector."""
    needs = frozenset().union(*(subject.fit.detector.needs for subject in subjects))
    samples: dict[str, Activations] = {}

    def reason(subject: PostHocSubject) -> str | None:
        network, detector = subject.fit.network, subject.fit.detector
        if subject.network not in samples:
            samples[subject.network] = _sample(network.preview(), shape, needs)
        try:
            if "head" in detector.needs:
                samples[subject.network].last_layer(detector.name)
            detector.check_network(samples[subject.network])
        except ValueError as error:
            return str(error)
        return None

    def known(subject: PostHocSubject) -> str | None:
        """Return the reason. Of built-in detectors and networks that the study trains it is remembered, so that these
        need not be drawn and run again."""
        network, detector = subject.fit.network, subject.fit.detector
        members = network.members if isinstance(network, JoinedNetworks) else (network,)
        if is_users(type(detector)) or not all(isinstance(member, TrainedNetwork) for member in members):
            return reason(subject)
        key = [network.identity(), detector.identity(), list(shape)]
        found: str | None = remembered("suits", key, lambda: reason(subject))
        return found

    found = {(subject.network, subject.label): known(subject) for subject in subjects}
    return {key: why for key, why in found.items() if why is not None}


def _sample(network: Network, shape: tuple[int, int, int], needs: frozenset[str]) -> Activations:
    """Return the activations of a network for two images of noise."""
    noise = numpy_generator(0, "sample").random((2, *shape), np.float32)
    return forward(network, torch.from_numpy(noise), needs)
