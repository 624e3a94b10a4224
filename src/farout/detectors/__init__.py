"""Detectors: post-hoc methods, the panel that shares one forward pass between them, and their registry."""

from farout.detectors.catalog import catalog
from farout.detectors.posthoc.ash import ASH
from farout.detectors.posthoc.dice import DICE
from farout.detectors.posthoc.dn2 import DN2
from farout.detectors.posthoc.ebo import EBO
from farout.detectors.posthoc.ensemble import Ensemble
from farout.detectors.posthoc.entropy import Entropy
from farout.detectors.posthoc.gen import GEN
from farout.detectors.posthoc.gradnorm import GradNorm
from farout.detectors.posthoc.gram import Gram
from farout.detectors.posthoc.klm import KLM
from farout.detectors.posthoc.knn import KNN
from farout.detectors.posthoc.mds import MDS
from farout.detectors.posthoc.mds_layers import MDSLayers
from farout.detectors.posthoc.mls import MLS
from farout.detectors.posthoc.msp import MSP
from farout.detectors.posthoc.nnguide import NNGuide
from farout.detectors.posthoc.odin import ODIN
from farout.detectors.posthoc.react import ReAct
from farout.detectors.posthoc.rmds import RMDS
from farout.detectors.posthoc.scale import Scale
from farout.detectors.posthoc.she import SHE
from farout.detectors.posthoc.temp_scaling import TempScaling
from farout.detectors.posthoc.vim import ViM

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
]
