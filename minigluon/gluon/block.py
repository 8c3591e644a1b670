"""Where Gluon scripts look for blocks: ``from minigluon.gluon.block import HybridBlock``."""
from ..nn import Block, HybridBlock, SymbolBlock

__all__ = ["Block", "HybridBlock", "SymbolBlock"]
