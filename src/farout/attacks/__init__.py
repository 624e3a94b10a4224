"""White-box evasion: changed images that a classifier gets wrong."""

from farout.attacks.apgd import APGDCE, APGDT
from farout.attacks.attack import Attack
from farout.attacks.catalog import ATTACKS
from farout.attacks.deepfool import DeepFool
from farout.attacks.fgsm import FGSM
from farout.attacks.masked_pgd import MaskedPGD
from farout.attacks.pgd import PGD
from farout.attacks.victim import Victim

__all__ = [
    "APGDCE",
    "APGDT",
    "ATTACKS",
    "FGSM",
    "PGD",
    "Attack",
    "DeepFool",
    "MaskedPGD",
    "Victim",
    "create",
    "names",
]

names = ATTACKS.names
create = ATTACKS.create
