"""Real images and weights, where they are at hand: published figures of CIFAR-10 against SVHN."""

from scipy.stats import norm

import farout
from farout.metrics import auroc_interval

PUBLISHED = {"msp": 0.8903, "mls": 0.8873, "ebo": 0.8863}
"""AUROC of the same network on 10,000 inliers against all 26,032 SVHN test digits."""


def test_resnet20_on_cifar10_against_svhn(real_data):
    network = farout.networks.create("resnet20", 10, 32, mean=(0.485, 0.456, 0.406), std=(0.229, 0.224, 0.225))
    farout.networks.load_weights(network, real_data / "cifar10_resnet20.safetensors")
    panel = farout.Panel(network, list(PUBLISHED))
    inliers, outliers = (
        panel.score(farout.load(real_data / f"{name}.npz", limit=3000)) for name in ("cifar10_test", "svhn_test10k")
    )
    for name, expected in PUBLISHED.items():
        interval = auroc_interval(inliers[name], outliers[name], level=1 - 2 * norm.sf(3.3))
        assert interval.low < expected < interval.high
        assert interval.high - interval.low < 0.04
