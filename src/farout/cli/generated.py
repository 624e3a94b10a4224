"""Verb `generate`: train generators on a data set, and write the set that they make."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from farout.cli.ending import stoppable
from farout.cli.options import (
    BudgetName,
    Device,
    Plugins,
    Quiet,
    Workers,
    load_plugins,
    plugin_paths,
    settings,
    worker_count,
)


class GeneratedName(StrEnum):
    """Generated sets."""

    near_ood = "near_ood"
    shifted = "shifted"
    generated = "generated"


def generate(
    name: Annotated[
        GeneratedName,
        typer.Argument(
            help="near_ood: outliers near the data; shifted: changed images of the data; generated: plain samples."
        ),
    ],
    data: Annotated[
        str,
        typer.Option(help="Inliers: a name, or the path of a file, a folder or shards; its train split, or all of it."),
    ],
    out: Annotated[Path, typer.Option("--out", help="Folder for the set and the trained models.")],
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", help="Setting of the set as in a study file, may be repeated: --set 'lambda_s=[1, 2]'."),
    ] = None,
    count: Annotated[
        int | None, typer.Option(min=1, help="Number of images.", show_default="1,000 to 10,000, by budget")
    ] = None,
    budget: Annotated[
        BudgetName, typer.Option(help="quick: minutes; standard: hours; full: as in the paper.")
    ] = BudgetName.standard,
    seed: Annotated[int, typer.Option(min=0, help="Random seed.")] = 0,
    workers: Workers = None,
    device: Device = "cpu",
    plugin: Plugins = None,
    quiet: Quiet = False,
) -> None:
    """Make a benchmark from a training set alone: train an ensemble of classifiers and generators on it, and write
    OUT/NAME.npz with images, labels and attributes, and OUT/NAME.json, which says how they were made and how good they
    are (FID beside a plain generator's and uniform noise's).

    near_ood: images that look like the data and belong to none of its classes: pooled samples of generators with
    several weights lambda_s of the semantic loss, those alone on whose class the ensemble disagrees (mutual information
    in an interval). Attributes mi, lambda_s and, of a conditional generator, class_label. For outlier detection.

    shifted: the data's test images, changed as much as possible with their class kept. For calibration.

    Settings (--set): generator, e.g. '{name: dcgan, width: 32, train: {epochs: 50}}'; ensemble, e.g.
    '[{name: lenet, train: {epochs: 20}}, {name: resnet18, width: 16, train: {epochs: 20}}]'; features (the network of
    the perceptual loss); lambda_s; lambda_p; lambda_c (of shifted: weight of the loss that keeps the class); interval:
    auto, mnist, cifar10, cifar100, imagenet or '[0.1, 0.5]'.

    The same command again resumes an interrupted run. Trained models are kept in OUT/.trained: another set in the same
    folder uses the same ensemble. farout.load("OUT") reads a single set, farout.load("OUT/near_ood.npz") one of
    several; a study takes both as outliers.

    Example: farout generate near_ood --data mnist --out near_mnist --budget quick --set interval=mnist
    """
    load_plugins(plugin)
    from farout.api.generate import Wanted, write
    from farout.progress import shown

    options: dict[str, Any] = settings(set_, "--set")
    options |= {"seed": seed} | ({} if count is None else {"count": count})
    with shown(quiet) as listener:
        wanted = Wanted.of(name.value, data, budget.value, options)
        for line in wanted.cuts:
            typer.echo(f"left out at budget {budget.value}: {line}", err=True)
        with stoppable():
            facts = write(
                wanted, out, workers=worker_count(workers, device=device), device=device, plugins=plugin_paths(plugin),
                progress=listener,
            )  # fmt: skip
    typer.echo(f"{facts['images']:>9,} images  {out / f'{name.value}.npz'}")
    for line in _lines(facts):
        typer.echo(line)


def _lines(facts: dict[str, Any]) -> list[str]:
    """Return what the description of a set says about its quality."""
    lines = []
    if "share_kept" in facts:
        lines.append(
            f"{facts['share_kept']:.1%} of {facts['candidates']:,} samples have mutual information in "
            f"[{facts['low']:g}, {facts['high']:g}]"
        )
    if "fid" in facts:
        fid = facts["fid"]
        lines.append(
            f"FID to the training images on features of {fid['features']}, {fid['images']:,} images: {fid['fid']:.4g} "
            f"(plain generator {fid['plain']:.4g}, uniform noise {fid['noise']:.4g})"
        )
        if fid["undertrained"]:
            lines.append("undertrained: the FID is more than half of that of noise; train longer before using this set")
    if members := facts.get("ensemble"):
        found = ", ".join(f"{member['network']} {member['accuracy']:.1%}" for member in members)
        lines.append(f"accuracy of the ensemble on {members[0]['n']:,} images of {members[0]['images']}: {found}")
    return lines
