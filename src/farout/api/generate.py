"""`farout.generate`: train generators on a data set, and write the Near-OoD or Shifted set that they make."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from pydantic import TypeAdapter, ValidationError

from farout.core import ImageSet
from farout.data import load
from farout.data.arrays import ATTRIBUTE_ARRAYS, as_bytes
from farout.data.paths import splits_of
from farout.data.writing.array_files import write_npz
from farout.data.writing.facts import read_facts
from farout.files import check_path, has_file, write_json
from farout.progress import Listener, shown
from farout.registry import unknown
from farout.study.cells.predict import PredictCell
from farout.study.engines.run import run
from farout.study.generated import generated_cuts, generated_from
from farout.study.members import member_accuracy, member_cells
from farout.study.quality import MOST, QualityPlan, plan_quality
from farout.study.sources.generated import GeneratedImages, GeneratedSet
from farout.study.sources.images import CutImages, ImageSource, NamedImages, subset
from farout.study.sources.networks import forget_loaded
from farout.study.spec import (
    BUDGETS,
    GENERATED,
    AnyImages,
    Budget,
    GeneratedSpec,
    InlierSplits,
    InliersSpec,
    format_problems,
)  # fmt: skip
from farout.study.store import Store
from farout.study.study import Inliers, inliers_from
from farout.tensors import chunks

MEASURED = ("images", "low", "high", "candidates", "share_kept")
"""Facts of a generated set that its description repeats."""
STORE = ".trained"
"""Folder of trained networks and generators inside the folder of a set."""


def generate(
    name: str,
    data: str | Path,
    out: str | Path,
    *,
    budget: Budget = "standard",
    workers: int = 0,
    device: str = "cpu",
    **settings: Any,
) -> ImageSet:
    """Train generators on a data set, write the set that they make to a folder, and return it.

    name: "near_ood" (images near the data, of none of its classes), "shifted" (changed images that keep their class)
        or "generated" (plain samples). data: a name, or the path of a file, a folder or shards; its train split, or
        all of it.
    settings: those of the set in a study file, such as count=1000, lambda_s=[1, 2], interval="mnist", seed=1,
        generator={"name": "dcgan", "width": 32}, ensemble=["lenet", {"name": "resnet18", "width": 16}].
    The same call resumes an interrupted one. Trained models are kept in OUT/.trained for further calls.
    """
    with shown() as listener:
        wanted = Wanted.of(name, str(data), budget, settings)
        write(wanted, Path(out), workers=workers, device=device, progress=listener)
    return load(Path(out) / f"{name}.npz")


class Wanted(NamedTuple):
    """Generated set to be written."""

    spec: GeneratedSpec
    images: GeneratedImages
    quality: QualityPlan | None
    members: list[PredictCell]
    """Predictions of the networks that the generators are trained against, on test images."""
    cuts: list[str]
    """Texts on what the budget leaves out."""
    data: dict[str, Any]
    """Name, number and fingerprint of the training images."""

    @classmethod
    def of(cls, name: str, data: str, budget: Budget, settings: dict[str, Any]) -> Wanted:
        """Plan a set. Raise for errors that can be found before any training."""
        if name not in GENERATED:
            raise unknown("generated set", name, GENERATED)
        if budget not in BUDGETS:
            raise unknown("budget", budget, BUDGETS)
        forget_loaded()
        inliers = inlier_splits(splits_to_train_on(data), budget)
        try:
            spec = TypeAdapter[Any](AnyImages).validate_python({"name": name, **settings})
        except ValidationError as error:
            raise ValueError(f"the settings of {name} are not valid:\n{format_problems(error)}") from None
        images = generated_from(spec, inliers, budget)
        about = (inliers.train or inliers.test).about
        facts = {"name": about.name, "images": about.total, "fingerprint": about.fingerprint}
        members = member_cells(images, subset(_tested(inliers), MOST))
        return cls(spec, images, plan_quality(images, inliers), members, generated_cuts(spec, images, budget), facts)


def _tested(inliers: Inliers) -> ImageSource:
    """Return labeled images that networks were not trained on: test images, or validation images."""
    return inliers.test if inliers.test.about.labeled or inliers.val is None else inliers.val


def splits_to_train_on(data: Any) -> InliersSpec:
    """Return the splits of a data set; training needs no test images, and val or train stands in for a missing test."""
    if isinstance(data, str) and "train" in (splits := splits_of(data)) and "test" not in splits:
        data = {split: {"name": data, "split": split} for split in ("train", "val") if split in splits}
        data["test"] = data.get("val", data["train"])
    return TypeAdapter[InliersSpec](InlierSplits).validate_python(data)


def inlier_splits(spec: InliersSpec, budget: Budget) -> Inliers:
    """Return the splits of a data set; of one without splits, a tenth serves for validation and as test images."""
    if spec.train is None:
        split = inliers_from(spec.model_copy(update={"train": spec.test}), budget)
        return replace(split, test=CutImages(NamedImages(spec.test), validation=True))
    return inliers_from(spec, budget)


def write(
    wanted: Wanted,
    out: Path,
    *,
    workers: int = 0,
    device: str = "cpu",
    plugins: tuple[str, ...] = (),
    progress: Listener | None = None,
) -> dict[str, Any]:
    """Compute the set, and write OUT/NAME.npz (images, labels and attributes) and OUT/NAME.json, which describes it.

    A set that is there already is left as it is. Return the description.
    """
    if out.is_file():
        raise ValueError(f"{out} is a file; expected a folder for the set with --out")
    target, manifest = (out / f"{wanted.spec.name}.{ending}" for ending in ("npz", "json"))
    cell = wanted.images.cell
    if has_file(target) | has_file(manifest):
        facts = read_facts(manifest) if has_file(manifest) else {}
        if facts.get("id") != cell.id:
            raise ValueError(
                f"{target} holds another set (see {manifest.name}); choose another folder with --out, or delete both "
                "files: trained models are kept and used again"
            )
        if has_file(target):
            return facts
    store = Store(check_path(out / STORE))
    cells = [cell, *(wanted.quality.cells.values() if wanted.quality else ()), *wanted.members]
    with store.open().lock():
        outcome = run(cells, store, workers=workers, device=device, plugins=plugins, progress=progress)
        if outcome.failed:
            raise RuntimeError("; ".join(dict.fromkeys(outcome.failed.values())))
        images = wanted.images.open(store)
        assert isinstance(images, GeneratedSet)
        facts = _facts(wanted, store)
        write_json(manifest, facts)
        _write(target, images)  # last: once it is there, the set is complete
    return facts


def _facts(wanted: Wanted, store: Store) -> dict[str, Any]:
    """Return the description of a set: how it was made, its measures, and what the budget left out."""
    cell = wanted.images.cell
    stored = store.facts(cell.id)
    facts: dict[str, Any] = {"id": cell.id, **{key: stored[key] for key in MEASURED if key in stored}}
    facts["settings"] = wanted.spec.model_dump(mode="json", exclude_unset=True)
    facts |= {"data": wanted.data, "left_out": wanted.cuts}
    if wanted.quality is not None:
        quality = wanted.quality.measure(store)
        facts["fid"] = {**quality._asdict(), "undertrained": quality.undertrained}
    if wanted.members:
        facts["ensemble"] = [member_accuracy(member, store)._asdict() for member in wanted.members]
    return facts


def _write(path: Path, images: GeneratedSet) -> None:
    channels, height, width = images.shape
    beside = {name: images.attributes[name] for name in ATTRIBUTE_ARRAYS if name in images.attributes}
    if images.labels is not None:
        beside["labels"] = images.labels
    write_npz(path, (len(images), height, width, channels), _blocks(images), beside, compress=True)


def _blocks(images: ImageSet) -> Iterator[bytes]:
    for part in chunks(len(images)):
        yield as_bytes(images.batch(np.arange(part.start, part.stop))).tobytes()
