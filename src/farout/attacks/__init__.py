"""Evasion attacks: perturb images until a classifier misclassifies them or a detector scores them as inliers."""

from farout.attacks.adaptive import AdaptivePGD
from farout.attacks.apgd import APGDCE, APGDT
from farout.attacks.attack import Attack
from farout.attacks.catalog import ATTACKS
from farout.attacks.deepfool import DeepFool
from farout.attacks.fgsm import FGSM
from farout.attacks.masked_pgd import MaskedPGD
from farout.attacks.pgd import PGD
from farout.attacks.score_descent import ScorePGD
from farout.attacks.target import Target

__all__ = [
    "APGDCE",
    "APGDT",
    "ATTACKS",
    "FGSM",
    "PGD",
    "AdaptivePGD",
    "Attack",
    "DeepFool",
    "MaskedPGD",
    "ScorePGD",
    "Target",
    "create",
    "names",
]

names = ATTACKS.names
create = ATTACKS.create
