"""Operators on images: resize, cut, turn, colour, and to what a network takes."""
from . import color, geometry, resize, tensor

__all__: list[str] = []
