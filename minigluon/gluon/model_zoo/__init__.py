"""Networks that others have designed, with or without their trained weights.

==============  ==================================================================================
vision          get_model(name): 34 networks for images
model_store     get_model_file(name): where the trained weights lie, fetched if need be
==============  ==================================================================================
"""
from __future__ import annotations

from . import model_store, vision

__all__ = ["model_store", "vision"]
