"""Attention of a network: Grad-CAM maps, and their shift by an attack."""

from farout.attention.grad_cam import grad_cam
from farout.attention.shift import AttentionShift, attention_shift

__all__ = ["AttentionShift", "attention_shift", "grad_cam"]
