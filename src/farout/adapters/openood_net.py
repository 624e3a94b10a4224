"""Network with the interface that OpenOOD's post-processors expect."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from farout.networks.network import Network


class Net(nn.Module):
    """Net with OpenOOD's interface: from normalized images to logits, optionally with features or a list of maps.

    The list holds the input of the network's first block, then the outputs of its blocks in order, the last one
    after pooling: the penultimate features as [B, D, 1, 1], as in OpenOOD's ResNets. Other attributes (avgpool,
    layer4, …) are looked up in the wrapped module. `name` is the post-processor's name, for errors.
    """

    def __init__(self, network: Network, name: str) -> None:
        super().__init__()
        self.network, self._name = network, name

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            network: Any = super().__getattr__("network")
            if hasattr(network.module, name):
                return getattr(network.module, name)
            kind = type(network.module).__name__
            raise AttributeError(
                f"{self._name} asks its net for {name!r}, and {kind} has none; give a net with it: OpenOOD(…, wrap=)"
            ) from None

    @property
    def fc(self) -> nn.Linear:
        """Last linear layer."""
        layer = self.network.module.get_submodule(self.network.head_name)
        assert isinstance(layer, nn.Linear)
        return layer

    @property
    def feature_size(self) -> int:
        """Number of penultimate features."""
        return self.fc.in_features

    def get_fc_layer(self) -> nn.Linear:
        """Return the last linear layer."""
        return self.fc

    def get_fc(self) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Return weight and bias of the last linear layer."""
        weight = self.fc.weight.detach()
        bias = weight.new_zeros(len(weight)) if self.fc.bias is None else self.fc.bias.detach()
        return weight.cpu().numpy(), bias.cpu().numpy()

    def forward(self, x: Tensor, return_feature: bool = False, return_feature_list: bool = False) -> Any:
        """Return logits, optionally with the penultimate features or the list of maps."""
        blocks = self.network.block_names if return_feature_list else ()
        logits, feature, maps = self._forward_blocks(x, blocks)
        if return_feature:
            return logits, feature
        return (logits, [*maps[:-1], feature[:, :, None, None]]) if return_feature_list else logits

    def forward_threshold(self, x: Tensor, threshold: float) -> Tensor:
        """Raise an error: the meaning of this method depends on OpenOOD's wrapper."""
        raise NotImplementedError(
            f"{self._name} calls net.forward_threshold, which differs between the nets of OpenOOD (clip, ash, "
            "scale, …); name the net: OpenOOD(…, wrap=openood.networks.react_net.ReactNet)"
        )

    def intermediate_forward(self, x: Tensor, layer_index: int) -> Tensor:
        """Return the output of a block, counted from 1."""
        names = self.network.block_names
        if not 1 <= layer_index <= len(names):
            raise ValueError(
                f"{self._name} reads block {layer_index} of its net, and the network has blocks 1 to {len(names)} "
                f"({', '.join(names)})"
            )
        _, _, maps = self._forward_blocks(x, names[layer_index - 1 : layer_index])
        return maps[-1]

    def _forward_blocks(self, x: Tensor, blocks: Sequence[str]) -> tuple[Tensor, Tensor, list[Tensor]]:
        """Return logits, penultimate features, the input of the first block and the output of each, from one pass."""
        captured: dict[str, Tensor] = {}

        def capture(name: str) -> Callable[[nn.Module, tuple[Tensor, ...], Tensor], None]:
            def hook(_module: nn.Module, _inputs: tuple[Tensor, ...], output: Tensor) -> None:
                captured[name] = _contiguous(output)

            return hook

        def capture_stem(_module: nn.Module, inputs: tuple[Tensor, ...]) -> None:
            captured[":"] = _contiguous(inputs[0])

        def capture_head(_module: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> None:
            captured["logits"], captured["feature"] = output, inputs[0].flatten(1)

        parts = [self.network.module.get_submodule(name) for name in blocks]
        hooks = [self.fc.register_forward_hook(capture_head)]
        hooks += [part.register_forward_hook(capture(f":{name}")) for name, part in zip(blocks, parts, strict=True)]
        hooks += [part.register_forward_pre_hook(capture_stem) for part in parts[:1]]
        try:
            self.network.module(x)
        finally:
            for hook in hooks:
                hook.remove()
        stem = [captured[":"]] if blocks else []
        return captured["logits"], captured["feature"], stem + [captured[f":{name}"] for name in blocks]


def _contiguous(maps: Tensor) -> Tensor:
    """Return a contiguous copy: later layers may work in place, and post-processors call .view on it."""
    return maps.clone(memory_format=torch.contiguous_format)
