"""Evasion: changed images that a classifier gets wrong, or a detector takes for inliers."""

from farout.attacks.adaptive import AdaptivePGD
from farout.attacks.apgd import APGDCE, APGDT
from farout.attacks.attack import Attack
from farout.attacks.catalog import ATTACKS
from farout.attacks.deepfool import DeepFool
from farout.attacks.fgsm import FGSM
from farout.attacks.masked_pgd import MaskedPGD
from farout.attacks.pgd import PGD
from farout.attacks.score_descent import ScorePGD
from farout.attacks.victim import Victim

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
    "Victim",
    "create",
    "names",
]

names = ATTACKS.names
create = ATTACKS.create
