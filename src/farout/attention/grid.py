"""Conversion of a layer's output to maps: maps of convolutions, and tokens of transformers, rearranged to a grid."""

from __future__ import annotations

import math
from typing import Any

from torch import Size, Tensor, nn


def is_map(output: Any, module: nn.Module, input_size: Size) -> bool:
    """Return True if a layer's output has more than one spatial position."""
    return (
        isinstance(output, Tensor)
        and output.ndim in (3, 4)
        and as_maps(output, module, input_size).shape[2:].numel() > 1
    )


def as_maps(output: Tensor, module: nn.Module, input_size: Size) -> Tensor:
    """Return maps [B, C, H, W], channels-last maps [B, H, W, C] or tokens [B, N, C] as [B, C, H, W].

    module: the whole network, which may state the layout of its maps and the number of prefix tokens.
    input_size: height and width of the images.
    """
    if output.ndim == 4:
        return output.permute(0, 3, 1, 2) if _channels_last(output, module, input_size) else output
    if output.ndim == 3:
        if input_size[0] != input_size[1]:
            raise ValueError(f"tokens need square images, got {input_size[0]}×{input_size[1]} px: crop or resize them")
        patches = output[:, prefix_tokens(output, module) :]
        side = math.isqrt(patches.shape[1])
        return patches.reshape(len(patches), side, side, -1).permute(0, 3, 1, 2)
    raise ValueError(
        f"expected maps [B, C, H, W], [B, H, W, C] or tokens [B, N, C], got shape {list(output.shape)}; "
        "pass another layer as layer="
    )


def prefix_tokens(tokens: Tensor, module: nn.Module) -> int:
    """Return the number of tokens [B, N, C] before the patches: class tokens, registers.

    The number that the module states (timm's `num_prefix_tokens`) if the rest is a square number, else the number that
    leaves the largest square.
    """
    total, stated = tokens.shape[1], _stated(module, "num_prefix_tokens")
    if stated is not None and 0 <= stated < total and math.isqrt(total - stated) ** 2 == total - stated:
        return int(stated)
    return total - math.isqrt(total) ** 2


def _channels_last(maps: Tensor, module: nn.Module, input_size: Size) -> bool:
    """Return True for [B, H, W, C]: square images have square maps; if both layouts are square, the module decides."""
    _, first, second, third = maps.shape
    if input_size[0] == input_size[1] and (first == second) != (second == third):
        return first == second
    return bool(_stated(module, "output_fmt") == "NHWC")


def _stated(module: nn.Module, attribute: str) -> Any:
    """Return the attribute of the outermost submodule that has it; else None."""
    return next((getattr(part, attribute) for part in module.modules() if hasattr(part, attribute)), None)
