"""Iterators over data, the older way beside ``gluon.data``: from arrays, text, MNIST, images."""
from __future__ import annotations

from ..dataiter import DataBatch, DataDesc, DataIter
from .around import PrefetchingIter, ResizeIter
from .fileiter import MXDataIter
from .imagerecord import ImageDetRecordIter, ImageRecordIter, ImageRecordUInt8Iter
from .mnist import MNISTIter, read_idx
from .ndarrayiter import NDArrayIter
from .text import CSVIter, LibSVMIter

__all__ = [
    "CSVIter", "DataBatch", "DataDesc", "DataIter", "ImageDetRecordIter", "ImageRecordIter",
    "ImageRecordUInt8Iter", "LibSVMIter", "MNISTIter", "MXDataIter", "NDArrayIter",
    "PrefetchingIter", "ResizeIter", "read_idx",
]
