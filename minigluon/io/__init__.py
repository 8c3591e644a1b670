"""Iterators over data, the older way beside ``gluon.data``: from arrays, text, MNIST, images."""
from __future__ import annotations

from ..dataiter import DataBatch, DataDesc, DataIter
from .around import PrefetchingIter, ResizeIter
from .fileiter import MXDataIter
from .imagedet import ImageDetRecordIter
from .imagerecord import (
    ImageRecordIter,
    ImageRecordIter_v1,
    ImageRecordUInt8Iter,
    ImageRecordUInt8Iter_v1,
)
from .mnist import MNISTIter, read_idx
from .ndarrayiter import NDArrayIter
from .text import CSVIter, LibSVMIter

__all__ = [
    "CSVIter", "DataBatch", "DataDesc", "DataIter", "ImageDetRecordIter", "ImageRecordIter",
    "ImageRecordIter_v1", "ImageRecordUInt8Iter", "ImageRecordUInt8Iter_v1", "LibSVMIter",
    "MNISTIter", "MXDataIter", "NDArrayIter", "PrefetchingIter", "ResizeIter", "read_idx",
]
