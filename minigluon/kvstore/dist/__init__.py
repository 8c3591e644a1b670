"""The parameter server: scheduler, servers, and the KVStore of the workers (see docs/kvstore.md).

Nothing is imported here: the rooms inside need zmq, which ``import minigluon`` must not load.
"""
from __future__ import annotations

__all__: list[str] = []
