"""What operators mean: pure functions of arrays. Importing this room enters all of them."""
from . import (
    adagrad,
    adamw,
    arrange,
    assign,
    attention,
    broadcast,
    copies,
    decomposition,
    densities,
    detection,
    elemwise,
    fused,
    hawkes,
    image,
    index,
    init,
    join,
    linalg,
    multi,
    nn,
    numpy,
    order,
    places,
    precision,
    random,
    reduce,
    reshape,
    sampling,
    scalar,
    scan,
    sequence,
    shape,
    slicing,
    spatial,
    spectrum,
    triangular,
    update,
)
from .attrs import attr_key, attr_text
from .custom import OpenOperator
from .drawing import drawing_functions, zipfian_function
from .face import BINARY, PLAIN, attach_methods, function, namespace, subspaces
from .join import split_v2_settings
from .numpy.recode import decoded
from .operator import Attrs, Operator, find_operator, operator, registry

# isort: split
from . import sparse  # hangs on records of all the others

__all__ = [
    "BINARY", "PLAIN", "Attrs", "OpenOperator", "Operator", "attach_methods", "attr_key",
    "attr_text", "decoded", "drawing_functions", "find_operator", "function", "namespace",
    "operator", "registry", "split_v2_settings", "subspaces", "zipfian_function",
]
