"""Images: datasets and transforms."""
from __future__ import annotations

from . import datasets, transforms
from .datasets import MNIST, FashionMNIST

__all__ = ["MNIST", "FashionMNIST", "datasets", "transforms"]
