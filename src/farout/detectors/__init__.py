"""Detectors: post-hoc ones, the panel that shares one forward pass between them, trained ones, and their registry."""

from __future__ import annotations

from pathlib import Path

from farout.detectors.catalog import catalog, names_of
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
from farout.detectors.trained.acet import ACET
from farout.detectors.trained.ae import AE
from farout.detectors.trained.atom import ATOM
from farout.detectors.trained.ceda import CEDA
from farout.detectors.trained.csi import CSI
from farout.detectors.trained.detector import TrainedDetector
from farout.detectors.trained.glow.detector import Glow
from farout.detectors.trained.good import GOOD
from farout.detectors.trained.importing import import_weights
from farout.detectors.trained.input_complexity import InputComplexity
from farout.detectors.trained.likelihood_ratio import LikelihoodRatio
from farout.detectors.trained.nae.detector import NAE
from farout.detectors.trained.oe import OE
from farout.detectors.trained.pixelcnn.detector import PixelCNN
from farout.detectors.trained.regret.detector import LikelihoodRegret
from farout.detectors.trained.rowl import ROWL
from farout.detectors.trained.sngp.detector import SNGP
from farout.detectors.trained.ssd import SSD
from farout.detectors.trained.vit import ViT
from farout.training.files import header

names = catalog.names
create = catalog.create


def load(path: str | Path) -> TrainedDetector:
    """Return the trained detector of a file that `save`, `farout train` or `farout import` wrote."""
    detector = catalog.create(header(Path(path), "detector").name, weights=path)
    assert isinstance(detector, TrainedDetector)
    return detector


__all__ = [
    "ACET",
    "AE",
    "ASH",
    "ATOM",
    "CEDA",
    "CSI",
    "DICE",
    "DN2",
    "EBO",
    "GEN",
    "GOOD",
    "KLM",
    "KNN",
    "MDS",
    "MLS",
    "MSP",
    "NAE",
    "ODIN",
    "OE",
    "RMDS",
    "ROWL",
    "SHE",
    "SNGP",
    "SSD",
    "Ensemble",
    "Entropy",
    "Glow",
    "GradNorm",
    "Gram",
    "InputComplexity",
    "LikelihoodRatio",
    "LikelihoodRegret",
    "MDSLayers",
    "NNGuide",
    "PixelCNN",
    "ReAct",
    "Scale",
    "TempScaling",
    "TrainedDetector",
    "ViM",
    "ViT",
    "create",
    "import_weights",
    "load",
    "names",
    "names_of",
]
