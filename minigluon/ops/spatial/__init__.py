"""Operators on the two spatial axes of images (N, C, H, W): resized, sampled, pooled."""
from . import region, resample, sampler

__all__ = ["region", "resample", "sampler"]
