"""Files of saved panels, and the digest of a detector's fitted state."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from farout.core import PostHoc
from farout.detectors.catalog import create_any, registry_with
from farout.detectors.panel.provenance import ImagesRecord, Tuned
from farout.identity import digest_arrays
from farout.networks.weights import write_tensors
from farout.scores import Scores

FORMAT = 2
READABLE = (1, FORMAT)
"""Readable formats. Format 1 stores shared tensors repeatedly, and has no records of tuning or learning."""


class PanelState(NamedTuple):
    """Content of a panel file besides the detectors' identities."""

    states: dict[str, dict[str, Tensor]]
    validation: Scores
    tuned: dict[str, Tuned]
    learned: dict[str, ImagesRecord]


def state_digest(detector: PostHoc) -> str:
    """Return the hash of a detector's fitted state."""
    return digest_arrays((key, value.cpu().numpy()) for key, value in sorted(detector.state.items()))


def write(path: str | Path, network: str, detectors: Mapping[str, PostHoc], panel_state: PanelState) -> None:
    """Write the fitted state of a panel; a tensor that several detectors share is written once."""
    all_tensors = {f"{name}/{key}": value for name, state in panel_state.states.items() for key, value in state.items()}
    shared = _find_duplicates(all_tensors)
    tensors = {key: value for key, value in all_tensors.items() if key not in shared}
    tensors |= {f"{name}//validation": torch.from_numpy(scores) for name, scores in panel_state.validation.items()}
    facts = {"format": FORMAT, "network": network, "detectors": _identities(detectors), "shared": shared}
    facts["states"] = {name: sorted(state) for name, state in panel_state.states.items()}
    facts["tuned"] = {name: tuned.as_json() for name, tuned in panel_state.tuned.items()}
    facts["learned"] = {name: dataclasses.asdict(images) for name, images in panel_state.learned.items()}
    write_tensors(Path(path), tensors, {"farout": json.dumps(facts)})


def read(path: str | Path, detectors: Mapping[str, PostHoc], device: torch.device) -> PanelState:
    """Read the fitted state of a panel of these detectors; raise if the file has other detectors."""
    with name_damaged_file(path), open_panel(path) as file:
        return _parse_state(file, detectors, device, path)


def _parse_state(file: Any, detectors: Mapping[str, PostHoc], device: torch.device, path: str | Path) -> PanelState:
    facts, mine = read_metadata(file.metadata(), path), _identities(detectors)
    if facts["detectors"] != mine:
        raise ValueError(f"{path} holds {facts['detectors']}, this panel is {mine}: fit it again")
    tensors: dict[str, Tensor] = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
    validation = {key.removesuffix("//validation"): tensors.pop(key).numpy() for key in list(tensors) if "//" in key}
    tensors = {key: value.to(device) for key, value in tensors.items()}
    tensors |= {key: tensors[first] for key, first in facts.get("shared", {}).items()}
    states: dict[str, dict[str, Tensor]] = {name: {} for name in detectors}
    for key, value in tensors.items():
        name, _, rest = key.partition("/")
        states[name][rest] = value
    if any(sorted(states[name]) != keys for name, keys in facts.get("states", {}).items()):
        raise ValueError(f"{path} is a damaged panel: tensors are missing; fit it again")
    tuned = {name: Tuned.from_json(one) for name, one in facts.get("tuned", {}).items()}
    return PanelState(
        states, validation, tuned, {name: ImagesRecord(**one) for name, one in facts.get("learned", {}).items()}
    )


def open_panel(path: str | Path) -> Any:
    """Open the file for reading; raise ValueError if it is not a panel."""
    if not Path(str(path)).is_file():
        raise FileNotFoundError(f"no panel at {str(path)!r}; expected a .safetensors file that panel.save wrote")
    try:
        return safe_open(str(path), framework="pt")
    except SafetensorError as error:
        raise ValueError(f"{path} is not a saved panel ({error})") from error


def read_metadata(metadata: dict[str, str] | None, path: str | Path) -> dict[str, Any]:
    """Return the metadata of a saved panel."""
    if not metadata or "farout" not in metadata:
        raise ValueError(f"{path} is not a saved panel")
    try:
        facts: dict[str, Any] = json.loads(metadata["farout"])
        written = facts["format"]
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise ValueError(f"{path} is a damaged panel ({type(error).__name__}: {error}); fit it again") from error
    if written not in READABLE:
        raise ValueError(f"{path} has format {written}, this version reads formats up to {FORMAT}")
    if not isinstance(facts.get("network"), str) or not isinstance(facts.get("detectors"), dict):
        raise ValueError(f"{path} is a damaged panel: network or detectors are missing; fit it again")
    return facts


@contextmanager
def name_damaged_file(path: str | Path) -> Iterator[None]:
    """Turn errors from damaged files into a ValueError that names the file."""
    try:
        yield
    except ValueError:
        raise
    except (SafetensorError, KeyError, TypeError, AttributeError, IndexError) as error:
        raise ValueError(f"{path} is a damaged panel ({type(error).__name__}: {error}); fit it again") from error


def build_detector(spec: dict[str, Any]) -> PostHoc:
    """Build the unfitted post-hoc detector of this identity; refuse any other class that a file may name."""
    name = spec["name"]
    builder = registry_with(name)[name]
    if not (isinstance(builder, type) and issubclass(builder, PostHoc)):
        raise ValueError(f"a saved panel holds post-hoc detectors only, got {name!r}")
    detector = create_any(name, **spec["params"])
    assert isinstance(detector, PostHoc)
    return detector


def _identities(detectors: Mapping[str, PostHoc]) -> dict[str, Any]:
    """Return the detectors' identities in the form that JSON reads back."""
    identities: dict[str, Any] = json.loads(json.dumps({name: d.identity() for name, d in detectors.items()}))
    return identities


def _find_duplicates(tensors: dict[str, Tensor]) -> dict[str, str]:
    """Map every tensor that equals an earlier one bit by bit to the key of the first such tensor."""
    alike: dict[Any, list[str]] = {}
    shared: dict[str, str] = {}
    for key, tensor in tensors.items():
        firsts = alike.setdefault((tensor.dtype, tensor.shape), [])
        first = next((other for other in firsts if _equal_bits(tensor, tensors[other])), None)
        if first is None:
            firsts.append(key)
        else:
            shared[key] = first
    return shared


def _equal_bits(a: Tensor, b: Tensor) -> bool:
    """Return True if two tensors of one dtype and shape have the same bits."""
    in_place = a.data_ptr() == b.data_ptr() and a.stride() == b.stride() and a.device == b.device
    return in_place or torch.equal(_bits(a), _bits(b).to(a.device))


def _bits(tensor: Tensor) -> Tensor:
    return tensor.contiguous().reshape(-1).view(torch.uint8)
