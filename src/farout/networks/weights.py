"""Weights on disk: written atomically as safetensors, read without unpickling anything but tensors."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

import safetensors.torch
import torch
from torch import Tensor, nn

from farout.files import atomic_file
from farout.networks.fine_tuning import adapted

Loaded = TypeVar("Loaded", bound=nn.Module)
UNCHANGED = (
    "Create the network with the classes, side and channels of the file (classes=10; in a study classes: 10; "
    "farout attack --classes 10); if only its features are read, a network of timm can be created without "
    "a classifier (classes=0, in a study classes: 0)"
)
"""Advice for weights that are used unchanged."""
FINE_TUNED = (
    "Only the head may differ from the network that is to be fine-tuned: give the file's own architecture, with its "
    "channels and patches (in a study side: 224 for a file trained at that side)"
)
"""Advice for weights that a training starts from."""


WRAPPERS = ("state_dict", "model", "model_state", "model_state_dict", "net")
"""Keys under which checkpoints hold the state dict, beside an optimizer or an epoch."""


def save_weights(network: nn.Module, path: str | Path) -> None:
    """Write the network's weights and buffers to a safetensors file."""
    write_tensors(Path(path), network.state_dict(), {"format": "pt"})


def load_weights(network: Loaded, path: str | Path, *, fine_tune: bool = False) -> Loaded:
    """Load the weights of a safetensors file, or of a .pt or .pth file that holds only tensors, into a network.

    A wrapper, {"state_dict": ...} or {"model": ...}, and a "module." prefix are removed; counters of batch norms
    (`num_batches_tracked`), which older files lack, may be missing. The classifier in a file is ignored if the
    network was created without one (classes=0).

    fine_tune: the network is to be trained further. It keeps its own head where the file has none that fits (other
        classes), and positions of a vision transformer are resampled to its side; all else must fit.
    """
    tensors = _without_classifier(_plain_names(read_tensors(Path(path)), network), network)
    if fine_tune:
        tensors = adapted(tensors, network)
    own = network.state_dict()
    counters = {key: value for key, value in own.items() if key.endswith("num_batches_tracked")}
    check_tensors(own, counters | tensors, Path(path), FINE_TUNED if fine_tune else UNCHANGED)
    network.load_state_dict(counters | tensors)
    return network


def read_tensors(path: Path) -> dict[str, Tensor]:
    """Return the tensors of a weights file by name, on the CPU."""
    if not path.is_file():
        raise FileNotFoundError(f"no weights at {path}; expected a .safetensors, .pt or .pth file")
    try:
        if path.suffix == ".safetensors":
            return dict(safetensors.torch.load_file(path))
        content = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # damaged files make both readers raise almost anything
        reason = f"{type(error).__name__}: {error}".split("\n")[0].split(". ")[0]
        raise ValueError(
            f"{path} cannot be read as weights ({reason}). Expected a safetensors file, or a file that torch.save made "
            "from a state_dict; a whole pickled module is not read: save its state_dict()"
        ) from error
    return _tensors_of(content, path)


def _tensors_of(content: object, path: Path) -> dict[str, Tensor]:
    """Return the state dict in the result of `torch.load`."""
    if isinstance(content, Mapping):
        content = next((content[key] for key in WRAPPERS if isinstance(content.get(key), Mapping)), content)
    if not isinstance(content, Mapping) or not all(isinstance(value, Tensor) for value in content.values()):
        raise ValueError(f"{path} holds a {type(content).__name__} that is no state_dict; expected names with tensors")
    return {str(key): value for key, value in content.items()}


def write_tensors(path: Path, tensors: Mapping[str, Tensor], metadata: Mapping[str, str]) -> None:
    """Write a safetensors file atomically."""
    copies = {
        key: tensor.detach().cpu().clone(memory_format=torch.contiguous_format) for key, tensor in tensors.items()
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_file(path) as temporary:
        safetensors.torch.save_file(copies, temporary, dict(metadata))


def _plain_names(tensors: dict[str, Tensor], network: nn.Module) -> dict[str, Tensor]:
    """Return the state without the prefix "module." that data-parallel training adds to every name."""
    wrapped = all(key.startswith("module.") for key in tensors)
    if wrapped and not any(key.startswith("module.") for key in network.state_dict()):
        return {key.removeprefix("module."): value for key, value in tensors.items()}
    return tensors


def _without_classifier(tensors: dict[str, Tensor], network: nn.Module) -> dict[str, Tensor]:
    """Return a file's weights without those of layers that the network declares as left out."""
    left_out: Sequence[str] = getattr(getattr(network, "module", network), "left_out", ())
    prefixes = tuple(f"{layer}." for layer in left_out)
    return {key: value for key, value in tensors.items() if not key.startswith(prefixes)}


def check_tensors(own: Mapping[str, Tensor], got: Mapping[str, Tensor], path: Path, advice: str) -> None:
    """Raise an error unless a file's tensors have the names, shapes and kinds of numbers that are expected."""
    if missing := own.keys() - got.keys():
        raise ValueError(f"{path} lacks {_some(missing)}; unexpected names in it: {_some(got.keys() - own.keys())}")
    if extra := got.keys() - own.keys():
        raise ValueError(f"{path} has {_some(extra)}, which the network does not have; it expects {_some(own)}")
    other = [
        f"{key} {list(got[key].shape)} (expected {list(own[key].shape)})"
        for key in own
        if got[key].shape != own[key].shape
    ]
    if other:
        raise ValueError(f"{path} has other shapes than the network: {_some(other)}. {advice}")
    _check_numbers(own, got, path)


def _check_numbers(own: Mapping[str, Tensor], got: Mapping[str, Tensor], path: Path) -> None:
    """Raise an error if weights are not floating-point numbers, or counters not integers."""
    kinds = [f"{key} {got[key].dtype}" for key in own if _kind(got[key]) != _kind(own[key])]
    if kinds:
        raise ValueError(f"{path} has numbers of another kind than the network: {_some(kinds)}; expected floats")
    if unknown := [key for key in own if got[key].is_floating_point() and bool(got[key].isnan().any())]:
        raise ValueError(f"{path} has NaN in {_some(unknown)}; the training that wrote it has diverged")


def _kind(tensor: Tensor) -> str:
    if tensor.layout != torch.strided:
        return str(tensor.layout)
    if tensor.is_floating_point():
        return "float"
    return "integer" if tensor.dtype in _INTEGERS else str(tensor.dtype)


_INTEGERS = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)


def _some(names: Iterable[str]) -> str:
    """Return the first few names, for a message."""
    names = sorted(names)
    return ", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "") if names else "nothing"
