"""Image sets and networks of a submission: described, so that identities can be worked out, but not on this machine."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from farout.core import ImageSet
from farout.data.arrays import MOST_CLASSES
from farout.data.catalog import first_indices
from farout.data.subset import Subset
from farout.leaderboard.submission import DataFacts, NetworkFacts, Origin
from farout.networks import Network, create, restrict
from farout.study.sources.networks import StoredNetwork
from farout.study.sources.opening import Opener
from farout.study.spec import DataSpec, NetworkSpec
from farout.study.store import score_table

LABEL, ORIGIN, ATTRIBUTE = "label", "origin_index", "attribute:"
"""Names of the columns of a table of images."""
MOST = 20_000_000
"""Largest number of images that a submission may name."""
Columns = dict[str, NDArray[Any]]


class DeclaredImages(ImageSet):
    """Image set without pixels: its description is all there is."""

    def __init__(self, facts: DataFacts, fingerprint: str, total: int) -> None:
        self.name, self.classes, self._print, self._total = facts.title, facts.classes, fingerprint, total
        self.shape = (facts.channels, facts.height, facts.width)
        self.labels = None

    def __len__(self) -> int:
        return self._total

    def batch(self, indices: ArrayLike) -> Tensor:
        raise RuntimeError(f"the images of {self.name} are described in the submission, and not on this machine")

    def _fingerprint(self) -> str:
        return self._print


def describe(images: ImageSet, spec: DataSpec, file: str) -> tuple[DataFacts, Columns]:
    """Return the description of an opened set, and the columns of its table."""
    origin = images.parent if isinstance(images, Subset) else None
    columns: Columns = {f"{ATTRIBUTE}{name}": np.asarray(values) for name, values in images.attributes.items()}
    if images.labels is not None:
        columns[LABEL] = images.labels
    if isinstance(images, Subset):
        columns[ORIGIN] = images.indices
    facts = DataFacts(
        name=spec.name, split=spec.split, options=spec.options, title=images.name, fingerprint=images.fingerprint,
        total=len(images), channels=images.shape[0], height=images.shape[1], width=images.shape[2],
        classes=tuple(images.classes), attributes=tuple(images.attributes), labeled=images.labels is not None,
        origin=None if origin is None else Origin(fingerprint=origin.fingerprint, total=len(origin)), file=file,
    )  # fmt: skip
    return facts, columns


def write_columns(columns: Columns, path: Path) -> None:
    """Write the table of a set."""
    score_table(columns)(path)


def read_columns(path: Path, expected: set[str], total: int) -> Columns:
    """Return the columns of a table of a submission. Raise for other columns, another length or other types."""
    if total > MOST:
        raise ValueError(f"{path.name} is for {total:,} images, at most {MOST:,} are read")
    try:
        file = pq.ParquetFile(path)
        if set(file.schema_arrow.names) != expected or file.metadata.num_rows != total:
            raise ValueError(
                f"{path.name} has {file.metadata.num_rows:,} rows of {sorted(file.schema_arrow.names)}, expected "
                f"{total:,} of {sorted(expected)}"
            )
        table = file.read(use_threads=False)
    except (pa.ArrowException, OSError) as error:
        raise ValueError(f"{path.name} cannot be read as Parquet ({error})") from error
    return {name: table.column(name).to_numpy() for name in table.column_names}


def declare(facts: DataFacts, path: Path) -> ImageSet:
    """Return the set that a submission describes. Raise if the description is inconsistent."""
    expected = {f"{ATTRIBUTE}{name}" for name in facts.attributes}
    expected |= ({LABEL} if facts.labeled else set()) | ({ORIGIN} if facts.origin else set())
    columns = read_columns(path, expected, facts.total) if expected else {}
    images: ImageSet = DeclaredImages(facts, facts.fingerprint, facts.total)
    if facts.origin is not None:
        indices = _whole(columns[ORIGIN], facts.origin.total, "an index in the origin")
        images = Subset(DeclaredImages(facts, facts.origin.fingerprint, facts.origin.total), indices, facts.title)
    if facts.labeled:
        images.labels = _whole(columns[LABEL], len(facts.classes) or MOST_CLASSES, "a label")
    images.attributes = {name: columns[f"{ATTRIBUTE}{name}"] for name in facts.attributes}
    if images.fingerprint != facts.fingerprint:
        raise ValueError(
            f"the fingerprint of {facts.key} is {facts.fingerprint}, and that of these images of its origin "
            f"{images.fingerprint}"
        )
    return images


def _whole(values: NDArray[Any], end: int, what: str) -> NDArray[np.int64]:
    if values.dtype != np.int64 or (len(values) and not (values.min() >= 0 and values.max() < end)):
        raise ValueError(f"{what} must be a whole number from 0 to {end - 1}")
    return values


class Recorder(Opener):
    """Opener that notes what it opens."""

    def __init__(self) -> None:
        self.sets: dict[str, tuple[DataSpec, ImageSet]] = {}
        self.networks: dict[tuple[Any, ...], tuple[StoredNetwork, str]] = {}

    def images(self, spec: DataSpec) -> ImageSet:
        unlimited = spec.model_copy(update={"limit": None, "label": None})
        self.sets[unlimited.model_dump_json()] = unlimited, super().images(unlimited)
        return super().images(spec)

    def network(self, source: StoredNetwork) -> Network:
        network = super().network(source)
        self.networks[network_key(source)] = source, network.digest
        return network


class Declarer(Opener):
    """Opener of what a submission describes."""

    def __init__(self, sets: Mapping[str, ImageSet], networks: Mapping[tuple[Any, ...], str]) -> None:
        self._sets, self._networks = sets, networks

    def images(self, spec: DataSpec) -> ImageSet:
        unlimited = spec.model_copy(update={"limit": None, "label": None})
        images = self._sets.get(unlimited.model_dump_json())
        if images is None:
            raise ValueError(
                f"the study names {unlimited.name}:{unlimited.split}, which the submission does not describe"
            )
        if spec.limit is None or spec.limit >= len(images):
            return images
        return images.subset(first_indices(images, spec.limit))

    def network(self, source: StoredNetwork) -> Network:
        spec = source.spec
        network = create(
            spec.name, source.classes, source.side, source.channels, mean=spec.mean, std=spec.std, **spec.params
        )
        return restrict(network, source.kept) if source.kept else network

    def digest(self, source: StoredNetwork) -> str:
        found = self._networks.get(network_key(source))
        if found is None:
            raise ValueError(f"the study names the network {source.label}, which the submission does not describe")
        return found


def network_key(source: StoredNetwork) -> tuple[Any, ...]:
    """Return the key of a network: all that it is built from."""
    spec = source.spec.model_copy(update={"label": None})
    return spec.model_dump_json(), source.classes, source.side, source.channels, source.kept


def describe_network(source: StoredNetwork, digest: str) -> NetworkFacts:
    """Return the description of an opened network."""
    spec = source.spec.model_copy(update={"label": None}).model_dump(mode="json")
    return NetworkFacts(
        spec=spec, classes=source.classes, side=source.side, channels=source.channels, kept=source.kept, digest=digest
    )


def declare_network(facts: NetworkFacts, folder: Path) -> tuple[tuple[Any, ...], str]:
    """Return the key of a network that a submission describes, and its digest."""
    spec = NetworkSpec.model_validate(facts.spec, context={"folder": folder})
    return network_key(
        StoredNetwork(spec, spec.title, facts.classes, facts.side, facts.channels, facts.kept)
    ), facts.digest
