"""pytorch-ood 0.4 over the detectors that farout has too: in the two ways it offers, and in one that takes own code."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset, TensorDataset

from farout.core import ImageSet
from farout.networks.network import Network
from farout.optional import mend_torchvision

if TYPE_CHECKING:
    from benchmarks.peers import Passes, Sets

SHARING = "pytorch-ood, fit and its sharing benchmark"
ALONE = "pytorch-ood, fit and predict, one at a time"
BY_HAND = "pytorch-ood, own code around fit_*, predict_*"
BATCH = 128
"""As in its examples."""
ON_VAL = {"temp_scaling", "klm", "react"}
"""What farout fits on the validation split, fits on it here too; the rest on the training split."""


def missing() -> str:
    """Why it cannot be used; empty where it can."""
    try:
        mend_torchvision()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            import pytorch_ood.detector  # noqa: F401
    except ImportError as error:
        return str(error)
    logging.getLogger("pytorch_ood").setLevel(logging.ERROR)
    return ""


class Maps(nn.Module):
    """From images to the last feature maps, in the layout its detectors expect."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.parts = nn.Sequential(*stages(module))

    def forward(self, images: Tensor) -> Tensor:
        maps: Tensor = self.parts(images)
        return maps.contiguous()


class Encoder(Maps):
    """From images to the pooled features."""

    def forward(self, images: Tensor) -> Tensor:
        return super().forward(images).mean((2, 3))


class OnMaps(nn.Module):
    """From the last feature maps to the logits."""

    def __init__(self, linear: nn.Module) -> None:
        super().__init__()
        self.linear = linear

    def forward(self, maps: Tensor) -> Tensor:
        logits: Tensor = self.linear(maps.mean((2, 3)))
        return logits


def stages(module: nn.Module) -> list[nn.Module]:
    """The network's stages one after the other, the stem within the first: the blocks that farout reads."""
    first, *others = (module.get_submodule(name) for name in module.block_names)
    return [nn.Sequential(module.conv1, module.bn1, nn.ReLU(), first), *others]


MAKERS: dict[str, Callable[[Any, nn.Module, Encoder, Maps, OnMaps], Any]] = {
    "msp": lambda peer, module, *_: peer.MaxSoftmax(module),
    "entropy": lambda peer, module, *_: peer.Entropy(module),
    "mls": lambda peer, module, *_: peer.MaxLogit(module),
    "ebo": lambda peer, module, *_: peer.EnergyBased(module),
    "gen": lambda peer, module, *_: peer.GEN(module),
    "temp_scaling": lambda peer, module, *_: peer.TemperatureScaling(module),
    "klm": lambda peer, module, *_: peer.KLMatching(module),
    "react": lambda peer, _, encoder, maps, head: peer.ReAct(maps, head),
    "ash": lambda peer, _, encoder, maps, head: peer.ASH(maps, head, percentile=0.9),
    "scale": lambda peer, _, encoder, maps, head: peer.SCALE(maps, head, percentile=0.85),
    "dice": lambda peer, module, encoder, *_: peer.DICE(encoder, module.linear.weight, module.linear.bias, p=0.9),
    "vim": lambda peer, module, encoder, *_: peer.ViM(
        encoder, module.linear.in_features // 2, module.linear.weight, module.linear.bias
    ),
    "knn": lambda peer, _, encoder, *__: peer.KNN(encoder),
    "nnguide": lambda peer, module, encoder, *_: peer.NNGuide(encoder, module.linear, k=100),
    "she": lambda peer, module, encoder, *_: peer.SHE(encoder, module.linear),
    "gradnorm": lambda peer, module, *_: peer.GradNorm(module, param_filter=lambda name: name == "linear.weight"),
    "mds": lambda peer, _, encoder, *__: peer.Mahalanobis(encoder),
    "rmds": lambda peer, _, encoder, *__: peer.RMD(encoder),
    "gram": lambda peer, module, encoder, maps, head: peer.Gram(
        head, stages(module), module.linear.out_features, num_poles_list=[1, 2, 3, 4, 5]
    ),
}
NAMES = tuple(MAKERS)


def detectors(network: Network, names: Iterable[str], passes: Passes) -> dict[str, Any]:
    """Its detectors with farout's parameters, all on the same modules, so that its cache knows them again."""
    import pytorch_ood.detector as peer

    module = network.module
    shared = (module, Encoder(module), Maps(module), OnMaps(module.linear))
    made = {name: MAKERS[name](peer, *shared).to("cpu") for name in names}
    if "gradnorm" in made:
        predict = made["gradnorm"].predict

        def counted(images: Tensor) -> Tensor:
            with passes.instead(len(images)):
                return predict(images)

        made["gradnorm"].predict = counted
    return made


def dataset(network: Network, images: ImageSet, inliers: bool = True) -> Dataset[Any]:
    """Normalised images with labels, as it wants them: below 0 for outliers."""
    ready = torch.cat([network.normalize(batch).contiguous() for batch in images])
    labels = torch.as_tensor(images.labels) if inliers else torch.full((len(ready),), -1)
    return TensorDataset(ready, labels)


def fit(made: dict[str, Any], train: Dataset[Any], val: Dataset[Any]) -> None:
    """Each detector by itself: its `fit` takes a loader and shares nothing."""
    for name, detector in made.items():
        if detector.requires_fit:
            detector.fit(DataLoader(val if name in ON_VAL else train, batch_size=BATCH))


def runs(network: Network, images: Sets, names: Sequence[str], passes: Passes) -> dict[str, Callable[[], None]]:
    """What is timed. Its benchmark tests every outlier set together with the inliers, as it does by design."""
    train, val = dataset(network, images.train), dataset(network, images.val)
    tested = [dataset(network, one, name == "inliers") for name, one in images.tested.items()]

    def sharing() -> None:
        made = detectors(network, names, passes)
        fit(made, train, val)
        _benchmark(train, tested).evaluate(list(made.values()), {"batch_size": BATCH}, cache=True)

    def one_at_a_time() -> None:
        made = detectors(network, names, passes)
        fit(made, train, val)
        with torch.no_grad():
            for detector in made.values():
                for one in tested:
                    torch.cat([detector(batch) for batch, _ in DataLoader(one, batch_size=BATCH)])

    def by_hand() -> None:
        made = detectors(network, names, passes)
        fit_by_hand(network, made, train, val)
        for one in tested:
            predict_by_hand(network, made, one)

    return {SHARING: sharing, ALONE: one_at_a_time, BY_HAND: by_hand}


@torch.no_grad()
def read(network: Network, images: Dataset[Any]) -> Iterator[tuple[list[Tensor], Tensor, Tensor, Tensor]]:
    """Maps of every stage, pooled features, logits and labels, a batch at a time from one pass."""
    parts, linear = stages(network.module), network.module.linear
    for batch, labels in DataLoader(images, batch_size=BATCH):
        maps = [batch := part(batch) for part in parts]
        features = maps[-1].mean((2, 3))
        yield maps, features, linear(features), labels


def fit_by_hand(network: Network, made: dict[str, Any], train: Dataset[Any], val: Dataset[Any]) -> None:
    """From one pass over each split; gram has no such method and takes a loader."""
    from pytorch_ood.api import FeatureMapsDetector, FeaturesDetector, LogitsDetector

    _, features, _, labels = _table(network, train)
    maps, _, logits, known = _table(network, val)
    for name, detector in made.items():
        if isinstance(detector, LogitsDetector):
            detector.fit_logits(logits, known)
        elif isinstance(detector, FeaturesDetector):
            detector.fit_features(features, labels)
        elif isinstance(detector, FeatureMapsDetector):
            detector.fit_feature_maps(maps, known)
        elif name == "gram":
            detector.fit(DataLoader(train, batch_size=BATCH))


def predict_by_hand(network: Network, made: dict[str, Any], images: Dataset[Any]) -> None:
    """Maps are scored as they come, the rest from the whole set's features and logits."""
    import pytorch_ood.detector as peer
    from pytorch_ood.api import FeatureMapsDetector, FeaturesDetector, LogitsDetector

    kept: list[tuple[Tensor, Tensor]] = []
    for maps, features, logits, _ in read(network, images):
        kept.append((features, logits))
        for name, detector in made.items():
            if isinstance(detector, FeatureMapsDetector):
                detector.predict_feature_maps(maps[-1].contiguous())
            elif name == "gram":
                detector.predict_structured(logits, maps)
    features, logits = (torch.cat(column) for column in zip(*kept, strict=True))
    for name, detector in made.items():
        if isinstance(detector, LogitsDetector):
            detector.predict_logits(logits)
        elif isinstance(detector, FeaturesDetector):
            detector.predict_features(features)
        elif name == "gradnorm":
            peer.GradNorm(network.module.linear, param_filter=lambda name: name == "weight").predict(features)


def _table(network: Network, images: Dataset[Any]) -> tuple[Tensor, ...]:
    """Maps of the last stage, features, logits and labels of a whole set."""
    batches = [(maps[-1], *rest) for maps, *rest in read(network, images)]
    return tuple(torch.cat(column) for column in zip(*batches, strict=True))


def _benchmark(train: Dataset[Any], tested: Sequence[Dataset[Any]]) -> Any:
    """Its `Benchmark` over these sets."""
    from pytorch_ood.benchmark import Benchmark

    class Here(Benchmark):
        ood_names = tuple(f"outliers{index}" for index in range(len(tested) - 1))

        def train_set(self) -> Dataset[Any]:
            return train

        def test_sets(self, known: bool = True, unknown: bool = True) -> list[Dataset[Any]]:
            inliers, *outliers = tested
            return [inliers + one for one in outliers]

    return Here()
