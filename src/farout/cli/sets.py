"""Verbs `render` and `corrupt`: write image sets to disk."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from farout.cli.ending import stoppable
from farout.cli.options import DataOptions, Plugins, Quiet, Workers, load_plugins, plugin_paths, settings, worker_count


class DrawnName(StrEnum):
    """Rendered sets."""

    shapes = "shapes"
    chars = "chars"


class FormName(StrEnum):
    """File formats of rendered sets."""

    png = "png"
    npz = "npz"


class SetName(StrEnum):
    """Kinds of shifts."""

    C = "C"
    A = "A"
    all = "all"


class LayoutName(StrEnum):
    """File formats of shifted images."""

    npz = "npz"
    npy = "npy"
    png = "png"
    jpeg = "jpeg"


def render(
    name: Annotated[DrawnName, typer.Argument(help="Set to render.")],
    out: Annotated[Path, typer.Option("--out", help="Folder for the images.")],
    split: Annotated[
        list[str] | None,
        typer.Option(
            help="Split, may be repeated: train, val, test/id, test/ood_hue, test/ood_size+rotation, …",
            show_default="train, val, test/id, test/ood_hue, test/ood_cls, test/ood_both",
        ),
    ] = None,
    form: Annotated[
        FormName, typer.Option("--format", help="PNG files by class, or one .npz per split.")
    ] = FormName.png,
    side: Annotated[int, typer.Option(min=8, help="Width and height in pixels.")] = 32,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the configurations.")] = 1,
    limit: Annotated[
        int | None, typer.Option(min=1, help="Maximum number of images per split.", show_default="all")
    ] = None,
    font: Annotated[
        Path | None, typer.Option(help="TrueType font file for chars.", show_default="DejaVu Sans Mono")
    ] = None,
    quiet: Quiet = False,
) -> None:
    """Write SHAPES or CHARS to disk, with the table of attributes that every image was rendered from.

    The same command again resumes an interrupted run (an .npz file starts over). `farout.load` reads the output:
    the folder of PNG files by its splits train, val and test (classes in alphabetical order), OUT/ood_hue,
    OUT/test.npz (classes in the paper's order), or a table, OUT/test.parquet, from which it renders again (give side
    and font).

    Example: farout render shapes --out shapes64 --split test/id --side 64
    """
    from farout.data.shapes_chars import OUTLIER_SPLITS, load_drawn
    from farout.data.writing.render import export
    from farout.progress import shown, task

    splits = list(dict.fromkeys(split or ["train", "val", "test/id", *OUTLIER_SPLITS]))
    sets = {each: load_drawn(name.value, each, seed=seed, side=side, font=font, limit=limit) for each in splits}
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ValueError(f"cannot write images to {out}: {error.strerror}; choose another folder with --out") from error
    written = []
    with stoppable(), shown(quiet), task(f"rendering {name.value}", sum(map(len, sets.values()))) as count:
        for each, images in sets.items():
            folder = out / ("test" if each == "test/id" else each.removeprefix("test/"))
            written.append((len(images), export(images, folder, form.value, count)))
    for images_written, path in written:
        typer.echo(f"{images_written:>9,} images  {path}")


def corrupt(
    images: Annotated[
        str, typer.Argument(metavar="INPUT", help="Images to shift: a name, or the path of a file, a folder or shards.")
    ],
    out: Annotated[Path, typer.Option("--out", help="Folder for the shifted images.")],
    kind: Annotated[
        SetName | None,
        typer.Option(
            "--set",
            help="C: all corruptions; A: all augmentations; all: both, and the unchanged images.",
            show_default="all, unless --shift is given",
        ),
    ] = None,
    shift: Annotated[
        list[str] | None, typer.Option(help="Name of a shift (farout list shifts), may be repeated.")
    ] = None,
    severity: Annotated[
        list[int] | None,
        typer.Option(min=1, max=5, help="Severity of corruptions, may be repeated.", show_default="1 2 3 4 5"),
    ] = None,
    form: Annotated[
        LayoutName,
        typer.Option("--format", help="npz, npy: one array per shift; png, jpeg (quality 85): one file per image."),
    ] = LayoutName.npz,
    split: Annotated[str, typer.Option(help="Split of INPUT.")] = "test",
    limit: Annotated[int | None, typer.Option(min=1, help="Maximum number of images.", show_default="all")] = None,
    side: Annotated[
        int | None, typer.Option(min=1, help="Resize images to this side.", show_default="no resizing")
    ] = None,
    option: DataOptions = None,
    seed: Annotated[int, typer.Option(min=0, help="Random seed of the shifts.")] = 0,
    frost_dir: Annotated[
        Path | None, typer.Option(help="Folder of frost photographs.", show_default="procedural frost")
    ] = None,
    workers: Workers = None,
    plugin: Plugins = None,
    quiet: Quiet = False,
) -> None:
    """Write images under corruptions and augmentations to disk: an "-R" set, as CIFAR-10-R, with a manifest.json.

    The same command again resumes an interrupted run; another one adds shifts of the same images, seed and format.

    npz, npy: farout.load("OUT/fog.npz") reads all images at severity 1, then all at severity 2 and so on,
    farout.load("OUT/fog.npz", "3") those at severity 3. The .npy files and labels.npy have the layout of CIFAR-10-C.

    png, jpeg: farout.load("OUT/fog/3") reads severity 3; OUT/flip and OUT/clean have no severity; classes are in
    alphabetical order.

    Files are named as in the published sets: jpeg_compression, elastic_transform.

    Images that are outliers of their own class, such as the defective ones of mvtec, are written unchanged and not
    shifted; farout.load returns the mark as the attribute "outlier".

    Example: farout corrupt cifar10 --out cifar10-r --set all;
    farout corrupt cifar100 --option coarse=true --out cifar100-r; farout corrupt mvtec --side 224 --set A --out mvtec-r
    """
    load_plugins(plugin)
    import farout
    from farout.data.writing import realistic
    from farout.data.writing.layout import common_label
    from farout.progress import shown
    from farout.shifts.corruption import SEVERITIES
    from farout.shifts.selection import select_shifts

    selected = kind.value if kind else None if shift else "all"
    shifts = select_shifts(selected, shift or [], severity or SEVERITIES, frost_dir)
    options = settings(option, "--option") | ({} if side is None else {"side": side})
    with shown(quiet) as listener:
        source = farout.load(images, split, limit=limit, **options)
        with stoppable():
            facts = realistic.write(
                source, out, shifts, clean=selected == "all", form=form.value, seed=seed, workers=worker_count(workers),
                plugins=plugin_paths(plugin), progress=listener,
            )  # fmt: skip
    titles = {name: common_label(entry["labels"]) for name, entry in facts["shifts"].items()}
    width = max(map(len, titles.values()))
    for name, entry in facts["shifts"].items():
        state = "" if entry["finished"] else "  not finished"
        typer.echo(f"{entry['images']:>9,} images  {titles[name]:<{width}}  {out / entry['place']}{state}")
