"""Sparse forms of operators: what they do with row_sparse and csr arrays without filling them up.

An operator stays one record; a form hangs on it and is chosen in ``dispatch`` by the storage types
of the inputs. Where there is none, dispatch makes the inputs dense.
"""
from . import arith, counts, product, records, reduction, rows
from .form import Form, form, form_for

# isort: split
from . import names  # of records that the others enter

__all__ = ["Form", "arith", "counts", "form", "form_for", "names", "product", "records",
           "reduction", "rows"]
