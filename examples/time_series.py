"""No images: sick heartbeats that PyOD's detectors take for healthy, found by a variation of our own.

The beats are made up, and the bounds chosen so that something is found: what breaks depends on what may vary.
Run it from anywhere (it needs PyOD): python time_series.py
"""

from dataclasses import dataclass

import numpy as np
import torch
from pyod.models.knn import KNN
from pyod.models.pca import PCA

import farout
from farout.metrics import auroc, min_rank

TIME = torch.linspace(0, 1, 100)  # seconds


@dataclass
class Recording(farout.Variation):
    """Recording conditions of a beat, which say nothing about the heart. A variation needs `dim` and `decode`."""

    weakest: float = 0.3
    dim = 4

    def conditions(self, z):
        low, high = torch.tensor([self.weakest, -0.02, -0.3, 0.95]), torch.tensor([1.7, 0.02, 0.3, 1.05])
        gain, delay, drift, rate = (low + (high - low) * z).split(1, dim=1)  # latents lie between 0 and 1
        return {"gain": gain, "delay": delay, "drift": drift, "rate": rate}

    def decode(self, z, base):
        now = self.conditions(z)
        place = (0.4 + now["rate"] * (TIME - 0.4 - now["delay"])) * (len(TIME) - 1)
        return now["gain"] * read(base, place) + now["drift"] * (TIME - 0.5)


def read(beats, place):
    """The beats between their samples."""
    left = place.floor().long().clamp(0, len(TIME) - 2)
    share = (place - left).clamp(0, 1)
    return (1 - share) * beats.gather(1, left) + share * beats.gather(1, left + 1)


def beats(count, seed, sick=False):
    """Healthy beats end in a wave upwards, sick ones in a wave downwards."""
    rng = torch.Generator().manual_seed(seed)

    def wave(height, at, width):
        height = height * (1 + 0.1 * torch.randn(count, 1, generator=rng))
        at = at + 0.005 * torch.randn(count, 1, generator=rng)
        return height * torch.exp(-(((TIME - at) / width) ** 2) / 2)

    start = wave(0.15, 0.2, 0.03) + wave(1, 0.4, 0.015) - wave(0.2, 0.44, 0.012)
    end = wave(-0.3 if sick else 0.3, 0.7, 0.05)
    return start + end + 0.02 * torch.randn(start.shape, generator=rng)


def recorded(beats, seed, variation=None):
    """The beats as they come, under random conditions: a detector that fails has met such recordings."""
    z = torch.rand(len(beats), 4, generator=torch.Generator().manual_seed(seed))
    return (variation or Recording()).decode(z, beats)


def shown(conditions):
    return ", ".join(f"{name} {value.item():.2f}" for name, value in conditions.items())


def main(chains=64, steps=150, seed=0):
    """AUROC of two detectors on sick beats, recorded at random and at worst; returns what was found."""
    train, val, test = (recorded(beats(count, seed + i), seed + i) for i, count in enumerate((500, 300, 1000)))
    sick, well, found = beats(chains, seed + 3, sick=True), beats(chains, seed + 4), {}
    for name, model in {"PCA": PCA(), "KNN": KNN()}.items():
        model.fit(train.numpy())

        def score(signals, model=model):  # by each row alone: ECOD and COPOD would look at the others too
            return model.decision_function(signals.numpy().astype(np.float64))

        healthy = score(test)
        for variation in (Recording(weakest=0.7), Recording(weakest=0.3)):
            worst, best = (
                farout.worst_case(score, variation, base, inliers=val, steps=steps, seed=seed) for base in (sick, well)
            )
            found[name, variation.weakest] = worst
            clean = auroc(healthy, score(recorded(sick, seed + 3, variation)))
            print(f"{name}, gains from {variation.weakest}: AUROC {clean:.3f} as recorded at random,", end=" ")
            # a minimum over many queries is low for anybody: the control is the same search on healthy beats
            print(f"{auroc(healthy, worst.scores):.3f} in the worst case;", end=" ")
            print(f"{auroc(best.scores, worst.scores):.3f} against healthy beats searched likewise")
            below = f"{min_rank(healthy, worst.scores):.0f} of {len(test)}"
            lowest = variation.conditions(worst.latents[[worst.scores.argmin()]])
            print(f"  the most normal sick beat scores above {below} healthy ones:", shown(lowest))
    print("A weak recording hides a sick heart from a threshold on the score, though healthy beats recorded likewise")
    print("score lower still: it is the gain that misleads these detectors.")
    return found


if __name__ == "__main__":
    main()
