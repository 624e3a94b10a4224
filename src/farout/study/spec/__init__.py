"""Schema of study files: pydantic models that refuse unknown keys, read with a safe YAML loader."""

from farout.study.spec.data import Data, DataSpec, InlierSplits, InliersSpec
from farout.study.spec.generated import (
    AnyGenerator,
    BarSpec,
    GeneratedSpec,
    GeneratorSpec,
    NearSpec,
    SampledSpec,
    ShiftedSpec,
)
from farout.study.spec.networks import AnyNetwork, EnsembleSpec, NetworkSpec, TrainSpec
from farout.study.spec.parts import BUDGETS, SPLIT, Budget, suggest_plugin
from farout.study.spec.study import GENERATED, AnyImages, DetectorSpec, ProtocolSpec, StudySpec, format_problems

__all__ = [
    "BUDGETS",
    "GENERATED",
    "SPLIT",
    "AnyGenerator",
    "AnyImages",
    "AnyNetwork",
    "BarSpec",
    "Budget",
    "Data",
    "DataSpec",
    "DetectorSpec",
    "EnsembleSpec",
    "GeneratedSpec",
    "GeneratorSpec",
    "InlierSplits",
    "InliersSpec",
    "NearSpec",
    "NetworkSpec",
    "ProtocolSpec",
    "SampledSpec",
    "ShiftedSpec",
    "StudySpec",
    "TrainSpec",
    "format_problems",
    "suggest_plugin",
]
