"""SyncBatchNorm: BatchNorm under the name that networks for several devices use."""
from __future__ import annotations

from typing import Any

from ..operator import Attrs, MaybeShape, operator
from .batchnorm import batch_norm

__all__ = ["sync_batch_norm"]

Shapes = list[MaybeShape]
Array = Any


def _plain(attrs: Attrs) -> Attrs:
    """BatchNorm's own attributes."""
    own = {name: attrs[name] for name in ("eps", "momentum", "fix_gamma", "use_global_stats",
                                          "output_mean_var")}
    return {**batch_norm.defaults, **own}


def _shape(shapes: Shapes, attrs: Attrs) -> tuple[Shapes, Shapes]:
    assert batch_norm.infer is not None
    return batch_norm.infer(shapes, _plain(attrs))


def _dtype(dtypes: list[Any], attrs: Attrs) -> tuple[list[Any], list[Any]]:
    assert batch_norm.infer_dtype is not None
    return batch_norm.infer_dtype(dtypes, _plain(attrs))


def _gradient(F: Any, dy: Any, out: Any, *inputs: Any, training: bool, **attrs: Any) -> list[Any]:
    assert batch_norm.gradient is not None
    return list(batch_norm.gradient(F, dy, out, *inputs, training=training, **_plain(attrs)))


@operator("_contrib_SyncBatchNorm", infer=_shape, infer_dtype=_dtype, gradient=_gradient,
          num_outputs=3, visible=lambda attrs: 3 if attrs["output_mean_var"] else 1,
          mutates=("moving_mean", "moving_var"), aux=("moving_mean", "moving_var"),
          output_names=("output", "mean", "var"))
def sync_batch_norm(
    xp: Any, data: Array, gamma: Array, beta: Array, moving_mean: Array, moving_var: Array, *,
    eps: float = 1e-3, momentum: float = 0.9, fix_gamma: bool = True,
    use_global_stats: bool = False, output_mean_var: bool = False, ndev: int = 1,
    key: str = "", training: bool,
) -> Any:
    """BatchNorm. The statistics are those of the samples on each device by itself.

    Args:
        data, gamma, beta, moving_mean, moving_var, eps, momentum, fix_gamma, use_global_stats,
            output_mean_var: as in BatchNorm, channels on axis 1.
        ndev, key: how many devices share the statistics, and under which name: accepted; a
            device's samples are normalised by their own statistics.

    Shapes:
        data (N, C, *S); gamma, beta, moving_mean, moving_var (C,) -> (N, C, *S)[, (C,), (C,)].
    """
    attrs = _plain({"eps": eps, "momentum": momentum, "fix_gamma": fix_gamma,
                    "use_global_stats": use_global_stats, "output_mean_var": output_mean_var})
    return batch_norm.body(xp, data, gamma, beta, moving_mean, moving_var, training=training,
                           **attrs)
