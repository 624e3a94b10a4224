"""Verbs `train` and `import`: weights of detectors, generators and networks."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from farout.cli.ending import stoppable
from farout.cli.options import DataOptions, Device, Plugins, Quiet, load_plugins, settings

Settings = Annotated[
    list[str] | None,
    typer.Option("--set", help="Setting of the model or of its training, may be repeated: --set epochs=3."),
]


def train(
    name: Annotated[str, typer.Argument(help="Trained detector, generator or network, see `farout list`.")],
    data: Annotated[
        str,
        typer.Option(help="Inliers: a name, or the path of a file, a folder or shards; its train split, or all of it."),
    ],
    out: Annotated[Path, typer.Option("--out", help="File for the weights, .safetensors.")],
    val: Annotated[
        str | None,
        typer.Option(help="Validation images.", show_default="the val split, else a tenth of the training images"),
    ] = None,
    outliers: Annotated[
        list[str] | None, typer.Option(help="Auxiliary outliers to learn from, may be repeated: svhn:train.")
    ] = None,
    preset: Annotated[
        str | None,
        typer.Option(
            help="Of a detector: small, full. Of a network: a recipe, see docs/training.md.", show_default="small"
        ),
    ] = None,
    set_: Settings = None,
    limit: Annotated[int | None, typer.Option(min=1, help="First so many training images.", show_default="all")] = None,
    option: DataOptions = None,
    seed: Annotated[int, typer.Option(min=0, help="Random seed.")] = 0,
    device: Device = "cpu",
    plugin: Plugins = None,
    quiet: Quiet = False,
) -> None:
    """Train a detector, a generator or a network, and write its weights to a file.

    A study uses the file with `weights: FILE`: detectors: [{name: ae, weights: ae.safetensors}]. Settings (--set) are
    the model's parameters (width=16; see `farout list detectors ae`) and those of its training (epochs=3, lr=0.001; see
    docs/training.md). oe, good, atom and rowl need --outliers, which must not be among the outliers of a later test.

    Ctrl-C keeps OUT.checkpoint, from which the same command continues to the same weights; a killed training loses a
    minute at most.

    Example: farout train ae --data cifar10 --out ae.safetensors --preset small --set epochs=10

    Example: farout train oe --data cifar10 --outliers imagenet64.npz --out oe.safetensors
    """
    load_plugins(plugin)
    from farout.api.train import plan, run
    from farout.processes import keep_freed_memory
    from farout.progress import shown

    images: Any = data
    if limit is not None or option:
        name_, _, split = data.rpartition(":") if data.find(":") > 1 else (data, "", "")
        images = {"name": name_, **({"split": split} if split else {}), "options": settings(option, "--option")}
        images |= {"limit": limit} if limit is not None else {}
    with shown(quiet) as listener:
        model = plan(
            name, images, out, val=val, outliers=outliers, preset=preset, seed=seed, settings=settings(set_, "--set")
        )
        with stoppable():
            keep_freed_memory()
            run(model, out, device=device, progress=listener)
    typer.echo(f"{model.title}: {model.result()}\nweights: {out}")


def import_(
    name: Annotated[str, typer.Argument(help="Trained detector or network whose authors published the file.")],
    file: Annotated[Path, typer.Argument(help="The published checkpoint: .pt, .pth or .safetensors.")],
    out: Annotated[Path, typer.Option("--out", help="File for the weights, .safetensors.")],
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", help="Parameter of the model, may be repeated.", show_default="as in the paper"),
    ] = None,
    plugin: Plugins = None,
) -> None:
    """Convert the checkpoint that the authors of a detector or network published into a file for `weights:`.

    The file is read without executing any code in it: only tensors are accepted, not a pickled module. Names and shapes
    are checked against the paper's settings (preset full). If the score needs statistics of the training images, a
    study measures them when it fits the detector. A network is one for CIFAR-10 unless told (--set classes=100).

    Example: farout import oe cifar10_allconv_oe_scratch_epoch_99.pt --out oe.safetensors

    Example: farout import resnet34 resnet_cifar10.pth --out resnet34.safetensors
    """
    load_plugins(plugin)
    from farout.api.importing import import_weights

    imported = import_weights(name, file, out, **settings(set_, "--set"))
    values = sum(tensor.numel() for tensor in imported.mapped.values())
    typer.echo(f"mapped {len(imported.mapped)} tensors with {values:,} values to {imported.label}")
    left = imported.left_out
    typer.echo(f"left out {len(left)} tensors of the file" + (f": {', '.join(left)}" if left else ""))
    if not imported.complete:
        typer.echo("the score also needs statistics of the training images: fit measures them, in a study by itself")
    typer.echo(f"weights: {out}")
