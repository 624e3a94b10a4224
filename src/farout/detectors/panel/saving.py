"""Saved panels: what their files hold, and the digest of what a detector has learned."""

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
from farout.detectors.panel.provenance import Images, Tuned
from farout.identity import digest_arrays
from farout.networks.weights import write_tensors
from farout.scores import Scores

FORMAT = 2
READABLE = (1, FORMAT)
"""Format 1 writes every tensor, also one that several detectors share, and knows of no tuning or learning."""


class Kept(NamedTuple):
    """What a file keeps of a panel besides its detectors."""

    states: dict[str, dict[str, Tensor]]
    validation: Scores
    tuned: dict[str, Tuned]
    learned: dict[str, Images]


def state_digest(detector: PostHoc) -> str:
    """Hash of what a detector has learned."""
    return digest_arrays((key, value.cpu().numpy()) for key, value in sorted(detector.state.items()))


def write(path: str | Path, network: str, detectors: Mapping[str, PostHoc], kept: Kept) -> None:
    """Write what a panel has learned; a tensor that is the same in several detectors is written once."""
    found = {f"{name}/{key}": value for name, state in kept.states.items() for key, value in state.items()}
    shared = _shared(found)
    tensors = {key: value for key, value in found.items() if key not in shared}
    tensors |= {f"{name}//validation": torch.from_numpy(scores) for name, scores in kept.validation.items()}
    facts = {"format": FORMAT, "network": network, "detectors": _identities(detectors), "shared": shared}
    facts["states"] = {name: sorted(state) for name, state in kept.states.items()}
    facts["tuned"] = {name: tuned.as_json() for name, tuned in kept.tuned.items()}
    facts["learned"] = {name: dataclasses.asdict(images) for name, images in kept.learned.items()}
    write_tensors(Path(path), tensors, {"farout": json.dumps(facts)})


def read(path: str | Path, detectors: Mapping[str, PostHoc], device: torch.device) -> Kept:
    """What a panel of these detectors has learned; an error where the file is that of others."""
    with reading(path), opened(path) as file:
        return _kept(file, detectors, device, path)


def _kept(file: Any, detectors: Mapping[str, PostHoc], device: torch.device, path: str | Path) -> Kept:
    facts, mine = facts_of(file.metadata(), path), _identities(detectors)
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
    return Kept(states, validation, tuned, {name: Images(**one) for name, one in facts.get("learned", {}).items()})


def opened(path: str | Path) -> Any:
    """The file, open for reading; an error that says so where it is none of ours."""
    try:
        return safe_open(str(path), framework="pt")
    except SafetensorError as error:
        raise ValueError(f"{path} is not a saved panel ({error})") from error


def facts_of(metadata: dict[str, str] | None, path: str | Path) -> dict[str, Any]:
    """The facts that a saved panel carries beside its tensors."""
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
        raise ValueError(f"{path} is a damaged panel: it does not say of which network and detectors; fit it again")
    return facts


@contextmanager
def reading(path: str | Path) -> Iterator[None]:
    """Raise what a damaged panel leads to as a ValueError that names the file."""
    try:
        yield
    except ValueError:
        raise
    except (SafetensorError, KeyError, TypeError, AttributeError, IndexError) as error:
        raise ValueError(f"{path} is a damaged panel ({type(error).__name__}: {error}); fit it again") from error


def member(spec: dict[str, Any]) -> PostHoc:
    """The detector of this identity, not fitted; nothing else is made, whatever a file asks for."""
    from farout.adapters import catalog  # adapters know detectors, and not the other way round

    name = spec["name"]
    maker = catalog.home(name)[name]
    if not (isinstance(maker, type) and issubclass(maker, PostHoc)):
        raise ValueError(f"a saved panel holds post-hoc detectors only, got {name!r}")
    detector = catalog.create(name, **spec["params"])
    assert isinstance(detector, PostHoc)
    return detector


def _identities(detectors: Mapping[str, PostHoc]) -> dict[str, Any]:
    """What the detectors are, as it comes back from a file."""
    identities: dict[str, Any] = json.loads(json.dumps({name: d.identity() for name, d in detectors.items()}))
    return identities


def _shared(tensors: dict[str, Tensor]) -> dict[str, str]:
    """For every tensor that repeats an earlier one bit by bit, the key of the first such."""
    alike: dict[Any, list[str]] = {}
    shared: dict[str, str] = {}
    for key, tensor in tensors.items():
        firsts = alike.setdefault((tensor.dtype, tensor.shape), [])
        first = next((other for other in firsts if _same(tensor, tensors[other])), None)
        if first is None:
            firsts.append(key)
        else:
            shared[key] = first
    return shared


def _same(a: Tensor, b: Tensor) -> bool:
    """Have two tensors of one type and shape the same bits?"""
    in_place = a.data_ptr() == b.data_ptr() and a.stride() == b.stride() and a.device == b.device
    return in_place or torch.equal(_bits(a), _bits(b).to(a.device))


def _bits(tensor: Tensor) -> Tensor:
    return tensor.contiguous().reshape(-1).view(torch.uint8)
