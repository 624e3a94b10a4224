"""A device that is none: its tensors lie in the memory of the CPU, but keep to the rules of a device of their own."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves, tree_map_only

DEVICE, CPU = torch.device("privateuseone", 0), torch.device("cpu")


class Away(Tensor):
    """A tensor on the device. What functions make of it, `PretendDevice` puts there too."""

    __torch_function__ = torch._C._disabled_torch_function_impl


class PretendDevice(TorchFunctionMode):
    """Within it, `images.to(DEVICE)` and `torch.arange(3, device=DEVICE)` make tensors that never meet the CPU's.

    numpy does not see them, and without float64 none may have that type. What goes from one to the other is copied.
    """

    def __init__(self, float64: bool = True) -> None:
        super().__init__()
        self.float64 = float64

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        given = tree_leaves((args, kwargs))
        comes_from = _place(x for x in given if isinstance(x, Tensor))
        if getattr(func, "__self__", None) is Tensor.device:
            return comes_from
        if comes_from == DEVICE and func in (Tensor.numpy, Tensor.__array__):
            raise TypeError("numpy sees no tensor of this device")
        named = [CPU] if func is Tensor.cpu else [x for x in given if isinstance(x, torch.device)]
        goes_to = named[-1] if named else comes_from
        args, kwargs = tree_map_only(torch.device, lambda _: CPU, (args, kwargs or {}))
        result = func(*args, **kwargs)
        if isinstance(result, torch.Size) or comes_from == goes_to == CPU:
            return result
        return tree_map_only(Tensor, lambda x: self._put(x, comes_from, goes_to), result)

    def _put(self, result: Tensor, comes_from: torch.device, goes_to: torch.device) -> Tensor:
        if goes_to == DEVICE and result.dtype == torch.float64 and not self.float64:
            raise TypeError("this device has no float64")
        crossed = result if comes_from == goes_to else result.clone()
        return crossed.as_subclass(Away if goes_to == DEVICE else Tensor)


def _place(tensors: Iterable[Tensor]) -> torch.device:
    """Where all of these lie."""
    away = {isinstance(tensor, Away) for tensor in tensors}
    if len(away) == 2:
        raise RuntimeError("tensors of this device and of the CPU meet")
    return DEVICE if True in away else CPU
