"""Network: wrapper of a classifier with its normalizer and last linear layer; one forward pass gives activations."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from threading import get_ident
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from farout.core import PER_BLOCK, Activations, Head
from farout.identity import digest, digest_module
from farout.networks.mode import PLAIN, Mode, full, in_mode
from farout.networks.statistics import STATISTICS
from farout.registry import unknown

PROBE_SIDES = (32, 224, 64, 28, 96, 299)
"""Sides tried, in this order, to run a module that does not state its own."""


class Network(nn.Module):
    """Classifier that maps images in [0, 1] to `Activations`.

    module: any `nn.Module` from normalized images to logits; of another `Network`, its module is used.
    mean, std: the normalizer, one number per channel (or one for all): (x - mean) / std.
    head: name of the last linear layer; by default found by running the module once. False if there is none: then the
        module's output [B, D] are the features, there are no logits, and detectors that need logits raise an error.
    blocks: names of the submodules whose outputs are in `Activations`; default: the module's `block_names`, else its
        outermost submodules that return feature maps.
    side: the side to which images are resized; default: the side that the module states, else no resizing.
    """

    mean: Tensor
    std: Tensor
    head_name: str
    """Name of the last linear layer; empty if there is none."""
    name: str
    """Name of the architecture in tables and records: the one it was created by, else the class of its module."""
    mode: Mode = PLAIN
    """Precision and compilation of its forward passes; `running` changes it."""

    def __init__(
        self,
        module: nn.Module,
        *,
        mean: float | Sequence[float],
        std: float | Sequence[float],
        head: str | Literal[False] | None = None,
        blocks: Sequence[str] | None = None,
        side: int | None = None,
    ) -> None:
        super().__init__()
        if not isinstance(module, nn.Module):
            got = f"the class {module.__name__}" if isinstance(module, type) else f"{module!r:.80}"
            raise TypeError(
                f"expected a torch.nn.Module, got {got}; farout.networks.create(name, …) builds networks by name"
            )
        if isinstance(blocks, str) or not isinstance(blocks, Sequence | None):
            raise TypeError(f'blocks must list names of submodules, ["layer1", "layer2"], got {blocks!r}')
        if side is not None and (isinstance(side, bool) or not isinstance(side, int) or side < 1):
            raise ValueError(f"side must be a whole number of pixels of at least 1, or None, got {side!r}")
        if isinstance(module, Network):
            if isinstance(module.module, nn.ModuleList):
                raise TypeError("an ensemble is already a network and has no single module: use it directly")
            head = False if head is None and not module.head_name else head
            module = module.module
        self.module: nn.Module = module.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        self.name = type(module).__name__
        self.side = side or side_of(module)
        self.register_buffer("mean", _per_channel(mean, module, "mean"), persistent=False)
        self.register_buffer("std", _per_channel(std, module, "std"), persistent=False)
        if self.mean.shape != self.std.shape:
            raise ValueError(f"mean and std must have the same number of values, got mean={mean!r} and std={std!r}")
        if self.mean.max() > 1:
            raise ValueError(
                f"images are in [0, 1], so mean must be at most 1, got {mean!r}; divide mean and std by 255"
            )
        if not (self.std > 0).all():
            raise ValueError(f"std must be positive, got {self.std.flatten().tolist()}")
        self.eval()
        named = getattr(module, "block_names", None) if blocks is None else blocks
        self.block_names = tuple(named or ())
        for name in (*self.block_names, *([head] if head else [])):
            self._submodule(name)
        self.head_name = "" if head is False else head or self._find_head()
        if self.head_name and not isinstance(self._submodule(self.head_name), nn.Linear):
            raise ValueError(
                f"head {self.head_name!r} is a {type(self._submodule(self.head_name)).__name__}, not a Linear"
            )
        if named is None:
            self.block_names = self._find_blocks()

    def forward(self, images: Tensor, *, needs: Collection[str] = ("blocks",)) -> Activations:
        """Return features and logits of images [B, C, H, W] in [0, 1], and the statistics in `needs` of every block."""
        kept: dict[str, Tensor] = {}
        wanted = [kind for kind in PER_BLOCK if kind in needs]
        names = self.block_names if wanted else ()
        with self._capturing(kept, names, wanted), self.mode.autocast(images.device):
            output = self.module(self.normalize(images))
        features, logits = self._features_and_logits(kept, output, len(images))
        silent = [name for name in names if f"{wanted[0]}:{name}" not in kept]
        if silent:
            raise RuntimeError(
                f"the blocks {', '.join(silent)} did not run in this forward pass; pass others as blocks="
            )
        tables: dict[str, Any] = {kind: {name: kept[f"{kind}:{name}"] for name in names} for kind in wanted}
        if not names:  # the features are the only block of a network without blocks
            tables = {kind: {"features": STATISTICS[kind](features)} for kind in wanted if kind != "blocks"}
        return Activations(logits, features, head=self.head, **tables)

    def _features_and_logits(self, kept: Mapping[str, Tensor], output: Any, total: int) -> tuple[Tensor, Tensor]:
        """Return features and logits of a pass; raise an error if it did not produce them."""
        if not self.head_name:
            if not isinstance(output, Tensor) or output.ndim != 2 or len(output) != total:
                got = f"shape {list(output.shape)}" if isinstance(output, Tensor) else type(output).__name__
                raise RuntimeError(f"a module without a head must return features [B, D], got {got} for {total} images")
            output = self._lift(output)
            return output, output.new_empty(total, 0)
        if "logits" not in kept:
            raise RuntimeError(
                f"the head {self.head_name!r} did not run in this forward pass; pass the right one as head="
            )
        if kept["logits"].ndim != 2 or len(kept["logits"]) != total:
            raise RuntimeError(
                f"the head {self.head_name!r} returned shape {list(kept['logits'].shape)} for {total} images, "
                "expected logits [B, C]; pass the layer that returns them as head="
            )
        return kept["features"].flatten(1), kept["logits"]

    def running(self, mode: Mode) -> Network:
        """Return the same network in another mode: reduced precision, or compiled."""
        return in_mode(self, mode)

    @property
    def plain_module(self) -> nn.Module:
        """The module without compilation."""
        module: nn.Module = self.__dict__.get("_plain_module", [self.module])[0]
        return module

    @plain_module.setter
    def plain_module(self, module: nn.Module) -> None:
        self.__dict__["_plain_module"] = [module]  # in a list, so that it is not a submodule

    def normalize(self, images: Tensor) -> Tensor:
        """Return the input of the module: channels matched, resized to its side, normalized, channels last."""
        if not isinstance(images, Tensor):
            raise TypeError(
                f"expected a tensor of images [B, C, H, W], got {type(images).__name__}; of a set, set.batch(indices)"
            )
        if images.ndim != 4:
            raise ValueError(f"expected images [B, C, H, W], got shape {list(images.shape)}")
        if not images.is_floating_point():
            raise TypeError(f"expected floats in [0, 1], got {images.dtype}; divide 8-bit images by 255")
        channels = self.mean.shape[1]
        if images.shape[1] == 1 < channels:
            images = images.expand(-1, channels, -1, -1)
        if images.shape[1] != channels:
            raise ValueError(f"the network needs {channels}-channel images, got {images.shape[1]} channels")
        if self.side is not None and images.shape[2:] != (self.side, self.side) and len(images):
            images = F.interpolate(images, (self.side, self.side), mode="bilinear", antialias=True)
        return ((images - self.mean) / self.std).contiguous(memory_format=torch.channels_last)

    @property
    def head(self) -> Head | None:
        """Weight and bias of the last linear layer, detached, not copied; None if there is none."""
        if not self.head_name:
            return None
        linear = self._submodule(self.head_name)
        assert isinstance(linear, nn.Linear)
        bias = linear.bias if linear.bias is not None else linear.weight.new_zeros(linear.out_features)
        return Head(linear.weight.detach(), bias.detach())

    @property
    def classes(self) -> int:
        """Number of logits; 0 for a network without a head."""
        if not self.head_name:
            return 0
        linear = self._submodule(self.head_name)
        assert isinstance(linear, nn.Linear)
        return linear.out_features

    @property
    def channels(self) -> int:
        """Number of input channels; gray images are repeated for 3 channels."""
        return self.mean.shape[1]

    @property
    def statistics_names(self) -> tuple[str, ...]:
        """Names in `means`, `grids` and `grams`: the blocks; "features" for a network without blocks."""
        return self.block_names or ("features",)

    @property
    def device(self) -> torch.device:
        """Device of the network."""
        return self.mean.device

    @property
    def digest(self) -> str:
        """Hash of everything that determines the activations: weights, structure, normalizer, side, head."""
        normalizer = [self.mean.flatten().tolist(), self.std.flatten().tolist()]
        parts = [digest_module(self.plain_module), normalizer, self.side, self.head_name, list(self.block_names)]
        return digest(self.mode.identify(digest(parts)) if not self.mode.plain else parts)

    def state_dict(self, *args: Any, **kwargs: Any) -> Any:
        """Return the wrapped module's state, so that weights have the same names as without the wrapper."""
        return self.module.state_dict(*args, **kwargs)

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *args: Any) -> None:
        """Load the names that `state_dict` writes, if this network is a submodule."""
        for key in [key for key in state_dict if key.startswith(prefix)]:
            state_dict[f"{prefix}module.{key.removeprefix(prefix)}"] = state_dict.pop(key)
        super()._load_from_state_dict(state_dict, prefix, *args)

    def load_state_dict(self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False) -> Any:
        """Load the wrapped module's state."""
        return self.module.load_state_dict(state_dict, strict=strict, assign=assign)

    def _submodule(self, name: str) -> nn.Module:
        try:
            found: nn.Module = self.module.get_submodule(name)
        except AttributeError:
            found = self.module
        if found is self.module:
            parts = [part for part, _ in self.module.named_modules() if part]
            raise unknown(f"submodule of {type(self.module).__name__}:", name, parts)
        return found

    @contextmanager
    def evaluating(self) -> Iterator[None]:
        """Set evaluation mode within the block and restore the mode of every submodule afterwards."""
        training = [part for part in self.modules() if part.training]
        self.eval()
        try:
            yield
        finally:
            for part in training:
                part.training = True

    @contextmanager
    def _capturing(self, kept: dict[str, Tensor], blocks: Sequence[str], wanted: Sequence[str]) -> Iterator[None]:
        """Register hooks that write the head's input and output and the blocks' statistics to `kept`, within the block.

        Outputs are copied, because a later layer may work in place. Forward passes of other threads through the same
        modules are ignored.
        """
        thread = get_ident()

        def keep_head(head: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> None:
            if get_ident() == thread:
                kept["features"], kept["logits"] = self._lift(inputs[0]), self._full_logits(head, inputs[0], output)

        def keep_block(name: str) -> Any:
            def keep(_module: nn.Module, _inputs: tuple[Tensor, ...], output: Any) -> None:
                if get_ident() != thread:
                    return
                if not isinstance(output, Tensor):
                    raise TypeError(f"block {name!r} returns a {type(output).__name__}, expected a tensor")
                for kind in wanted:
                    kept[f"{kind}:{name}"] = STATISTICS[kind](self._lift(output))

            return keep

        hooks = [self._submodule(self.head_name).register_forward_hook(keep_head)] if self.head_name else []
        hooks += [self._submodule(name).register_forward_hook(keep_block(name)) for name in blocks]
        try:
            yield
        finally:
            for hook in hooks:
                hook.remove()

    def _lift(self, values: Tensor) -> Tensor:
        """Return values of a pass in reduced precision as float32."""
        return values if self.mode.precision == "fp32" else full(values)

    def _full_logits(self, head: nn.Module, features: Tensor, logits: Tensor) -> Tensor:
        """Return a copy of the logits; those of a pass in reduced precision are computed again in float32."""
        if self.mode.precision == "fp32" or not isinstance(head, nn.Linear):
            return logits.clone()
        with torch.autocast(features.device.type, enabled=False):
            return F.linear(full(features), full(head.weight), None if head.bias is None else full(head.bias))

    @torch.no_grad()
    def _find_blocks(self) -> tuple[str, ...]:
        """Return the outermost submodules that return feature maps or tokens, found by a pass of two gray images.

        Empty if the module cannot be run on such images (its input size is unknown): the features are then its block.
        """
        inner = _children(self.module)
        while len(inner) == 1:
            ((name, part),) = inner.items()
            inner = {f"{name}.{below}": child for below, child in _children(part).items()}
        found: dict[str, None] = {}

        def see(name: str) -> Any:
            def note(_module: nn.Module, _inputs: Any, output: Any) -> None:
                if isinstance(output, Tensor) and output.ndim in (3, 4) and len(output) == 2:
                    found[name] = None

            return note

        hooks = [part.register_forward_hook(see(name)) for name, part in inner.items()]
        try:
            self._probe()
        except ValueError:
            return ()
        finally:
            for hook in hooks:
                hook.remove()
        return tuple(found)

    @torch.no_grad()  # not inference_mode: buffers that the probe moves to another device could not have gradients
    def _find_head(self) -> str:
        """Return the name of the Linear whose output is the module's output, found by a pass of two gray images."""
        linears = {name: part for name, part in self.module.named_modules() if name and isinstance(part, nn.Linear)}
        outputs: dict[str, Tensor] = {}
        hooks = [
            part.register_forward_hook(lambda _m, _i, output, name=name: outputs.__setitem__(name, output.clone()))
            for name, part in linears.items()
        ]
        try:
            logits = self._probe()
        finally:
            for hook in hooks:
                hook.remove()
        for name, output in reversed(outputs.items()):
            if output.ndim == 2 and output.shape == logits.shape and torch.equal(output, logits):
                return name
        raise ValueError(
            f"no head found in {type(self.module).__name__}: none of its Linear layers "
            f"({', '.join(linears) or 'it has none'}) "
            "returns the module's output. If something follows the last layer (a softmax, a sum of two heads), pass "
            "the layer that returns the logits as head='...'; if the classifier ends in a convolution, wrap it so that "
            "it ends in a Linear; if it is no classifier and its outputs are features, pass head=False."
        )

    def _probe(self) -> Tensor:
        device = next((p.device for p in self.module.parameters()), self.mean.device)
        self.to(device)
        errors = []
        for side in (self.side,) if self.side else PROBE_SIDES:
            images = torch.full((2, self.mean.shape[1], side, side), 0.5, device=device)
            try:
                logits = self.module(self.normalize(images))
            except Exception as error:
                errors.append(f"{side} px: {type(error).__name__}: {error}".splitlines()[0])
                continue
            if not isinstance(logits, Tensor) or logits.ndim != 2 or len(logits) != 2:
                got = f"shape {list(logits.shape)}" if isinstance(logits, Tensor) else type(logits).__name__
                raise ValueError(f"{type(self.module).__name__} must return logits [B, C], got {got} for two images")
            if logits.isnan().any():
                raise ValueError(f"{type(self.module).__name__} returns NaN for a gray image; check its weights")
            return logits
        raise ValueError(
            f"{type(self.module).__name__} could not be run on {self.mean.shape[1]}-channel images "
            f"({'; '.join(errors)}). Pass side= and one mean and std per channel."
        )


def _children(module: nn.Module) -> dict[str, nn.Module]:
    """Return the submodules by name; of a list or mapping, which is never run itself, its entries."""
    found: dict[str, nn.Module] = {}
    for name, part in module.named_children():
        listed = isinstance(part, nn.ModuleList | nn.ModuleDict)
        found |= {f"{name}.{below}": child for below, child in _children(part).items()} if listed else {name: part}
    return found


def side_of(module: nn.Module) -> int | None:
    """Return the input side that a module states: `side` of our networks, or a transformer's patch embedding.

    timm's `pretrained_cfg` is ignored: it says 224 px even for a network built and trained at 32 px.
    """
    patches = getattr(getattr(module, "patch_embed", None), "img_size", None)
    for side in (getattr(module, "side", None), patches):
        if side is not None:
            return int(side[-1]) if isinstance(side, Sequence) else int(side)
    return None


def _per_channel(value: float | Sequence[float], module: nn.Module, what: str) -> Tensor:
    """Return the normalizer's numbers as [1, C, 1, 1]; a single number is repeated for every input channel."""
    try:
        numbers = torch.as_tensor(value, dtype=torch.float32).flatten()
    except (TypeError, ValueError, RuntimeError):
        raise ValueError(f"{what} must be one finite number per channel (1 or 3), got {value!r}") from None
    if len(numbers) == 1:
        convolutions = (part.in_channels for part in module.modules() if isinstance(part, nn.Conv2d))
        default = 1 if isinstance(value, Sequence) else 3
        numbers = numbers.repeat(next((channels for channels in convolutions if channels in (1, 3)), default))
    if len(numbers) not in (1, 3) or not numbers.isfinite().all():
        raise ValueError(f"{what} must be one finite number per channel (1 or 3), got {value!r}")
    return numbers.view(1, -1, 1, 1)
