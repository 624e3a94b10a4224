"""Verb `attack`: write attacked images to disk."""

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
    name: Annotated[
        str, typer.Argument(help="Name of the attack: fgsm, pgd, masked_pgd, deepfool, … (farout list attacks).")
    ],
    images: Annotated[
        str,
        typer.Argument(metavar="INPUT", help="Images to attack: a name, or the path of a file, a folder or shards."),
    ],
    out: Annotated[Path, typer.Option("--out", help="Folder for the attacked images.")],
    network: Annotated[str, typer.Option(help="Architecture of the classifier (farout list networks, or timm:NAME).")],
    weights: Annotated[
        Path | None,
        typer.Option(help="Weights of the classifier: .safetensors or .pt.", show_default="pretrained weights"),
    ] = None,
    mean: Annotated[
        str | None,
        typer.Option(
            metavar="NUMBERS",
            help="Mean that normalizes pixels, one per channel or one for all: 0.485,0.456,0.406.",
            show_default="0.5, or the pretrained weights' own",
        ),
    ] = None,
    std: Annotated[
        str | None, typer.Option(metavar="NUMBERS", help="Standard deviation, likewise.", show_default="as for --mean")
    ] = None,
    classes: Annotated[
        int | None, typer.Option(min=2, help="Number of classes of the network.", show_default="as in INPUT")
    ] = None,
    side: Annotated[
        int | None, typer.Option(min=1, help="Side of the network's input images.", show_default="as in INPUT")
    ] = None,
    set_: Annotated[
        list[str] | None, typer.Option("--set", help="Setting of the attack, may be repeated: --set epsilon=4/255.")
    ] = None,
    split: Annotated[str, typer.Option(help="Split of INPUT.")] = "test",
    limit: Annotated[int | None, typer.Option(min=1, help="Maximum number of images.", show_default="all")] = None,
    option: DataOptions = None,
    seed: Annotated[int, typer.Option(min=0, help="Random seed.")] = 0,
    workers: Workers = None,
    device: Device = "cpu",
    plugin: Plugins = None,
    quiet: Quiet = False,
) -> None:
    """Attack images and write OUT/NAME.npz: the attacked images in 8 bits, their labels, whether each image was
    classified correctly before the attack (clean_correct), and whether the stored image is misclassified (success).

    The same command again resumes an interrupted run. farout.load("OUT/pgd.npz") reads the file; a study accepts it
    as an outlier set.

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
                cell,
                out,
                workers=worker_count(workers, device=device),
                device=device,
                plugins=plugin_paths(plugin),
                progress=listener,
            )
    total, right, still = (facts[key] for key in ("images", "clean_correct", "success_of_clean_correct"))
    typer.echo(f"{total:>9,} images  {out / f'{name}.npz'}")
    typer.echo(
        f"{right:>9,} ({right / total:.1%}) were classified correctly; {still:,} of them are misclassified in the file"
    )
    if weights and not (mean and std):
        typer.echo(
            "without --mean and --std pixels were normalized by 0.5, or as timm does; check that the network expects it"
        )


def _cell(name: str, settings: dict[str, Any], data: dict[str, Any], seed: int, network: dict[str, Any]) -> Any:
    """Return the attack cell, the same as in a study."""
    from pydantic import TypeAdapter

    from farout.attacks import ATTACKS
    from farout.study.cells.attack import AttackCell
    from farout.study.networks import stored_network
    from farout.study.sources.images import NamedImages
    from farout.study.spec import Data, DataSpec, NetworkSpec

    attack = ATTACKS.create(name, **settings)
    if attack.against != "classifier":
        raise ValueError(f"{name} attacks a detector: run it in a study (protocol evasion) or with farout.attack")
    images = NamedImages(TypeAdapter[DataSpec](Data).validate_python(data))
    if not images.about.labeled:  # they determine the network's number of classes
        raise ValueError(
            f"{name} attacks a classifier and needs labels, and the images of {images.about.name} have no labels"
        )
    spec = NetworkSpec(**{key: value for key, value in network.items() if value is not None})
    cell = AttackCell(attack, images, stored_network(spec, images), None, seed)
    if reason := cell.unsuited():
        raise ValueError(reason)
    return cell
