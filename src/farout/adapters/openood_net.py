"""A network of ours as the post-processors of OpenOOD v1.5 know theirs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from farout.networks.network import Network


class Net(nn.Module):
    """A net as OpenOOD's: takes normalised images, gives logits, on demand features or a list of maps with them.

    The list holds the outputs of the network's blocks, in their order, the last one after pooling: the penultimate
    features as [B, D, 1, 1]. What else is asked for (avgpool, layer4, …) is looked up in the wrapped module.
    """

    def __init__(self, network: Network) -> None:
        super().__init__()
        self.network = network

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            network: Any = super().__getattr__("network")
            return getattr(network.module, name)

    @property
    def fc(self) -> nn.Linear:
        """The last linear layer."""
        layer = self.network.module.get_submodule(self.network.head_name)
        assert isinstance(layer, nn.Linear)
        return layer

    @property
    def feature_size(self) -> int:
        """Penultimate features."""
        return self.fc.in_features

    def get_fc_layer(self) -> nn.Linear:
        """The last linear layer."""
        return self.fc

    def get_fc(self) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Its weight and bias."""
        weight = self.fc.weight.detach()
        bias = weight.new_zeros(len(weight)) if self.fc.bias is None else self.fc.bias.detach()
        return weight.cpu().numpy(), bias.cpu().numpy()

    def forward(self, x: Tensor, return_feature: bool = False, return_feature_list: bool = False) -> Any:
        """Logits; with them the penultimate features, or the list of maps."""
        blocks = self.network.block_names if return_feature_list else ()
        logits, feature, maps = self._pass(x, blocks)
        if return_feature:
            return logits, feature
        return (logits, [*maps[:-1], feature[:, :, None, None]]) if return_feature_list else logits

    def forward_threshold(self, x: Tensor, threshold: float) -> Tensor:
        """Logits of the features, cut off above the threshold (ReAct)."""
        _, feature, _ = self._pass(x, ())
        logits: Tensor = self.fc(feature.clip(max=threshold))
        return logits

    def intermediate_forward(self, x: Tensor, layer_index: int) -> Tensor:
        """The output of a block, counted from 1."""
        names = self.network.block_names
        if not 1 <= layer_index <= len(names):
            raise ValueError(f"layer_index must lie between 1 and {len(names)} ({', '.join(names)}), got {layer_index}")
        _, _, maps = self._pass(x, names[layer_index - 1 : layer_index])
        return maps[0]

    def _pass(self, x: Tensor, blocks: Sequence[str]) -> tuple[Tensor, Tensor, list[Tensor]]:
        """Logits, penultimate features and the outputs of these blocks, from one pass."""
        kept: dict[str, Tensor] = {}

        def keep(name: str) -> Callable[[nn.Module, tuple[Tensor, ...], Tensor], None]:
            def hook(_module: nn.Module, _inputs: tuple[Tensor, ...], output: Tensor) -> None:
                kept[name] = output.clone(memory_format=torch.contiguous_format)  # theirs call .view on it

            return hook

        def keep_head(_module: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> None:
            kept["logits"], kept["feature"] = output, inputs[0].flatten(1)

        hooks = [self.fc.register_forward_hook(keep_head)]
        hooks += [self.network.module.get_submodule(name).register_forward_hook(keep(f":{name}")) for name in blocks]
        try:
            self.network.module(x)
        finally:
            for hook in hooks:
                hook.remove()
        return kept["logits"], kept["feature"], [kept[f":{name}"] for name in blocks]
