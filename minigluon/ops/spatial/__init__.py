"""Operators on the two spatial axes of images (N, C, H, W): resized, sampled, pooled."""
from . import deform, deform_pool, region, resample, rotated, sampler

__all__ = ["deform", "deform_pool", "region", "resample", "rotated", "sampler"]
