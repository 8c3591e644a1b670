"""What operators mean: pure functions of arrays. Importing this room enters all of them."""
from . import (
    arrange,
    broadcast,
    decomposition,
    elemwise,
    fused,
    image,
    index,
    init,
    join,
    linalg,
    nn,
    order,
    random,
    reduce,
    scalar,
    sequence,
    shape,
    slicing,
    spatial,
    triangular,
    update,
)
from .attrs import attr_key, attr_text
from .custom import OpenOperator
from .face import BINARY, attach_methods, function, namespace, subspaces
from .operator import Attrs, Operator, find_operator, operator, registry

__all__ = [
    "BINARY", "Attrs", "OpenOperator", "Operator", "attach_methods", "attr_key", "attr_text",
    "find_operator", "function", "namespace", "operator", "registry", "subspaces",
]
