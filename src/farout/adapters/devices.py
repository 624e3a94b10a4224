"""Code written for a GPU, run where the network is."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode


class _CudaOn(TorchFunctionMode):
    """Mode in which torch functions of this thread take one device for every GPU that they are asked for."""

    def __init__(self, device: torch.device) -> None:
        super().__init__()
        self.target = device

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        if func is Tensor.cuda:
            return args[0].to(self.target)
        named = {name: self._placed(value) for name, value in (kwargs or {}).items()}
        return func(*map(self._placed, args), **named)

    def _placed(self, value: Any) -> Any:
        asked = isinstance(value, torch.device | str) and str(value).partition(":")[0] == "cuda"
        return self.target if asked else value


@contextmanager
def cuda_on(device: torch.device | str) -> Iterator[None]:
    """While this lasts, `.cuda()`, device="cuda" and `torch.cuda.FloatTensor` mean this device in this thread.

    OpenOOD's post-processors call them, GPU or not. One whose constructor does, too, is made inside of it::

        with farout.adapters.cuda_on("cpu"):
            scaling = TemperatureScalingPostprocessor(config)
    """
    target = torch.device(device)
    cuda: Any = torch.cuda
    kept = cuda.FloatTensor

    def float_tensor(data: Any) -> Tensor:
        return torch.tensor(data, dtype=torch.float32, device=target)

    cuda.FloatTensor = float_tensor
    try:
        with _CudaOn(target):
            yield
    finally:
        cuda.FloatTensor = kept
