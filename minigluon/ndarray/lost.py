"""Results of an operator that failed as it ran."""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..device import Device
from ..device.engine import Failure
from ..ops import Attrs, Operator

__all__ = ["lost_results"]


def lost_results(op: Operator, raws: Sequence[Any], attrs: Attrs, device: Device,
                 failure: Failure) -> tuple[Any, ...]:
    """Zeros of the shapes and types that the results would have had.

    Raises:
        the error: nothing tells the shapes, so there can be no arrays to wait with.
    """
    count = op.num_outputs(attrs)
    public = {name: attrs[name] for name in op.attr_names if name in attrs}
    shapes: list[Any] = [raw.shape for raw in raws]
    dtypes: list[Any] = [str(raw.dtype) for raw in raws]
    shapes = op.infer(shapes, public)[1] if op.infer else (shapes[:1] or [None]) * count
    if op.infer_dtype is not None:
        dtypes = op.infer_dtype(dtypes, public)[1]
    else:
        dtypes = (dtypes[:1] or [None]) * count
    if any(shape is None for shape in shapes) or any(dtype is None for dtype in dtypes):
        failure.see()
    return tuple([device.xp.zeros(shape, dtype)
                  for shape, dtype in zip(shapes, dtypes, strict=True)])
