"""``mx.npx``: what networks need beside NumPy, on ``np.ndarray`` and (as ``F.npx``) on Symbols."""
from __future__ import annotations

from types import SimpleNamespace as _SimpleNamespace
from typing import Any

from . import ndarray as _nd
from .base import ArgumentValueError
from .context import Context, cpu, cpu_pinned, current_context, gpu
from .device import gpu_memory_info, num_gpus
from .ndarray import NDArray as _NDArray
from .ndarray import waitall
from .npmode import (
    is_np_array,
    is_np_shape,
    np_array,
    np_shape,
    reset_np,
    set_np,
    use_np,
    use_np_array,
    use_np_shape,
)
from .numpy import array as _array
from .numpy import batches as random
from .numpy.array import face as _face
from .numpy.array import lift as _lift
from .numpy.elementwise import lifted as _lifted
from .numpy.elementwise import nonzero as _nonzero
from .numpy.told import numeric as _numeric
from .ops import decoded as _decoded

__path__: list[str] = []  # MXNet has files below it, which `elsewhere` finds

# npx's name -> the operator's
_OPERATORS = {
    "activation": "Activation", "arange_like": "_contrib_arange_like", "batch_dot": "batch_dot",
    "batch_flatten": "Flatten", "batch_norm": "BatchNorm", "cast": "Cast",
    "convolution": "Convolution", "ctc_loss": "CTCLoss", "deconvolution": "Deconvolution",
    "dropout": "Dropout", "embedding": "Embedding", "erf": "erf", "erfinv": "erfinv",
    "fully_connected": "FullyConnected", "gamma": "gamma", "gammaln": "gammaln",
    "gather_nd": "gather_nd", "group_norm": "GroupNorm", "instance_norm": "InstanceNorm",
    "l2_normalization": "L2Normalization", "layer_norm": "LayerNorm", "leaky_relu": "LeakyReLU",
    "log_softmax": "log_softmax", "multibox_detection": "_contrib_MultiBoxDetection",
    "multibox_prior": "_contrib_MultiBoxPrior", "multibox_target": "_contrib_MultiBoxTarget",
    "one_hot": "one_hot", "pick": "pick", "pooling": "Pooling", "relu": "relu",
    "reshape_like": "reshape_like", "rnn": "RNN", "roi_pooling": "ROIPooling",
    "sequence_mask": "SequenceMask", "sequence_last": "SequenceLast",
    "sequence_reverse": "SequenceReverse", "shape_array": "shape_array", "sigmoid": "sigmoid",
    "slice": "slice", "slice_axis": "slice_axis", "slice_like": "slice_like",
    "smooth_l1": "smooth_l1", "softmax": "softmax", "softmin": "softmin", "topk": "topk",
    "broadcast_like": "broadcast_like", "stop_gradient": "BlockGrad", "scatter_nd": "scatter_nd",
}


def _function(name: str, target: str) -> Any:
    def function(*args: Any, **kwargs: Any) -> Any:
        args = tuple(_shown(value) for value in args)
        kwargs = {word: _shown(value) for word, value in kwargs.items()}
        return getattr(_face(*args, *kwargs.values()), target)(*args, **kwargs)

    operator = getattr(_nd, target)
    function.__name__ = function.__qualname__ = name
    function.__doc__ = operator.__doc__
    function.__signature__ = operator.__signature__  # type: ignore[attr-defined]
    return function


def _shown(value: Any) -> Any:
    return value.as_np_ndarray() if type(value) is _NDArray else _numeric(value)


for _name, _target in _OPERATORS.items():
    globals()[_name] = _function(_name, _target)


def nonzero(a: Any) -> Any:
    """The places of elements that are not 0, one in each row, as int64.

    Shapes: a (*S) -> (number of them, len(S)).
    """
    return _lift(_nd.stack(*_nonzero(a), axis=1))  # type: ignore[attr-defined]


def reshape(a: Any, newshape: Any, reverse: bool = False, order: str = "C") -> Any:
    """The same elements in another shape, with codes.

    Args:
        a: an array. newshape: sizes, or -1 (found from the others), -2 (copy this size), -3 (drop
            this size, which must be 1), -4 (copy all remaining sizes), -5 (merge two), -6 (split
            one into the two sizes that follow). reverse: match from the right.

    >>> from minigluon import np
    >>> reshape(np.ones((2, 3, 8)), (-2, -2, 2, -1)).shape
    (2, 3, 2, 4)
    """
    a = _lifted(a)
    codes = [newshape] if isinstance(newshape, int) else list(newshape)
    if not isinstance(a, _NDArray):
        return _face(a)._npx_reshape(a, newshape=tuple(codes), reverse=reverse)
    return a.reshape(_decoded(list(a.shape), codes, reverse))


def masked_softmax(data: Any, mask: Any, axis: int = -1, temperature: float = 1.0) -> Any:
    """softmax over the elements whose mask is not 0; the others get 0."""
    F, mask = _face(data, mask), _numeric(mask)
    none = F.zeros_like(data)
    lowest = -6e4 if getattr(data, "dtype", None) == "float16" else -1e18
    low = F._npi_where(mask, data, F._plus_scalar(none, scalar=lowest))
    return F._npi_where(mask, F.softmax(low, axis=axis, temperature=temperature), none)


def constraint_check(input: Any, msg: str = "Constraint violated!") -> Any:
    """``array(True)`` where all elements are true: a factor for what they are conditions of.

    Raises:
        ValueError: with `msg`, where one is not.
    """
    if not _lifted(input).asnumpy().all():
        raise ArgumentValueError(msg)
    return _array(True, "bool", input.ctx)


def save(file: str, arr: Any) -> None:
    """Write arrays to a file: one, a list, or a dict from names to arrays."""
    _nd.save(file, arr)


def load(file: str) -> Any:
    """Arrays from a file, as ``np.ndarray``: a list, or a dict from names to arrays."""
    with np_shape():
        found = _nd.load(file)
    _lift(list(found.values()) if isinstance(found, dict) else found)
    return found


def seed(seed: int, ctx: Any = "all") -> None:
    """Restart the random streams, as ``mx.random.seed``."""
    random.seed(seed, ctx)


def from_numpy(array: Any, zero_copy: bool = True) -> Any:
    """An array that shares the memory of NumPy's, or a copy."""
    return _lift(_nd.from_numpy(array, zero_copy)) if zero_copy else _array(array, array.dtype)


image = _SimpleNamespace(**{
    name: _function(f"image.{name}", f"_image_{name}") for name in (
        "crop", "normalize", "resize", "to_tensor", "flip_left_right", "flip_top_bottom",
        "random_flip_left_right", "random_flip_top_bottom", "random_brightness",
        "random_contrast", "random_saturation", "random_hue", "random_color_jitter",
        "random_lighting", "adjust_lighting")})

__all__ = [
    "Context", "constraint_check", "cpu", "cpu_pinned", "current_context", "from_numpy", "gpu",
    "gpu_memory_info", "image", "is_np_array", "is_np_shape", "load", "masked_softmax", "nonzero",
    "np_array", "np_shape", "num_gpus", "random", "reset_np", "reshape", "save", "seed", "set_np",
    "use_np", "use_np_array", "use_np_shape", "waitall",
]
__all__ += sorted(_OPERATORS)
