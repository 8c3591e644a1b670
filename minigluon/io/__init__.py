"""Iterators over data, the older way beside ``gluon.data``: DataIter, NDArrayIter, ResizeIter."""
from __future__ import annotations

from .iterator import DataBatch, DataDesc, DataIter, ResizeIter
from .ndarrayiter import NDArrayIter

__all__ = ["DataBatch", "DataDesc", "DataIter", "NDArrayIter", "ResizeIter"]
