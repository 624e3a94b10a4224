"""Devices: what this machine has, the device of each worker, and copies that do not wait."""

from __future__ import annotations

import torch
from torch import Tensor


def available() -> list[str]:
    """Return the devices of this machine."""
    gpus = [f"cuda:{index}" for index in range(torch.cuda.device_count())] if torch.cuda.is_available() else []
    return ["cpu", *gpus, *(["mps"] if torch.backends.mps.is_available() else [])]


def as_device(device: str | torch.device) -> torch.device:
    """Return the device. Raise if tensors cannot be created on it."""
    try:
        return torch.empty(0, device=device).device
    except (RuntimeError, AssertionError) as error:
        why = str(error).splitlines()[0]
        raise ValueError(
            f"cannot run on device {str(device)!r}: {why}; this machine has {', '.join(available())}"
        ) from error


def default_workers(device: str, cores: int) -> int:
    """Return the number of worker processes: one per core, on a GPU one per GPU."""
    kind, _, index = device.partition(":")
    if kind == "cpu":
        return cores
    return max(1, torch.cuda.device_count()) if kind == "cuda" and not index else 1


def worker_device(device: torch.device, worker: int) -> torch.device:
    """Return the device of the worker at this position: of `cuda`, one GPU after the other."""
    gpus = torch.cuda.device_count() if device.type == "cuda" and device.index is None else 0
    return torch.device("cuda", worker % gpus) if gpus else device


def is_host(device: torch.device) -> bool:
    """Return True if tensors on the device can be read at once; reading one on a GPU waits for all work before it."""
    return device.type == "cpu"


def to_device(values: Tensor, device: torch.device) -> Tensor:
    """Return the values on the device; a copy to a GPU goes through pinned memory, and nobody waits for it."""
    if device.type == "cuda" and is_host(values.device):
        return values.pin_memory().to(device, non_blocking=True)
    return values.to(device)
