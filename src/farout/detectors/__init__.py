"""Post-hoc detectors, by what they read."""

from farout.detectors.catalog import catalog, register
from farout.detectors.ensemble import Ensemble
from farout.detectors.features import DN2, KNN, MDS, RMDS
from farout.detectors.gradients import ODIN, GradNorm
from farout.detectors.gram import Gram
from farout.detectors.joint import SHE, NNGuide, ViM
from farout.detectors.layers import MDSLayers
from farout.detectors.logits import EBO, GEN, MLS, MSP, Entropy
from farout.detectors.matching import KLM
from farout.detectors.shaping import ASH, DICE, ReAct, Scale
from farout.detectors.temperature import TempScaling

names = catalog.names
create = catalog.create

__all__ = [
    "ASH",
    "DICE",
    "DN2",
    "EBO",
    "GEN",
    "KLM",
    "KNN",
    "MDS",
    "MLS",
    "MSP",
    "ODIN",
    "RMDS",
    "SHE",
    "Ensemble",
    "Entropy",
    "GradNorm",
    "Gram",
    "MDSLayers",
    "NNGuide",
    "ReAct",
    "Scale",
    "TempScaling",
    "ViM",
    "create",
    "names",
    "register",
]
