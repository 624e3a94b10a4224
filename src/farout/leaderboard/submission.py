"""Layout of a submission: one folder, whose manifest lists every file in it with its checksum.

submission.json   the manifest: versions, image sets, networks, files
plan.json         the study and its results by protocol, as `farout run` wrote them
packs/            results of large runs, many in one file
cells/<id>/       record.json and the files of a result: scores.parquet, examples.safetensors, …
failures/<id>.json  why a result is missing
data/<n>.parquet  labels and attributes of the images of one set
intervals.json, tables/, report.html   what was computed from the scores; compared, never believed

Nothing in a submission is imported, unpickled or run, and no path in it leads out of it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from farout.data.known import key_of
from farout.files import files_in, has_file
from farout.identity import digest
from farout.study.records import Damaged, is_plain, read_verified_json
from farout.study.spec import format_problems

MANIFEST = "submission.json"
FORMAT = 1
LARGEST = 1 << 26
"""Largest number of bytes of a JSON file in a submission."""
Hex = Annotated[str, Field(pattern=r"^[0-9a-f]{40}$")]


LAYOUT = re.compile(
    r"(plan\.json|intervals\.json|report\.html|tables/[^/]+\.(csv|tex)|data/\d+\.parquet|failures/[^/]+\.json|cells/[^/]+/[^/]+)"
    r"|packs/[0-9a-f]{64}\.pack"
)
"""Files that a submission may hold."""


def _plain_path(path: str) -> str:
    """Raise for a path that could lead out of the folder, or that is no part of a submission."""
    if not all(is_plain(part) for part in path.split("/")) or not LAYOUT.fullmatch(path):
        raise ValueError(f"{path[:200]!r} is not the path of a file of a submission")
    return path


class _Part(BaseModel):
    """Base of the parts of a manifest: immutable, no unknown keys, no conversion of types."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class Versions(_Part):
    """Versions of the software that packed the submission."""

    farout: str
    python: str
    torch: str
    numpy: str


class Origin(_Part):
    """Set that the images are a part of."""

    fingerprint: Hex
    total: Annotated[int, Field(ge=0)]


class DataFacts(_Part):
    """Image set that the study names: everything about it but the pixels."""

    name: str
    """Name in the study; of a file or folder the last part of its path."""
    split: str
    options: dict[str, Any]
    title: str
    """Name of the opened set."""
    fingerprint: Hex
    total: Annotated[int, Field(ge=0)]
    channels: Annotated[int, Field(ge=1, le=4)]
    height: Annotated[int, Field(ge=1, le=4096)]
    width: Annotated[int, Field(ge=1, le=4096)]
    classes: tuple[str, ...] = Field(strict=False)
    attributes: tuple[str, ...] = Field(strict=False)
    labeled: bool
    origin: Origin | None
    file: Annotated[str, AfterValidator(_plain_path)]
    """Table with the labels, the attributes, and the indices of the images in the origin."""

    @property
    def key(self) -> str:
        """Key in a table of fingerprints."""
        return key_of(self.name, self.split, self.options)


class NetworkFacts(_Part):
    """Network with existing weights that the study names."""

    spec: dict[str, Any]
    classes: int
    side: int
    channels: int
    kept: tuple[int, ...] = Field(strict=False)
    digest: Hex
    """Hash of the weights and of all else that determines the activations."""


class FileFacts(_Part):
    """Size and checksum of a file."""

    bytes: Annotated[int, Field(ge=0)]
    sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


class Manifest(_Part):
    """Content of submission.json; it holds no figure."""

    format: int
    name: str = Field(min_length=1, max_length=200)
    packed_at: Annotated[str, Field(pattern=r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00$")]
    versions: Versions
    data: list[DataFacts]
    networks: list[NetworkFacts]
    files: dict[Annotated[str, AfterValidator(_plain_path)], FileFacts]


class Broken(ValueError):
    """The submission cannot be read, so that nothing else in it can be checked."""


class Submission:
    """Folder of a submission, with its manifest."""

    def __init__(self, root: str | Path) -> None:
        self.root = Path(root)
        path = self.root / MANIFEST
        if not self.root.is_dir() or not has_file(path):
            raise FileNotFoundError(
                f"{root} holds no submission (no {MANIFEST}); give a folder that `farout leaderboard pack` wrote"
            )
        if path.stat().st_size > LARGEST:
            raise Broken(f"{MANIFEST} has {path.stat().st_size:,} bytes, at most {LARGEST:,} are read")
        self.manifest, self.id = _read(path)

    @cached_property
    def listing(self) -> set[str]:
        """Paths of all files in the folder, as the manifest spells them. Raise for a symbolic link."""
        return {path.relative_to(self.root).as_posix() for path in files_in(self.root)}

    def named(self, prefix: str) -> Iterator[str]:
        """Yield the listed files below a folder."""
        return (path for path in sorted(self.manifest.files) if path.startswith(prefix))


def _read(path: Path) -> tuple[Manifest, str]:
    """Return the manifest, and the hash that identifies the submission."""
    try:
        content = read_verified_json(path)
        if content.get("format") != FORMAT:
            raise Broken(f"{MANIFEST} has format {content.get('format')!r}, this version reads format {FORMAT}")
        return Manifest.model_validate(content), digest(content)
    except Damaged as error:
        raise Broken(str(error)) from None
    except ValidationError as error:
        raise Broken(f"{MANIFEST} is not valid:\n{format_problems(error)}") from None
    except RecursionError:
        raise Broken(f"{MANIFEST} is nested too deeply") from None
