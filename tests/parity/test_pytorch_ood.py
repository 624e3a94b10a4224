"""Every detector that pytorch-ood 0.4 has too gives the same scores, once its factors are taken off.

It computes in float32, ours in float64 from the same float32 activations. The allowed difference, as a share of the
largest score, is 1e-5; 1e-3 for rmds, a small difference of two large distances.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pytest
import torch
from torch import Tensor

from farout.core import PostHoc
from farout.detectors import (
    ASH,
    DICE,
    EBO,
    GEN,
    KLM,
    KNN,
    MDS,
    MLS,
    MSP,
    RMDS,
    SHE,
    Entropy,
    GradNorm,
    NNGuide,
    ReAct,
    Scale,
    ViM,
)
from helpers.peer import Case, load, network_case, random_case, small_network, worst

peers = load()


class Pair(NamedTuple):
    """A detector of ours, and what makes the same of pytorch-ood's."""

    ours: Callable[[], PostHoc]
    theirs: Callable[[Case], Tensor]
    allowed: float = 1e-5


def from_logits(detector: object, case: Case) -> Tensor:
    return detector.predict_logits(case.test.logits)


def from_maps(detector: object, case: Case) -> Tensor:
    """Its shaping detectors take maps; pooled features are maps of one place."""
    return detector.predict_feature_maps(case.test.features[:, :, None, None])


def fitted_on_features(detector: object, case: Case) -> Tensor:
    return detector.fit_features(case.train.features, case.labels).predict_features(case.test.features)


def reacting(case: Case) -> Tensor:
    detector = peers.ReAct(None, case.head, percentile=0.9)
    return from_maps(detector.fit_feature_maps(case.val.features, torch.zeros(len(case.val))), case)


def gradient_norms(case: Case) -> Tensor:
    """Of the last layer alone; its loss is the mean over classes, ours their sum."""
    detector = peers.GradNorm(case.linear, param_filter=lambda name: name == "weight")
    return case.linear.out_features * detector.predict(case.test.features)


def sparsified(case: Case) -> Tensor:
    return fitted_on_features(peers.DICE(None, case.linear.weight, case.linear.bias, p=0.9), case)


def matched(case: Case) -> Tensor:
    return from_logits(peers.KLMatching(None).fit_logits(case.val.logits), case)


def virtual_logits(case: Case) -> Tensor:
    """With the eigenvectors, which it takes in float32, taken in float64."""
    detector = peers.ViM(None, 20, case.linear.weight, case.linear.bias)
    detector.fit_features(case.train.features, case.labels)
    shifted = case.train.features.double().numpy() - detector.u.double().numpy()
    _, vectors = np.linalg.eigh(shifted.T @ shifted)
    residual = vectors[:, : vectors.shape[1] - 20]
    detector.principal_subspace = torch.from_numpy(residual).float()
    detector.alpha = float(case.train.logits.amax(1).mean() / np.linalg.norm(shifted @ residual, axis=1).mean())
    return detector.predict_features(case.test.features)


PAIRS = {
    "msp": Pair(MSP, lambda case: 1 + from_logits(peers.MaxSoftmax(None), case)),
    "entropy": Pair(Entropy, lambda case: from_logits(peers.Entropy(None), case)),
    "mls": Pair(MLS, lambda case: from_logits(peers.MaxLogit(None), case), 0.0),
    "ebo": Pair(EBO, lambda case: from_logits(peers.EnergyBased(None), case)),
    "ebo-2.5": Pair(lambda: EBO(temperature=2.5), lambda case: from_logits(peers.EnergyBased(None, t=2.5), case)),
    "gen": Pair(GEN, lambda case: case.linear.out_features * from_logits(peers.GEN(None), case)),
    "gen-3": Pair(lambda: GEN(top=3, gamma=0.5), lambda case: 3 * from_logits(peers.GEN(None, gamma=0.5, M=3), case)),
    "klm": Pair(KLM, matched),
    "react": Pair(ReAct, reacting),
    **{
        f"ash-{kind}": Pair(
            lambda kind=kind: ASH(kind=kind, percentile=80),
            lambda case, kind=kind: from_maps(peers.ASH(None, case.head, f"ash-{kind.lower()}", 0.8), case),
        )
        for kind in "PSB"
    },
    "scale": Pair(Scale, lambda case: from_maps(peers.SCALE(None, case.head, percentile=0.85), case)),
    "dice": Pair(DICE, sparsified),
    "knn": Pair(KNN, lambda case: fitted_on_features(peers.KNN(None), case)),
    "nnguide": Pair(NNGuide, lambda case: fitted_on_features(peers.NNGuide(None, case.head, k=100), case)),
    "she": Pair(SHE, lambda case: fitted_on_features(peers.SHE(None, case.head), case)),
    "vim": Pair(lambda: ViM(dim=20), virtual_logits),
    "gradnorm": Pair(GradNorm, gradient_norms),
    # Half the distance, and the scatter is not divided by the number of images.
    "mds": Pair(MDS, lambda case: 2 * len(case.train) * fitted_on_features(peers.Mahalanobis(None), case)),
    "rmds": Pair(RMDS, lambda case: len(case.train) * fitted_on_features(peers.RMD(None), case), 1e-3),
}


@pytest.fixture(scope="module", params=["resnet20", "random"])
def case(request: pytest.FixtureRequest) -> Case:
    return network_case(small_network()) if request.param == "resnet20" else random_case()


@pytest.mark.parametrize("name", PAIRS)
def test_scores_agree(name: str, case: Case) -> None:
    pair = PAIRS[name]
    ours = case.ours(pair.ours())
    assert ours.std() > 1e-3 * ours.abs().max()  # scores that hardly differ would agree with anything
    assert worst(pair.theirs(case), ours) <= pair.allowed
