"""Small helpers of training scripts: splitting batches, clipping gradients, fetching files."""
from __future__ import annotations

import contextlib
import importlib
import math
import os
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from .. import ndarray as nd
from ..base import ArgumentError, ArgumentValueError, MXNetError, integer_types
from ..context import Context
from ..ndarray import NDArray
from ..nn import HookHandle, Parameter, ParameterDict
from ..npmode import is_np_array, is_np_shape

__all__ = [
    "HookHandle", "check_sha1", "clip_global_norm", "download", "replace_file", "shape_is_known",
    "split_and_load", "split_data",
]


def shape_is_known(shape: tuple[int, ...] | None) -> bool:
    """Whether a shape has no unknown size: 0, or with ``npx.set_np`` -1, as in MXNet.

    >>> shape_is_known((2, 3)), shape_is_known((0, 3)), shape_is_known(None)
    (True, False, False)
    """
    if shape is None:
        return False
    unknown = -1 if is_np_shape() else 0
    if any(size < unknown for size in shape):
        raise ArgumentValueError(
            f"shape dimension size cannot be less than {unknown}, got {shape}")
    return unknown not in shape and (len(shape) > 0 or is_np_shape())


def split_data(
    data: NDArray, num_slice: int, batch_axis: int = 0, even_split: bool = True
) -> list[NDArray]:
    """Cut a batch into `num_slice` parts, in order.

    Args:
        even_split: complain (ValueError) where the parts cannot have equal size; otherwise the
            first ones have one sample more than the last, and of few samples some have none.

    >>> import minigluon as mx
    >>> [part.shape[0] for part in split_data(mx.nd.zeros((38, 2)), 8, even_split=False)]
    [5, 5, 5, 5, 5, 5, 4, 4]
    """
    if not isinstance(data, NDArray):
        raise ArgumentError(f"split_data: expected an NDArray, got {type(data).__name__}")
    if not isinstance(num_slice, integer_types) or num_slice < 1:
        raise ArgumentValueError(f"split_data: num_slice: expected 1 or more, got {num_slice!r}")
    if not -data.ndim <= batch_axis < data.ndim:
        raise ArgumentValueError(
            f"split_data: batch_axis: expected an axis of data of shape {data.shape}, "
            f"got {batch_axis}"
        )
    size = data.shape[batch_axis]
    if even_split and size % num_slice:
        raise ArgumentValueError(
            f"split_data: {size} samples cannot be split evenly into {num_slice} slices along "
            f"axis {batch_axis}; use a batch size that is a multiple of {num_slice}, or "
            "even_split=False"
        )
    small, larger = divmod(size, num_slice)
    ends = [(i + 1) * small + min(i + 1, larger) for i in range(num_slice)]
    starts = [0, *ends[:-1]]
    if num_slice == 1:
        return [data]
    if batch_axis == 0:
        return [data[start:end] for start, end in zip(starts, ends, strict=True)]
    return [
        nd.slice_axis(data, axis=batch_axis, begin=start, end=end)
        for start, end in zip(starts, ends, strict=True)
    ]


def split_and_load(
    data: Any, ctx_list: Sequence[Context], batch_axis: int = 0, even_split: bool = True
) -> list[NDArray]:
    """Cut a batch into a part for each context and put it there.

    Args:
        data: an NDArray, or anything ``nd.array`` takes.
        ctx_list: contexts; batch_axis, even_split: as in `split_data`.

    >>> import minigluon as mx
    >>> [part.context for part in split_and_load(mx.nd.zeros((4, 2)), [mx.cpu(0), mx.cpu(1)])]
    [cpu(0), cpu(1)]
    """
    if isinstance(ctx_list, Context):
        ctx_list = [ctx_list]
    if not ctx_list:
        raise ArgumentValueError("split_and_load: ctx_list: expected a list of contexts, got none")
    if not isinstance(data, NDArray):
        dtype = getattr(data, "dtype", None) if is_np_array() else None
        data = nd.shown(nd.array(data, ctx=ctx_list[0], dtype=dtype))
    if len(ctx_list) == 1:
        return [data.as_in_context(ctx_list[0])]
    parts = split_data(data, len(ctx_list), batch_axis, even_split)
    return [part.as_in_context(ctx) for part, ctx in zip(parts, ctx_list, strict=True)]


def clip_global_norm(arrays: Any, max_norm: float, check_isfinite: bool = True) -> Any:
    """Scale arrays in place so that the root of the sum of all their squares is <= `max_norm`.

    Args:
        arrays: arrays; or Parameters (a list or ``net.collect_params()``), whose gradients are
            meant: after ``trainer.allreduce_grads()`` the copies of one on several contexts, and
            on several workers, are equal, so each Parameter counts once.
        check_isfinite: warn about a norm that is not finite; costs waiting for the result.

    Returns:
        The norm before: a NumPy float32 if `check_isfinite`, else an NDArray of shape (1,).

    >>> import minigluon as mx
    >>> xs = [mx.nd.ones((3, 3)), mx.nd.ones((4, 4))]
    >>> float(clip_global_norm(xs, 1.0)), round(float(xs[0][0, 0].asscalar()), 4)
    (5.0, 0.2)
    """
    if not max_norm > 0:
        raise ArgumentValueError(
            f"clip_global_norm: max_norm: expected a positive number, got {max_norm}"
        )
    copies = _copies(arrays)
    if not copies:
        raise ArgumentValueError("clip_global_norm: there are no arrays")
    home = copies[0][0].context
    squares = [_square_sum(same[0]).as_in_context(home) for same in copies]
    total = nd.sqrt(nd.add_n(*squares))
    norm = total.asscalar() if check_isfinite else total
    if check_isfinite and not math.isfinite(norm):
        warnings.warn("nan or inf is detected. Clipping results will be undefined.", stacklevel=2)
    scale = nd.minimum(max_norm / (total + 1e-8), 1.0)
    for array in (array for same in copies for array in same):
        factor = scale.as_in_context(array.context).astype(array.dtype)
        array._write(nd.broadcast_mul(array.reshape(-1), factor).reshape(array.shape)._sync())
    return np.float32(norm) if check_isfinite else norm


def _copies(arrays: Any) -> list[list[NDArray]]:
    """Arrays to clip: those in one inner list are copies of the same thing."""
    if isinstance(arrays, (Mapping, ParameterDict)):
        arrays = list(arrays.values())
    copies = []
    for one in arrays:
        if not isinstance(one, Parameter):
            copies.append([one])
        elif one.grad_req != "null":
            copies.append(one.list_grad())
    return [[_kept(array) for array in same] for same in copies]


def _kept(array: Any) -> Any:
    """What a sparse array keeps, sharing its memory; the rest is zero and stays so."""
    sparse = isinstance(array, NDArray) and array.stype != "default"
    return array.data if sparse else array


def _square_sum(array: NDArray) -> NDArray:
    flat = array.reshape(-1).astype("float32", copy=False)
    squares: NDArray = nd.dot(flat, flat)
    return squares.reshape(1)


# -- files ----------------------------------------------------------------------------------------


def check_sha1(filename: str, sha1_hash: str) -> bool:
    """Whether the content of a file has this SHA-1 in hexadecimal.

    >>> import tempfile
    >>> with tempfile.NamedTemporaryFile() as file:
    ...     check_sha1(file.name, "da39a3ee5e6b4b0d3255bfef95601890afd80709")
    True
    """
    import hashlib  # it, shutil and ssl take longer to import than the rest of gluon

    digest = hashlib.sha1()
    with open(filename, "rb") as file:
        while chunk := file.read(1 << 20):
            digest.update(chunk)
    return digest.hexdigest() == sha1_hash


def replace_file(src: str, dst: str) -> None:
    """Put file `src` in the place of `dst` in one step; a failure removes `src`."""
    try:
        os.replace(src, dst)
    except OSError as error:
        with contextlib.suppress(OSError):
            os.unlink(src)
        raise OSError(f"Moving downloaded temp file - {src}, to {dst} failed: {error}") from error


_REPOSITORY = "https://apache-mxnet.s3-accelerate.dualstack.amazonaws.com/"


def _get_repo_url() -> str:
    """Where datasets and weights are fetched from: ``MXNET_GLUON_REPO``, by default MXNet's."""
    return (os.environ.get("MXNET_GLUON_REPO") or _REPOSITORY).rstrip("/") + "/"


def _get_repo_file_url(namespace: str, filename: str) -> str:
    """The address of one file of the repository."""
    return f"{_get_repo_url()}{namespace}/{filename}"


def download(
    url: str,
    path: str | None = None,
    overwrite: bool = False,
    sha1_hash: str | None = None,
    retries: int = 5,
    verify_ssl: bool = True,
) -> str:
    """Fetch a file; it appears under its name only when it is complete and its hash is right.

    Args:
        path: where to put it: a file name, a folder, or None for the current folder.
        overwrite: fetch it even if it is there with the right hash.
        retries: how many further times to try.
        verify_ssl: check the server's certificate.

    Returns:
        The path of the file.
    """
    fname = _target(url, path)
    assert retries >= 0, "Number of retries should be at least 0"
    if not verify_ssl:
        warnings.warn(
            "Unverified HTTPS request is being made (verify_ssl=False). "
            "Adding certificate verification is strongly advised.",
            stacklevel=2,
        )
    if not overwrite and os.path.exists(fname) and _right(fname, sha1_hash):
        return fname
    os.makedirs(os.path.dirname(os.path.abspath(fname)), exist_ok=True)
    for left in range(retries, -1, -1):
        draft = f"{fname}.{os.urandom(8).hex()}"
        try:
            _fetch(url, draft, verify_ssl)
            if not _right(draft, sha1_hash):
                raise MXNetError(
                    f"download: {url} has another SHA-1 than {sha1_hash}; the file may have "
                    "changed, or was cut short"
                )
            if overwrite or not os.path.exists(fname) or not _right(fname, sha1_hash):
                replace_file(draft, fname)
            return fname
        except Exception as error:
            if left == 0:
                raise
            print(f"download of {url} failed ({error!r}), retrying, {left} attempts left")
        finally:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(draft)
    raise AssertionError("unreachable: the last attempt returns or raises")


def _target(url: str, path: str | None) -> str:
    name = url.split("/")[-1]
    if path is None:
        assert name, f"Can't construct file-name from {url}. Please set the `path` option manually."
        return name
    path = os.path.expanduser(path)
    return os.path.join(path, name) if os.path.isdir(path) else path


def _right(fname: str, sha1_hash: str | None) -> bool:
    return not sha1_hash or check_sha1(fname, sha1_hash)


def _fetch(url: str, fname: str, verify_ssl: bool) -> None:
    """Write the content of `url` to a file, by requests where it is installed."""
    try:
        requests = importlib.import_module("requests")
    except ImportError:
        import shutil
        import ssl
        import urllib.request

        context = None if verify_ssl else ssl._create_unverified_context()
        with urllib.request.urlopen(url, context=context, timeout=60) as answer:
            with open(fname, "wb") as file:
                shutil.copyfileobj(answer, file)
        return
    answer = requests.get(url, stream=True, verify=verify_ssl, timeout=60)
    if answer.status_code != 200:
        raise MXNetError(f"Failed downloading url {url}: HTTP status {answer.status_code}")
    with open(fname, "wb") as file:
        for chunk in answer.iter_content(chunk_size=1 << 16):
            file.write(chunk)
