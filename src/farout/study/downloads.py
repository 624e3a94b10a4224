"""Missing downloads of a study."""

from __future__ import annotations

from contextlib import suppress

from farout.data.cache import cache_folder
from farout.data.download import NotDownloaded, offline
from farout.networks.timm_bridge import expect_weights
from farout.study.cuts import cut_to_budget
from farout.study.sources.images import NamedImages
from farout.study.spec import DataSpec, StudySpec


def missing_downloads(spec: StudySpec) -> NotDownloaded:
    """Return an error that lists every file a run would download. Downloads nothing itself."""
    spec, _ = cut_to_budget(spec)
    inliers = spec.inliers
    named = (
        inliers.train,
        inliers.val,
        inliers.test,
        *spec.outliers,
        spec.validation_outliers,
        *spec.auxiliary_outliers,
    )
    with offline() as absent:
        for data in named:
            with suppress(NotDownloaded):
                if isinstance(data, DataSpec):
                    NamedImages(data).preview()
        for part in (part for network in spec.networks for part in network.parts):
            if part.pretrained:
                with suppress(NotDownloaded):
                    expect_weights(part.name)
    lines = [f"  {name} from {address}" for name, address in absent.items()]
    files = "1 file is" if len(lines) == 1 else f"{len(lines)} files are"
    return NotDownloaded(
        f"{files} missing, and `farout plan` downloads nothing:\n" + "\n".join(lines) + "\n"
        f"`farout run` downloads them into {cache_folder()} (set FAROUT_DATA for another folder); plan after that"
    )
