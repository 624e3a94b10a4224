"""Where a network looks: Grad-CAM, the similarity of two maps, and how far an attack moves the attention."""

from farout.attention.grad_cam import grad_cam
from farout.attention.shift import AttentionShift, attention_shift
from farout.attention.ssim import ssim

__all__ = ["AttentionShift", "attention_shift", "grad_cam", "ssim"]
