"""A network of ours as OpenOOD's post-processors know theirs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from farout.networks.network import Network


class Net(nn.Module):
    """A net as OpenOOD's: takes normalized images, gives logits, on demand features or a list of maps with them.

    The list holds what enters the network's first block, then the outputs of its blocks in their order, the last one
    after pooling: the penultimate features as [B, D, 1, 1]. So OpenOOD's ResNets have it. What else is asked for
    (avgpool, layer4, …) is looked up in the wrapped module. `who` is the post-processor's name, for errors.
    """

    def __init__(self, network: Network, who: str) -> None:
        super().__init__()
        self.network, self.who = network, who

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            network: Any = super().__getattr__("network")
            if hasattr(network.module, name):
                return getattr(network.module, name)
            kind = type(network.module).__name__
            raise AttributeError(
                f"{self.who} asks its net for {name!r}, and {kind} has none; give a net that has it: OpenOOD(…, wrap=)"
            ) from None

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
        """An error: OpenOOD wraps its nets, and each wrapper means something else by it."""
        raise NotImplementedError(
            f"{self.who} calls net.forward_threshold, which means something else in each net of OpenOOD (clip, ash, "
            "scale, …); say which one: OpenOOD(…, wrap=openood.networks.react_net.ReactNet)"
        )

    def intermediate_forward(self, x: Tensor, layer_index: int) -> Tensor:
        """The output of a block, counted from 1."""
        names = self.network.block_names
        if not 1 <= layer_index <= len(names):
            raise ValueError(
                f"{self.who} reads block {layer_index} of its net, and the network has blocks 1 to {len(names)} "
                f"({', '.join(names)})"
            )
        _, _, maps = self._pass(x, names[layer_index - 1 : layer_index])
        return maps[-1]

    def _pass(self, x: Tensor, blocks: Sequence[str]) -> tuple[Tensor, Tensor, list[Tensor]]:
        """Logits, penultimate features, and what enters the first of these blocks and leaves each, from one pass."""
        kept: dict[str, Tensor] = {}

        def keep(name: str) -> Callable[[nn.Module, tuple[Tensor, ...], Tensor], None]:
            def hook(_module: nn.Module, _inputs: tuple[Tensor, ...], output: Tensor) -> None:
                kept[name] = _contiguous(output)

            return hook

        def keep_stem(_module: nn.Module, inputs: tuple[Tensor, ...]) -> None:
            kept[":"] = _contiguous(inputs[0])

        def keep_head(_module: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> None:
            kept["logits"], kept["feature"] = output, inputs[0].flatten(1)

        parts = [self.network.module.get_submodule(name) for name in blocks]
        hooks = [self.fc.register_forward_hook(keep_head)]
        hooks += [part.register_forward_hook(keep(f":{name}")) for name, part in zip(blocks, parts, strict=True)]
        hooks += [part.register_forward_pre_hook(keep_stem) for part in parts[:1]]
        try:
            self.network.module(x)
        finally:
            for hook in hooks:
                hook.remove()
        stem = [kept[":"]] if blocks else []
        return kept["logits"], kept["feature"], stem + [kept[f":{name}"] for name in blocks]


def _contiguous(maps: Tensor) -> Tensor:
    """A copy, since later layers may work in place, and post-processors call .view on it."""
    return maps.clone(memory_format=torch.contiguous_format)
