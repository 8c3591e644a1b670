"""Boxes around objects: overlaps, suppression, matching, anchors, targets, proposals."""
from . import box, match, multibox, proposal

__all__ = ["box", "match", "multibox", "proposal"]
