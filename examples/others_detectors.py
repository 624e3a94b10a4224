"""Detectors that others wrote, side by side: a function, scikit-learn on a network's features, a server.

Those of pytorch-ood and OpenOOD, and which of them work, are in docs/adapters.md.

Run it from anywhere (it needs scikit-learn): python others_detectors.py
"""

import torch
from sklearn.ensemble import IsolationForest
from sklearn.neighbors import LocalOutlierFactor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import farout
from farout.adapters import HTTP, Estimator


def contrast(images: torch.Tensor) -> torch.Tensor:
    """A plain function is a detector: images in, one score per image out, larger = more outlying."""
    return -images.std(dim=(1, 2, 3))


def panel(network: farout.Network) -> farout.Panel:
    """Estimators share the network's one forward pass with our own detectors, and are saved with the panel."""
    scaled_forest = make_pipeline(StandardScaler(), IsolationForest(n_estimators=100))
    members = {"msp": "msp", "forest": Estimator(scaled_forest), "lof": Estimator(LocalOutlierFactor(novelty=True))}
    return farout.Panel(network, members)


def served(url: str) -> HTTP:
    """A server: POST of a .npy file with images, a JSON list of scores back. The token stays in the environment."""
    return HTTP(url, headers={"Authorization": "Bearer $FAROUT_TOKEN"}, version="2024-05")


def main(epochs: int = 3, limit: int | None = 2000) -> tuple[farout.Result, farout.Result]:
    """Put the function and the panel to the test on the built-in images."""
    train, val = farout.load("toy", "train", limit=limit), farout.load("toy", "val")
    network = farout.networks.create("lenet", classes=4, side=32)
    farout.networks.train(network, train, val, epochs=epochs)
    fitted = panel(network).fit(train, val)
    return farout.stress(contrast, inliers="toy"), farout.stress(fitted, inliers="toy", protocols="clean")


if __name__ == "__main__":
    for result in main():
        print(result)
