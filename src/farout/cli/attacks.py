"""Attacked images written to disk."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from farout.cli.ending import stoppable
from farout.cli.options import (
    DataOptions,
    Device,
    Plugins,
    Quiet,
    Workers,
    load_plugins,
    numbers,
    plugin_paths,
    settings,
    worker_count,
)


def attack(
    name: Annotated[str, typer.Argument(help="The attack: fgsm, pgd, masked_pgd, deepfool, … (farout list attacks).")],
    images: Annotated[str, typer.Argument(metavar="INPUT", help="The images: a name, an .npz file or a folder.")],
    out: Annotated[Path, typer.Option("--out", help="Folder for the set.")],
    network: Annotated[str, typer.Option(help="The classifier's architecture (farout list networks, or timm:NAME).")],
    weights: Annotated[
        Path | None, typer.Option(help="Its weights: .safetensors or .pt.", show_default="pretrained ones")
    ] = None,
    mean: Annotated[
        str | None,
        typer.Option(
            metavar="NUMBERS",
            help="Normalizer of pixels, one for each channel or one for all: 0.485,0.456,0.406.",
            show_default="0.5, or the pretrained weights' own",
        ),
    ] = None,
    std: Annotated[str | None, typer.Option(metavar="NUMBERS", help="Likewise.", show_default="likewise")] = None,
    classes: Annotated[
        int | None, typer.Option(min=2, help="How many the network tells apart.", show_default="those of INPUT")
    ] = None,
    side: Annotated[
        int | None, typer.Option(min=1, help="Side of the images the network takes.", show_default="that of INPUT")
    ] = None,
    set_: Annotated[
        list[str] | None, typer.Option("--set", help="A setting, may be repeated: --set epsilon=4/255.")
    ] = None,
    split: Annotated[str, typer.Option(help="Split of INPUT.")] = "test",
    limit: Annotated[int | None, typer.Option(min=1, help="At most so many images.", show_default="all")] = None,
    option: DataOptions = None,
    seed: Annotated[int, typer.Option(min=0, help="Of all that is random.")] = 0,
    workers: Workers = None,
    device: Device = "cpu",
    plugin: Plugins = None,
    quiet: Quiet = False,
) -> None:
    """Attack images and write what comes of it: OUT/NAME.npz in 8 bits, with the labels, which images were classified
    right before (clean_correct), and which the network gets wrong as they are in the file (success).

    The same command again goes on where it was stopped. farout.load("OUT/pgd.npz") reads it, a study takes it as
    outliers like any other set.

    Example: farout attack pgd cifar10 --network resnet18 --weights resnet18.safetensors --out adversarial
    """
    load_plugins(plugin)
    from farout.api.attack_sets import write
    from farout.progress import shown

    with shown(quiet) as listener:
        cell = _cell(
            name, settings(set_, "--set"),
            {"name": images, "split": split, "limit": limit, "options": settings(option, "--option")}, seed,
            {"name": network, "weights": str(weights) if weights else None, "pretrained": weights is None,
             "mean": numbers(mean, "--mean"), "std": numbers(std, "--std"), "classes": classes, "side": side},
        )  # fmt: skip
        with stoppable():
            facts = write(
                cell, out, workers=worker_count(workers), device=device, plugins=plugin_paths(plugin), progress=listener
            )
    total, right, still = (facts[key] for key in ("images", "clean_correct", "success_of_clean_correct"))
    typer.echo(f"{total:>9,} images  {out / f'{name}.npz'}")
    typer.echo(f"{right:>9,} ({right / total:.1%}) were classified right; {still:,} of them are wrong in the file")
    if weights and not (mean and std):
        typer.echo(
            "without --mean and --std pixels were normalized by 0.5, or as timm does: was the network trained so?"
        )


def _cell(name: str, settings: dict[str, Any], data: dict[str, Any], seed: int, network: dict[str, Any]) -> Any:
    """The cell that a study would have."""
    from pydantic import TypeAdapter

    from farout.attacks import ATTACKS
    from farout.study.cells.attack import AttackCell
    from farout.study.sources.images import NamedImages
    from farout.study.spec import Data, DataSpec, NetworkSpec
    from farout.study.study import stored_network

    attack = ATTACKS.create(name, **settings)
    if attack.against != "classifier":
        raise ValueError(f"{name} goes against a detector: run it in a study (protocol evasion) or by farout.attack")
    images = NamedImages(TypeAdapter[DataSpec](Data).validate_python(data))
    if not images.about.labelled:  # a network's classes would be counted by them
        raise ValueError(f"{name} makes a classifier err, and the images of {images.about.name} have no labels")
    spec = NetworkSpec(**{key: value for key, value in network.items() if value is not None})
    cell = AttackCell(attack, images, stored_network(spec, images), None, seed)
    if reason := cell.unsuited():
        raise ValueError(reason)
    return cell
