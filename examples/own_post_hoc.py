"""A post-hoc detector of your own: compared with its older version, then written to one ONNX file.

Run it from anywhere: python own_post_hoc.py
"""

from dataclasses import dataclass

import farout


@farout.register
@dataclass(kw_only=True)
class Margin(farout.PostHoc):
    """Small margin of the largest logit over the next; k = 1 for the second largest, 2 for the third, …"""

    name = "margin"
    k: int = 1

    def score(self, activations):  # [B, classes] -> [B], larger = more outlying
        top = activations.logits.double().topk(self.k + 1).values
        return top[:, self.k] - top[:, 0]


def main(epochs=5):
    network = farout.networks.create("lenet", classes=4, side=32)
    train, val = farout.load("toy", "train"), farout.load("toy", "val")
    farout.networks.train(network, train, val, epochs=epochs, augment="none")
    panel = farout.Panel(network, {"old": Margin(), "new": Margin(k=2)}).fit(train, val=val)
    inliers, outliers = panel.score(farout.load("toy")), panel.score(farout.load("noise", limit=1000))
    found = farout.metrics.paired_test(inliers["new"], outliers["new"], inliers["old"], outliers["old"])
    print(f"AUROC of the new version minus that of the old: {found}")
    panel.only("new").export("margin.onnx")  # images in, score and p_value out
    return found


if __name__ == "__main__":
    main()
