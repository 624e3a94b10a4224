"""Files of a submission: exactly those that the manifest lists, unchanged, and no links."""

from __future__ import annotations

from collections.abc import Iterator

from farout.files import UnsafePath, sha256
from farout.leaderboard.submission import LARGEST, MANIFEST, Submission


def file_errors(submission: Submission) -> Iterator[str]:
    """Yield what is wrong with the files, without reading the content of any."""
    try:
        found = submission.listing
    except UnsafePath as error:
        yield f"unsafe path: {error}"
        return
    listed = submission.manifest.files
    for path in sorted(found - listed.keys() - {MANIFEST}):
        yield f"{path} is not listed in {MANIFEST}; a submission holds nothing else"
    for path, facts in sorted(listed.items()):
        if path not in found:
            yield f"{path} is missing"
            continue
        size = (submission.root / path).stat().st_size
        if size != facts.bytes:
            how = "truncated" if size < facts.bytes else "longer than it was"
            yield f"{path} is {how}: it has {size:,} bytes, {MANIFEST} lists {facts.bytes:,}"
        elif path.endswith(".json") and size > LARGEST:
            yield f"{path} has {size:,} bytes, at most {LARGEST:,} are read"
        elif sha256(submission.root / path, submission.root) != facts.sha256:
            yield f"{path} has changed: its checksum is not the one in {MANIFEST}"
