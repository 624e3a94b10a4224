"""A detector of your own: fitted on inliers, checked, put to the test, written to a report.

Run it from anywhere: python own_detector.py
"""

import torch

import farout


class EdgeEnergy(farout.Detector):
    """Distance of the strength of an image's edges from that of the inliers."""

    def fit(self, images):
        strengths = torch.cat([self.strength(batch) for batch in images])  # a set is read chunk by chunk
        self.mean, self.std = strengths.mean(), strengths.std()

    def score(self, images):
        if not hasattr(self, "mean"):
            raise farout.NotFitted("EdgeEnergy is not fitted: call fit on inliers first")
        return ((self.strength(images) - self.mean) / self.std).abs()

    def strength(self, images):
        return images.diff(dim=2).abs().mean((1, 2, 3)) + images.diff(dim=3).abs().mean((1, 2, 3))


if __name__ == "__main__":
    for finding in farout.check(EdgeEnergy):
        print("failed" if finding.problem else "ok", finding.check, finding.problem)
    result = farout.stress(EdgeEnergy(), inliers="toy")
    print(result)
    print("report:", result.report("own_detector.html"))
