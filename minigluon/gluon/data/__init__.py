"""Samples and batches: datasets, samplers, the DataLoader; ``vision`` has images."""
from __future__ import annotations

from . import dataloader, dataset, sampler, vision
from .dataloader import DataLoader
from .dataset import ArrayDataset, Dataset, RecordFileDataset, SimpleDataset
from .sampler import (
    BatchSampler,
    FilterSampler,
    RandomSampler,
    Sampler,
    SequentialSampler,
    SplitSampler,
)

__all__ = [
    "ArrayDataset", "BatchSampler", "DataLoader", "Dataset", "FilterSampler", "RandomSampler",
    "RecordFileDataset", "Sampler", "SequentialSampler", "SimpleDataset", "SplitSampler",
    "dataloader", "dataset", "sampler", "vision",
]
