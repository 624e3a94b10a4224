"""OpenOOD's own post-processors through the adapter, against OpenOOD's own way of running them.

Skipped unless FAROUT_OPENOOD names a checkout of OpenOOD (main of 2025-12-01) whose requirements are installed.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader

import farout
from farout.adapters import OpenOOD, cuda_on

CHECKOUT = os.environ.get("FAROUT_OPENOOD", "")
pytestmark = [
    pytest.mark.skipif(not CHECKOUT, reason="FAROUT_OPENOOD does not name a checkout of OpenOOD"),
    pytest.mark.filterwarnings("ignore"),
]
UNUSED = ("imgaug", "imgaug.augmenters", "diffdist", "diffdist.functional", "cv2")
"""Modules that OpenOOD imports on the way and no post-processor here uses."""
WRAPPERS = {
    "react": ("react_net", "ReactNet"),
    "ash": ("ash_net", "ASHNet"),
    "scale": ("scale_net", "ScaleNet"),
    "adascale_a": ("adascale_net", "AdaScaleANet"),
    "adascale_l": ("adascale_net", "AdaScaleLNet"),
}
CLASSES = {
    "adascale_a": "AdaScalePostprocessor",
    "adascale_l": "AdaScalePostprocessor",
    "ash": "ASHPostprocessor",
    "cfood": "CFOODPostprocessor",
    "dice": "DICEPostprocessor",
    "ebo": "EBOPostprocessor",
    "fdbd": "fDBDPostprocessor",
    "gen": "GENPostprocessor",
    "gradnorm": "GradNormPostprocessor",
    "gram": "GRAMPostprocessor",
    "iodin": "IODINPostprocessor",
    "klm": "KLMatchingPostprocessor",
    "knn": "KNNPostprocessor",
    "mds": "MDSPostprocessor",
    "mds_ensemble": "MDSEnsemblePostprocessor",
    "mls": "MaxLogitPostprocessor",
    "msp": "BasePostprocessor",
    "nci": "NCIPostprocessor",
    "nnguide": "NNGuidePostprocessor",
    "odin": "ODINPostprocessor",
    "openmax": "OpenMax",
    "react": "ReactPostprocessor",
    "relation": "RelationPostprocessor",
    "rmds": "RMDSPostprocessor",
    "scale": "ScalePostprocessor",
    "she": "SHEPostprocessor",
    "temp_scaling": "TemperatureScalingPostprocessor",
    "vim": "VIMPostprocessor",
    "vra": "VRAPostprocessor",
}


@pytest.fixture(scope="module")
def library() -> Iterator[Any]:
    """The package openood.postprocessors of the checkout."""
    from farout.optional import mend_torchvision

    mend_torchvision()
    sys.path.insert(0, CHECKOUT)
    absent = [name for name in UNUSED if importlib.util.find_spec(name.split(".")[0]) is None]
    sys.modules.update({name: MagicMock() for name in absent})
    try:
        yield importlib.import_module("openood.postprocessors")
    finally:
        sys.path.remove(CHECKOUT)
        for name in absent:
            del sys.modules[name]


class TheirNet(nn.Module):
    """The same ResNet-20 with the methods that OpenOOD's nets have."""

    def __init__(self, module: Any) -> None:
        super().__init__()
        self.module, self.fc = module, module.linear
        self.feature_size = self.fc.in_features

    def forward(self, x: Tensor, return_feature: bool = False, return_feature_list: bool = False) -> Any:
        maps = [torch.relu(self.module.bn1(self.module.conv1(x)))]
        for name in self.module.block_names:
            maps.append(self.module.get_submodule(name)(maps[-1]))
        feature = maps[-1].mean((2, 3))
        if return_feature:
            return self.fc(feature), feature
        return (self.fc(feature), [*maps[:-1], feature[:, :, None, None]]) if return_feature_list else self.fc(feature)

    def get_fc(self) -> tuple[Any, Any]:
        return self.fc.weight.detach().numpy(), self.fc.bias.detach().numpy()

    def get_fc_layer(self) -> Any:
        return self.fc


@pytest.fixture(scope="module")
def network() -> farout.Network:
    return farout.networks.create("resnet20", 10, 32, mean=0.5, std=0.25, seed=2)


@pytest.fixture(scope="module")
def train(network: farout.Network) -> farout.ImageSet:
    """Images with the classes the network predicts; its last layer is set so that it predicts each of ten."""
    images = torch.cat(list(farout.load("toy", "train", limit=600)))
    with torch.no_grad():
        features = torch.cat([network(part).features for part in images.split(100)])
        centers = features[torch.arange(0, 600, 60)]
        linear: Any = network.module.linear
        unit = (centers - features.mean(0)) / (features - features.mean(0)).norm(dim=1).mean()
        linear.weight.copy_(unit)
        linear.bias.copy_(-(unit * (centers + features.mean(0)) / 2).sum(1))
        labels = torch.cat([network(part).logits.argmax(1) for part in images.split(100)])
    assert len(labels.unique()) == 10
    return farout.ImageSet.from_arrays(images.numpy(), labels.numpy())


def make(library: Any, name: str) -> Any:
    """The post-processor with OpenOOD's own configuration."""
    config = importlib.import_module("openood.utils.config")
    file = config.Config(str(Path(CHECKOUT) / "configs" / "postprocessors" / f"{name}.yml"))
    made = config.merge_configs(file, config.Config(dataset={"name": "cifar10"}))
    if name in ("vim", "cfood"):
        made.postprocessor.postprocessor_args.update({"dim": 16, "alpha": 1.0})
    with cuda_on("cpu"):
        return getattr(library, CLASSES[name])(made)


def their_scores(postprocessor: Any, name: str, network: farout.Network, train: farout.ImageSet, test: Tensor) -> Any:
    """Scores as OpenOOD's evaluator computes them, with torch's own loaders."""

    def loader(images: Tensor, labels: Any) -> Any:
        rows = network.normalize(images).contiguous()
        data = [{"data": x, "data_aux": x, "label": int(y)} for x, y in zip(rows, labels, strict=True)]
        return DataLoader(data, batch_size=200)  # type: ignore[arg-type]

    net: nn.Module = TheirNet(network.module)
    if name in WRAPPERS:
        file, wrapper = WRAPPERS[name]
        net = getattr(importlib.import_module(f"openood.networks.{file}"), wrapper)(net)
    assert train.labels is not None
    inliers = loader(torch.cat(list(train)), train.labels)
    with farout.adapters.libraries.seed_global_rngs(0), cuda_on("cpu"):  # type: ignore[attr-defined]
        postprocessor.setup(net.eval(), {"train": inliers, "val": inliers, "test": inliers}, {})
        if name.startswith("adascale"):
            postprocessor.set_hyperparam(postprocessor.get_hyperparam())
        _, confidence, _ = postprocessor.inference(net, loader(test, [0] * len(test)), progress=False)
    return -confidence.reshape(-1).astype(np.float64)


@pytest.mark.parametrize("name", sorted(CLASSES))
def test_scores_are_openoods(library: Any, network: farout.Network, train: farout.ImageSet, name: str) -> None:
    test = farout.load("toy").batch(range(40))
    detector = OpenOOD(make(library, name), network)
    detector.fit(train)
    got, expected = detector.score(test).numpy(), their_scores(make(library, name), name, network, train, test)
    assert np.ptp(expected) > 0
    assert np.abs(got - expected).max() <= 1e-4 * np.ptp(expected)
