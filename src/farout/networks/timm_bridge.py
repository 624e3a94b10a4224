"""Networks for large images, and pretrained ones, from timm (the optional extra `timm`)."""

from __future__ import annotations

import difflib
import importlib
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch import nn

from farout.data.download import announce_downloads
from farout.networks.base import NETWORKS
from farout.optional import mend_torchvision
from farout.registry import UnknownName

PREFIX = "timm:"
"""Prefix of timm's own names: "timm:vit_large_patch14_clip_quickgelu_224.openai"."""
LARGE = 96
"""Smallest side for which a network's original stem is used."""

TIMM_NAMES = {
    "resnet18": "resnet18",
    "resnet34": "resnet34",
    "resnet50": "resnet50",
    "resnet152": "resnet152",
    "densenet121": "densenet121",
    "vgg11": "vgg11_bn",
    "vgg16": "vgg16_bn",
    "inception_v3": "inception_v3",
    "vit_tiny": "vit_tiny_patch16_224",
    "vit_b16": "vit_base_patch16_224",
    "vit_b32": "vit_base_patch32_224",
    "vit_l16": "vit_large_patch16_224",
    "vit_l32": "vit_large_patch32_224",
    "swin_t": "swin_tiny_patch4_window7_224",
    "mobilenet_v3_large": "mobilenetv3_large_100",
    "efficientnet_b0": "efficientnet_b0",
}
"""Names in timm of our networks."""
MOST_EMBEDDING = 4096
"""timm counts as classes also the numbers that an image tower gives into a space it shares with text: 384 to 1,280 of
them (CLIP). Its classifiers tell the 1,000 classes of ImageNet, or its 11,000 to 22,000."""

PATCHES = {"vit_tiny": 16, "vit_b16": 16, "vit_b32": 32, "vit_l16": 16, "vit_l32": 32, "swin_t": 32}
"""Number that the side must be a multiple of: the patch, or the 32 px that Swin's four stages merge into one token."""

FETCHING = ("huggingface_hub", "httpx", "httpx2", "requests", "urllib3")
"""Libraries whose errors mean that a file could not be downloaded."""
WEIGHTS_FILES = ("model.safetensors", "open_clip_model.safetensors", "pytorch_model.bin", "open_clip_pytorch_model.bin")
"""Names of files of weights on the Hugging Face hub, the ones that timm looks for first."""
TIMM_ONLY = ("vit_b16", "vit_b32", "vit_l16", "vit_l32", "swin_t", "mobilenet_v3_large", "efficientnet_b0")
"""Names without a small-image form of ours."""

ABOUT = {
    "vit_b16": "ViT-B/16 (Dosovitskiy et al. 2021), patches of 16 px",
    "vit_b32": "ViT-B/32 (Dosovitskiy et al. 2021), patches of 32 px",
    "vit_l16": "ViT-L/16 (Dosovitskiy et al. 2021), patches of 16 px",
    "vit_l32": "ViT-L/32 (Dosovitskiy et al. 2021), patches of 32 px",
    "swin_t": "Swin-T (Liu et al. 2021), windows of 7 × 7 patches",
    "mobilenet_v3_large": "MobileNetV3-Large (Howard et al. 2019)",
    "efficientnet_b0": "EfficientNet-B0 (Tan and Le 2019)",
}
"""One-line description of each."""


def knows(name: str) -> bool:
    """Return True if timm can build a network of this name."""
    return name in TIMM_NAMES or name.startswith(PREFIX)


def builds(name: str, side: int) -> bool:
    """Return True if a network of this name is built by timm at this side, also without pretrained weights."""
    return knows(name) and (side >= LARGE or name not in NETWORKS or name in TIMM_ONLY)


def pretrained_classes(name: str, classes: int, channels: int, *, fine_tune: bool = False) -> int:
    """Return the number of classes of a pretrained network: the requested one if its weights have it, else 0.

    A head for other classes has random weights until it is trained, so it is created only for fine-tuning.
    """
    if not knows(name):
        raise ValueError(f"there are no pretrained weights for {name!r}; there are for {', '.join(sorted(TIMM_NAMES))}")
    if channels != 3:
        raise ValueError(f"pretrained networks take 3 channels, got channels={channels}; images with one are repeated")
    own = _config(name).num_classes
    return classes if fine_tune or (classes == own and not _embeds(own)) else 0


def build(name: str, classes: int, side: int, channels: int, *, pretrained: bool = False) -> nn.Module:
    """Build timm's network of this name for images of this side.

    classes: 0 for features alone, the embedding of an image tower (CLIP) and else what a classifier would read;
    `left_out` then names the layers that a file of weights may have besides.
    Below 96 px the stems of our MobileNet and EfficientNet do not stride. The blocks are those of timm's
    `feature_info`; Swin has none, since its maps are channels-last ([B, H, W, C]).
    """
    if name in PATCHES:
        _check_side(name, side)
    config = _config(name)
    outputs = config.num_classes if not classes and _embeds(config.num_classes) else classes
    options = {"img_size": side} if config.fixed_input_size else {}
    module = _make(name, pretrained, num_classes=outputs, in_chans=channels, **options)
    if side < LARGE and hasattr(module, "conv_stem") and not name.startswith(PREFIX):
        module.conv_stem.stride = (1, 1)
    module.side = side
    channels_last = getattr(module, "output_fmt", None) == "NHWC"
    module.block_names = () if channels_last else _stages(module)
    layers = config.classifier or ()
    module.left_out = () if outputs else (layers,) if isinstance(layers, str) else tuple(layers)
    return module  # type: ignore[no-any-return]


def normalizer(module: nn.Module) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return mean and standard deviation with which timm's weights of this network were trained."""
    config: Any = module.pretrained_cfg
    return tuple(config["mean"]), tuple(config["std"])


def _embeds(outputs: int) -> bool:
    """Return True if this number of "classes" in timm is the size of an embedding."""
    return outputs != 1000 and 0 < outputs < MOST_EMBEDDING


def _stages(module: Any) -> tuple[str, ...] | None:
    """Return the submodules that timm names as stages; None if it names none."""
    return tuple(stage["module"] for stage in getattr(module, "feature_info", ())) or None


def _timm_name(name: str) -> str:
    return name.removeprefix(PREFIX) if name.startswith(PREFIX) else TIMM_NAMES[name]


def _config(name: str) -> Any:
    """Return timm's configuration of the weights of this name; raise an error with similar names if unknown."""
    timm, wanted = load_timm(name), _timm_name(name)
    try:
        config = timm.models.get_pretrained_cfg(wanted)
    except RuntimeError:  # a network's name with a tag that it has not
        config = None
    if config is None:
        nearest = difflib.get_close_matches(wanted, [*timm.list_models(), *timm.list_pretrained()], n=3)
        hint = f" Did you mean {' or '.join(PREFIX + one for one in nearest)}?" if nearest else ""
        raise UnknownName(f"timm {timm.__version__} has no network {wanted!r}.{hint} timm.list_models() names all.")
    return config


def _check_side(name: str, side: int) -> None:
    patch = PATCHES[name]
    if side < 2 * patch or side % patch:
        small = ", ".join(known for known in NETWORKS if known not in TIMM_ONLY)
        raise ValueError(
            f"{name} takes sides that are multiples of {patch} from {2 * patch} px, got {side}. "
            f"Networks for small images: {small}"
        )


def expect_weights(name: str) -> None:
    """Announce the download of pretrained weights that are not in timm's cache."""
    config = _config(name)
    if config.hf_hub_id:
        hub = importlib.import_module("huggingface_hub")
        files = filter(None, (config.hf_hub_filename, *WEIGHTS_FILES))
        kept = any(isinstance(hub.try_to_load_from_cache(config.hf_hub_id, file), str) for file in files)
        announce_downloads({} if kept else {f"the weights of {name}": f"https://huggingface.co/{config.hf_hub_id}"})
    elif config.url:
        kept = (Path(torch.hub.get_dir()) / "checkpoints" / Path(config.url).name).is_file()
        announce_downloads({} if kept else {f"the weights of {name}": config.url})


def _make(name: str, pretrained: bool, **options: Any) -> Any:
    timm = load_timm(name)
    if pretrained:
        expect_weights(name)
    try:
        return timm.create_model(_timm_name(name), pretrained=pretrained, **options)
    except Exception as error:
        if not pretrained or not _of_fetching(error):
            raise
        reason = f"{type(error).__name__}: {error}".split("\n")[0]
        raise ConnectionError(
            f"the pretrained weights of {name} ({_timm_name(name)}) could not be fetched ({reason}). Connect once, so "
            "that they are kept in the Hugging Face cache, or take a local file: in a study weights: file.safetensors "
            "and classes: 0 instead of pretrained: true; in Python load_weights and classes=0 instead of pretrained"
        ) from error


def _of_fetching(error: Exception) -> bool:
    return isinstance(error, OSError) or type(error).__module__.partition(".")[0] in FETCHING


def load_timm(name: str) -> ModuleType:
    """Import timm; raise an error with advice if it is not installed."""
    try:
        mend_torchvision()
        return importlib.import_module("timm")
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            f'{name!r} comes from timm, but {error.name} is not installed: pip install "farout[timm]"'
        ) from error


def _register(name: str) -> None:
    @NETWORKS.register(name)
    def make(classes: int, side: int, channels: int) -> nn.Module:
        return build(name, classes, side, channels)

    make.__doc__ = f'{ABOUT[name]}; from timm, by pip install "farout[timm]".'


for _name in TIMM_ONLY:
    _register(_name)
