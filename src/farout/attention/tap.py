"""Capture of a layer's output in a forward pass, for Grad-CAM."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import get_ident
from typing import Any

from torch import Size, Tensor, nn
from torch.utils.hooks import RemovableHandle

from farout.attention.grid import is_map, prefix_tokens
from farout.networks.network import Network
from farout.registry import unknown

NORMS = (nn.LayerNorm, nn.RMSNorm)
"""Normalization layers before a transformer's attention."""


class Tap:
    """Forward hooks that, while `open`, store the output of one layer in `output` (passes of this thread only).

    The layer is the named one, else the last block whose output has more than one position (at 32 px, a VGG's last
    block has a single pixel). If that block returns tokens with a prefix, such as a class token, it is the norm that
    reads the block's input, before the attention: if the head reads only the class token, the patches after the last
    attention have no gradient. pytorch-grad-cam recommends this norm too (`blocks[-1].norm1`).

    The layer's output is replaced by a copy, since a later layer may work in place.
    """

    def __init__(self, network: Network, layer: str | None, input_size: Size) -> None:
        self.module, self.layer, self.input_size = network.module, layer, input_size
        self.output: Tensor | None = None
        self.name = layer or ""
        self._blocks = () if layer else _blocks(network)
        self._input: Tensor | None = None
        self._normed: Tensor | None = None
        self._thread = get_ident()

    @contextmanager
    def open(self) -> Iterator[None]:
        """Register the hooks for the duration of the block."""
        hooks = self._hook_layer(self.layer) if self.layer else []
        for name in self._blocks:
            hooks += self._hook_block(name)
        try:
            yield
        finally:
            for hook in hooks:
                hook.remove()

    def captured(self) -> Tensor:
        """Return the output of the layer; raise an error if the pass did not produce it."""
        if self.output is not None:
            return self.output
        if self.layer:
            raise RuntimeError(f"the layer {self.layer!r} did not run in this forward pass; pass another layer=")
        if self.name:
            raise ValueError(
                f"block {self.name!r} returns a class token, and none of its norms reads its input, so the layer is "
                "unknown; pass the name of the norm before the last attention as layer="
            )
        raise ValueError(
            "no block returns a map with more than one position; pass the name of a layer that does as layer="
        )

    def _hook_layer(self, layer: str) -> list[RemovableHandle]:
        parts = dict(self.module.named_modules())
        if layer not in parts:
            raise unknown(f"submodule of {type(self.module).__name__}:", layer, [part for part in parts if part])

        def leave(_module: nn.Module, _inputs: Any, output: Any) -> Tensor | None:
            if get_ident() != self._thread:
                return None
            if not isinstance(output, Tensor):
                raise TypeError(f"layer {layer!r} gives a {type(output).__name__}, expected a tensor")
            self.output = _leaf(output)
            return self.output.clone()

        return [parts[layer].register_forward_hook(leave)]

    def _hook_block(self, name: str) -> list[RemovableHandle]:
        block = self.module.get_submodule(name)

        def enter(_module: nn.Module, inputs: tuple[Any, ...]) -> tuple[Any, ...] | None:
            if get_ident() != self._thread or not inputs or not isinstance(inputs[0], Tensor):
                return None
            tokens = self._has_prefix(inputs[0])  # then the norm is used, and earlier layers need no gradients
            self._input, self._normed = inputs[0].detach() if tokens else inputs[0], None
            return (self._input, *inputs[1:])

        def pass_norm(_module: nn.Module, inputs: tuple[Any, ...], output: Tensor) -> Tensor | None:
            if get_ident() != self._thread or not inputs or inputs[0] is not self._input:
                return None
            self._normed = output if output.requires_grad else _leaf(output)
            return self._normed.clone()

        def leave(_module: nn.Module, _inputs: Any, output: Any) -> Tensor | None:
            if get_ident() != self._thread or not is_map(output, self.module, self.input_size):
                return None
            self.name = name
            if self._has_prefix(output):
                self.output = self._normed
                return None
            self.output = _leaf(output)
            return self.output.clone()

        norms = [part for part in block.modules() if isinstance(part, NORMS) and part is not block]
        hooks = [block.register_forward_pre_hook(enter), *(norm.register_forward_hook(pass_norm) for norm in norms)]
        return [*hooks, block.register_forward_hook(leave)]

    def _has_prefix(self, tokens: Tensor) -> bool:
        return tokens.ndim == 3 and prefix_tokens(tokens, self.module) > 0


def _leaf(output: Tensor) -> Tensor:
    return output.detach().requires_grad_()


def _blocks(network: Network) -> tuple[str, ...]:
    """Return the names of the network's blocks, else (channels-last networks) timm's stages."""
    stages = getattr(network.module, "feature_info", ())
    blocks = network.block_names or tuple(stage["module"] for stage in stages)
    if not blocks:
        raise ValueError(f"{type(network.module).__name__} names no blocks; pass the name of a layer as layer=")
    return blocks
