"""Attention of a network: Grad-CAM maps, their similarity (SSIM), and their shift by an attack."""

from farout.attention.grad_cam import grad_cam
from farout.attention.shift import AttentionShift, attention_shift
from farout.attention.ssim import ssim

__all__ = ["AttentionShift", "attention_shift", "grad_cam", "ssim"]
