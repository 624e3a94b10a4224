"""Post-hoc detectors, by what they read."""

from farout.detectors.catalog import catalog, register
from farout.detectors.features import KNN, MDS
from farout.detectors.gradients import ODIN, GradNorm
from farout.detectors.joint import SHE, NNGuide, ViM
from farout.detectors.logits import EBO, GEN, MLS, MSP, Entropy
from farout.detectors.shaping import ASH, ReAct, Scale

names = catalog.names
create = catalog.create

__all__ = [
    "ASH",
    "EBO",
    "GEN",
    "KNN",
    "MDS",
    "MLS",
    "MSP",
    "ODIN",
    "SHE",
    "Entropy",
    "GradNorm",
    "NNGuide",
    "ReAct",
    "Scale",
    "ViM",
    "create",
    "names",
    "register",
]
