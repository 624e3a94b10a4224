"""Adapters for external detectors: functions, estimators, ONNX files, HTTP endpoints, other libraries."""

from farout.adapters.catalog import ADAPTERS
from farout.adapters.devices import cuda_on
from farout.adapters.estimator import Estimator
from farout.adapters.function import Function
from farout.adapters.http import HTTP
from farout.adapters.onnx import ONNX
from farout.adapters.openood import OpenOOD
from farout.adapters.pytorch_ood import PytorchOOD

names = ADAPTERS.names
create = ADAPTERS.create

__all__ = ["ADAPTERS", "HTTP", "ONNX", "Estimator", "Function", "OpenOOD", "PytorchOOD", "create", "cuda_on", "names"]
