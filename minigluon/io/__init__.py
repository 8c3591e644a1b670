"""Iterators over data, the older way beside ``gluon.data``: DataIter, NDArrayIter, ResizeIter."""
from __future__ import annotations

from ..dataiter import DataBatch, DataDesc, DataIter
from .around import ResizeIter
from .ndarrayiter import NDArrayIter

__all__ = ["DataBatch", "DataDesc", "DataIter", "NDArrayIter", "ResizeIter"]
