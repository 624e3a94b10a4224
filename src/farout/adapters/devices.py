"""Run code written for a GPU on the network's device."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode


class _CudaOn(TorchFunctionMode):
    """Torch function mode that replaces every GPU by one device, in this thread."""

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
        named = {name: self._redirect(value) for name, value in (kwargs or {}).items()}
        return func(*map(self._redirect, args), **named)

    def _redirect(self, value: Any) -> Any:
        is_cuda = isinstance(value, torch.device | str) and str(value).partition(":")[0] == "cuda"
        return self.target if is_cuda else value


@contextmanager
def cuda_on(device: torch.device | str) -> Iterator[None]:
    """Inside the block, `.cuda()`, device="cuda" and `torch.cuda.FloatTensor` mean this device in this thread.

    OpenOOD's post-processors call them with or without a GPU. One whose constructor does so too is built inside::

        with farout.adapters.cuda_on("cpu"):
            scaling = TemperatureScalingPostprocessor(config)
    """
    target = torch.device(device)
    cuda: Any = torch.cuda
    original = cuda.FloatTensor

    def float_tensor(data: Any) -> Tensor:
        return torch.tensor(data, dtype=torch.float32, device=target)

    cuda.FloatTensor = float_tensor
    try:
        with _CudaOn(target):
            yield
    finally:
        cuda.FloatTensor = original
