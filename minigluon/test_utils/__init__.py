"""Helpers for tests of networks and operators, as MXNet programs take them from ``mx.test_utils``.

`compare` compares arrays, `draw` makes them, `check` runs symbols forwards and backwards,
`consistency` one way and another, `chance` tests what is drawn, `tools` has what test suites are
run with.
"""
from __future__ import annotations

from ..testdata import (
    DummyIter,
    download,
    download_model,
    get_bz2_data,
    get_cifar10,
    get_mnist,
    get_mnist_iterator,
    get_mnist_pkl,
    get_mnist_ubyte,
    get_zip_data,
)
from ..util import get_cuda_compute_capability, getenv, setenv, use_np
from .chance import (
    chi_square_check,
    gen_buckets_probs_with_ppf,
    mean_check,
    var_check,
    verify_generator,
)
from .check import (
    check_numeric_gradient,
    check_symbolic_backward,
    check_symbolic_forward,
    numeric_grad,
    simple_forward,
)
from .compare import (
    almost_equal,
    assert_allclose,
    assert_almost_equal,
    assert_almost_equal_ignore_nan,
    assert_almost_equal_with_err,
    assert_exception,
    checkShapes,
    compare_ndarray_tuple,
    default_atols,
    default_dtype,
    default_numeric_eps,
    default_rtols,
    effective_dtype,
    get_atol,
    get_etol,
    get_rtol,
    get_tolerance,
    get_tols,
    locationError,
    same,
    same_array,
)
from .compare import find_max_violation as _find_max_violation  # noqa: F401
from .consistency import (
    check_consistency,
    check_gluon_hybridize_consistency,
    check_speed,
    compare_optimizer,
    same_symbol_structure,
)
from .draw import (
    assign_each,
    assign_each2,
    create_2d_tensor,
    create_sparse_array,
    create_sparse_array_zd,
    create_vector,
    get_identity_mat,
    get_identity_mat_batch,
    new_matrix_with_real_eigvals_2d,
    new_matrix_with_real_eigvals_nd,
    new_orthonormal_matrix_2d,
    new_sym_matrix_with_real_eigvals_2d,
    new_sym_matrix_with_real_eigvals_nd,
    rand_coord_2d,
    rand_ndarray,
    rand_shape_2d,
    rand_shape_3d,
    rand_shape_nd,
    rand_sparse_ndarray,
    random_arrays,
    random_sample,
    random_uniform_arrays,
    shuffle_csr_column_indices,
)
from .tools import (
    collapse_sum_like,
    default_context,
    discard_stderr,
    environment,
    get_im2rec_path,
    has_tvm_ops,
    is_aarch64_run,
    is_cd_run,
    is_op_runnable,
    list_gpus,
    np_reduce,
    retry,
    set_default_context,
)

__all__ = [
    "DummyIter", "almost_equal", "assert_allclose", "assert_almost_equal",
    "assert_almost_equal_ignore_nan", "assert_almost_equal_with_err", "assert_exception",
    "assign_each", "assign_each2", "checkShapes", "check_consistency",
    "check_gluon_hybridize_consistency", "check_numeric_gradient", "check_speed",
    "check_symbolic_backward", "check_symbolic_forward", "chi_square_check", "collapse_sum_like",
    "compare_ndarray_tuple", "compare_optimizer", "create_2d_tensor", "create_sparse_array",
    "create_sparse_array_zd", "create_vector", "default_atols", "default_context",
    "default_dtype", "default_numeric_eps", "default_rtols", "discard_stderr", "download",
    "download_model", "effective_dtype", "environment", "gen_buckets_probs_with_ppf", "get_atol",
    "get_bz2_data", "get_cifar10", "get_cuda_compute_capability", "get_etol", "get_identity_mat",
    "get_identity_mat_batch", "get_im2rec_path", "get_mnist", "get_mnist_iterator",
    "get_mnist_pkl", "get_mnist_ubyte", "get_rtol", "get_tolerance", "get_tols", "get_zip_data",
    "getenv", "has_tvm_ops", "is_aarch64_run", "is_cd_run", "is_op_runnable", "list_gpus",
    "locationError", "mean_check", "new_matrix_with_real_eigvals_2d",
    "new_matrix_with_real_eigvals_nd", "new_orthonormal_matrix_2d",
    "new_sym_matrix_with_real_eigvals_2d", "new_sym_matrix_with_real_eigvals_nd", "np_reduce",
    "numeric_grad", "rand_coord_2d", "rand_ndarray", "rand_shape_2d", "rand_shape_3d",
    "rand_shape_nd", "rand_sparse_ndarray", "random_arrays", "random_sample",
    "random_uniform_arrays", "retry", "same", "same_array", "same_symbol_structure",
    "set_default_context", "setenv", "shuffle_csr_column_indices", "simple_forward", "use_np",
    "var_check", "verify_generator"]
