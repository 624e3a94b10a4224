"""What a layer gives, as maps: those of convolutions as they are, a transformer's tokens back on their grid."""

from __future__ import annotations

import math
from typing import Any

from torch import Size, Tensor, nn


def is_map(output: Any, module: nn.Module, seen: Size) -> bool:
    """Does a layer's output have more than one place?"""
    return isinstance(output, Tensor) and output.ndim in (3, 4) and as_maps(output, module, seen).shape[2:].numel() > 1


def as_maps(output: Tensor, module: nn.Module, seen: Size) -> Tensor:
    """Maps [B, C, H, W], channels-last maps [B, H, W, C] or tokens [B, N, C] as [B, C, H, W].

    module: the whole network, which may say how its maps are laid out and how many tokens are no patches.
    seen: height and width of the images that went in.
    """
    if output.ndim == 4:
        return output.permute(0, 3, 1, 2) if _channels_last(output, module, seen) else output
    if output.ndim == 3:
        if seen[0] != seen[1]:
            raise ValueError(f"tokens are put on a square grid, got images of {seen[0]}×{seen[1]} px: make them square")
        patches = output[:, prefix_tokens(output, module) :]
        side = math.isqrt(patches.shape[1])
        return patches.reshape(len(patches), side, side, -1).permute(0, 3, 1, 2)
    raise ValueError(
        f"expected maps [B, C, H, W], [B, H, W, C] or tokens [B, N, C], got shape {list(output.shape)}; "
        "name a layer that gives such with layer="
    )


def prefix_tokens(tokens: Tensor, module: nn.Module) -> int:
    """How many of the tokens [B, N, C] come before the patches: class tokens, registers.

    As many as the module says (timm's `num_prefix_tokens`) where that leaves a square of patches, else as many as
    stand before the largest square.
    """
    total, stated = tokens.shape[1], _stated(module, "num_prefix_tokens")
    if stated is not None and 0 <= stated < total and math.isqrt(total - stated) ** 2 == total - stated:
        return int(stated)
    return total - math.isqrt(total) ** 2


def _channels_last(maps: Tensor, module: nn.Module, seen: Size) -> bool:
    """Is this [B, H, W, C]? Square images leave square maps; where both readings are square, the module says."""
    _, first, second, third = maps.shape
    if seen[0] == seen[1] and (first == second) != (second == third):
        return first == second
    return bool(_stated(module, "output_fmt") == "NHWC")


def _stated(module: nn.Module, attribute: str) -> Any:
    """What the outermost part that has this attribute says."""
    return next((getattr(part, attribute) for part in module.modules() if hasattr(part, attribute)), None)
