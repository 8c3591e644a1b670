"""Samples of the less common operators: the lists of their families together."""
from __future__ import annotations

import samples_detection
import samples_linalg
import samples_misc
import samples_multi
import samples_sparse
import samples_spatial
import samples_surface
from sample import Sample

__all__ = ["SAMPLES"]

SAMPLES: dict[str, list[Sample]] = {
    **samples_detection.SAMPLES,
    **samples_linalg.SAMPLES,
    **samples_misc.SAMPLES,
    **samples_sparse.SAMPLES,
    **samples_multi.SAMPLES,
    **samples_spatial.SAMPLES,
    **samples_surface.SAMPLES,
}
