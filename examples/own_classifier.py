"""A classifier of your own: train it, wrap it, and ask every post-hoc detector which images it does not know.

Run it from anywhere: python own_classifier.py
"""

from torch import nn

import farout

module = nn.Sequential(
    nn.Conv2d(3, 32, 3, 2, 1), nn.BatchNorm2d(32), nn.ReLU(),
    nn.Conv2d(32, 64, 3, 1, 1), nn.BatchNorm2d(64), nn.ReLU(),
    nn.Conv2d(64, 64, 3, 2, 1), nn.BatchNorm2d(64), nn.ReLU(),
    nn.Conv2d(64, 128, 3, 2, 1), nn.BatchNorm2d(128), nn.ReLU(),
    nn.AdaptiveAvgPool2d(1), nn.Flatten(),
    nn.Linear(128, 4),
)  # fmt: skip


def main(epochs: int = 8, limit: int | None = None) -> farout.Result:
    """Train on the built-in images, fit a panel, test it."""
    network = farout.Network(module, mean=0.5, std=0.25)  # normalizer inside, last linear layer found
    train, val = farout.load("toy", "train", limit=limit), farout.load("toy", "val", limit=limit)
    history = farout.networks.train(network, train, val, epochs=epochs, batch=64)
    print(f"validation accuracy {history.best_accuracy:.1%}")
    panel = farout.Panel(network, ["msp", "ebo", "knn", farout.detectors.KNN(k=5), "mds"]).fit(train, val)
    print("thresholds that keep 95 % of inliers:", panel.threshold(recall=0.95))
    return farout.stress(panel, inliers="toy", protocols="clean")  # "all" also searches for the worst case: minutes


if __name__ == "__main__":
    print(main())
