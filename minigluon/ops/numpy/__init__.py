"""Operators that only NumPy's interface needs (``mx.np``): what they mean is NumPy's."""
from . import arrange, choose, product, recode, solve

__all__ = ["arrange", "choose", "product", "recode", "solve"]
