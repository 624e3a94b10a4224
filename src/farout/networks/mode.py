"""Modes of forward passes: reduced precision by autocast, and compilation by torch.compile."""

from __future__ import annotations

import copy
import shutil
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, get_args

import torch
from torch import Tensor, nn

from farout.checks import check_choice

if TYPE_CHECKING:
    from farout.networks.network import Network

Precision = Literal["fp32", "bf16", "fp16"]
TYPES: Mapping[str, torch.dtype] = {"bf16": torch.bfloat16, "fp16": torch.float16}
"""Reduced types by name."""
MOST_FORMS = 256
"""Largest number of compiled forms of one function (shapes, with and without gradients)."""


@dataclass(frozen=True)
class Mode:
    """Precision and compilation of a network's forward passes. Results of another mode have another identity.

    precision: with bf16 and fp16, convolutions and matrix products run under torch.autocast. Block statistics, the last
    linear layer and all detectors are computed in float32 or float64 in any mode. With fp16, a pass that records
    gradients is computed in float32, since gradients underflow in fp16.
    compile: blocks are compiled by torch.compile, for any batch size. On a CPU it needs a C++ compiler. Results agree
    with those of other runs to rounding, not to the byte: which compiled form serves a batch depends on those before.
    """

    precision: Precision = "fp32"
    compile: bool = False

    def __post_init__(self) -> None:
        check_choice("precision", self.precision, get_args(Precision))

    @property
    def plain(self) -> bool:
        """True for float32 without compilation, which is not part of identities."""
        return self == PLAIN

    @property
    def settings(self) -> dict[str, Any]:
        """Settings that are not the default ones."""
        precision = {} if self.precision == "fp32" else {"precision": self.precision}
        return precision | ({"compile": True} if self.compile else {})

    @property
    def suffix(self) -> str:
        """Text that names the settings after a network's name; empty for the default mode."""
        names = [self.precision] * (self.precision != "fp32") + ["compiled"] * self.compile
        return f" ({', '.join(names)})" if names else ""

    def identify(self, network: Any) -> Any:
        """Return the identity of a network in this mode, given that of the network alone."""
        return network if self.plain else {"network": network, **self.settings}

    def autocast(self, device: torch.device) -> AbstractContextManager[Any]:
        """Return the context of a forward pass."""
        dtype = TYPES.get(self.precision)
        if dtype is None or (dtype is torch.float16 and torch.is_grad_enabled()):
            return nullcontext()
        return torch.autocast(device.type, dtype)


PLAIN = Mode()
"""The default mode."""


def full(values: Tensor) -> Tensor:
    """Return values of reduced precision in float32, others as they are."""
    return values.float() if values.dtype in TYPES.values() else values


def in_mode(network: Network, mode: Mode) -> Network:
    """Return the network in this mode. Its modules are shared with the original unless one of both is compiled."""
    if network.mode == mode:
        return network
    changed: Network = copy.copy(network)
    changed.mode = mode
    if mode.compile or network.mode.compile:
        changed._modules = {**network._modules, "module": copy.deepcopy(network.plain_module)}
        changed._buffers = dict(network._buffers)
    if mode.compile:
        changed.plain_module = network.plain_module
        _compile(changed)
    return changed


def check_compiler(device: torch.device) -> None:
    """Raise if torch.compile cannot work on this device."""
    if device.type == "cpu" and not any(map(shutil.which, ("g++", "c++", "clang++"))):
        raise ValueError(
            "compile: true needs a C++ compiler on a CPU, and none of g++, c++ and clang++ is on the path: install "
            "one, or leave out compile"
        )


def _compile(network: Network) -> None:
    """Compile the network's blocks, or its children if it names none; hooks on these still run in between."""
    import torch._dynamo as dynamo  # slow to import
    from torch.fx.experimental import _config as shapes

    shapes.use_duck_shape = False  # a batch of 32 images of 32 px needs no form of its own
    dynamo.config.recompile_limit = max(dynamo.config.recompile_limit, MOST_FORMS)
    dynamo.config.fail_on_recompile_limit_hit = True  # otherwise it would go on without compilation, and say nothing
    for part in _parts(network):
        part.forward = torch.compile(part.forward, dynamic=True)


def _parts(network: Network) -> list[nn.Module]:
    """Return the outermost submodules that hold neither a block, whose output is read, nor the last layer."""
    read = {*network.block_names, network.head_name} - {""}
    found: list[nn.Module] = []

    def visit(module: nn.Module, name: str) -> None:
        inside = [other for other in read if other.startswith(f"{name}." if name else "")]
        listed = isinstance(module, nn.ModuleList | nn.ModuleDict)
        if name and not inside and not listed:
            if name != network.head_name and any(True for _ in module.parameters()):
                found.append(module)
            return
        for own, child in module.named_children():
            visit(child, f"{name}.{own}" if name else own)

    visit(network.module, "")
    return found
