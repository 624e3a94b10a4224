"""PixelCNN++: negative log-likelihood of an autoregressive model (Salimans et al. 2017)."""

from farout.detectors.trained.pixelcnn.detector import PixelCNN

__all__ = ["PixelCNN"]
