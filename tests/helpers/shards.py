"""Shards as others write them: tar archives in WebDataset's layout, Parquet tables as Hugging Face writes them."""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

Member = tuple[str, bytes] | tarfile.TarInfo


def write_tar(path: Path, members: Iterable[Member]) -> Path:
    """Write a tar archive of names and contents, or of headers without content."""
    with tarfile.open(path, "w") as archive:
        for member in members:
            if isinstance(member, tarfile.TarInfo):
                archive.addfile(member)
                continue
            header = tarfile.TarInfo(member[0])
            header.size = len(member[1])
            archive.addfile(header, io.BytesIO(member[1]))
    return path


def samples(images: Sequence[bytes], labels: Sequence[object] | None = None, first: int = 0) -> list[Member]:
    """Members 00000.png, and 00000.cls if there are labels."""
    found = list[Member]()
    for place, image in enumerate(images):
        found.append((f"{first + place:05}.png", image))
        if labels is not None:
            found.append((f"{first + place:05}.cls", str(labels[place]).encode()))
    return found


def write_table(path: Path, columns: Mapping[str, Any], names: Sequence[str] = (), rows: int = 4) -> Path:
    """Write a Parquet table, with the metadata that Hugging Face writes if classes have names."""
    table = pa.table(dict(columns))
    if names:
        features = {"image": {"_type": "Image"}, "label": {"names": list(names), "_type": "ClassLabel"}}
        about = {"huggingface": json.dumps({"info": {"features": features}})}
        table = table.replace_schema_metadata(about)
    pq.write_table(table, path, row_group_size=rows)
    return path


def cells(images: Sequence[bytes | None]) -> list[dict[str, Any] | None]:
    """Images as Hugging Face stores them."""
    return [None if image is None else {"bytes": image, "path": f"{k}.png"} for k, image in enumerate(images)]
