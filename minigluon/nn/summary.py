"""The table that ``Block.summary`` prints."""
from __future__ import annotations

import math
from typing import Any, NamedTuple

__all__ = ["print_summary"]

_ROW = "{:>20}  {:>42} {:>15}"


class _Layer(NamedTuple):
    kind: str
    shape: str
    size: int
    trainable: int
    shared: int


def print_summary(block: Any, inputs: tuple[Any, ...]) -> None:
    """Run `block` once and print a row for each layer run: its output shape and parameters.

    Raises:
        AssertionError: the block, or one inside it, is hybridized (its layers are not run then).
    """
    layers = _run(block, inputs)
    print("-" * 80)
    print(_ROW.format("Layer (type)", "Output Shape", "Param #"))
    print("=" * 80)
    print(_ROW.format("Input", ", ".join(map(_shapes, inputs)), 0))
    for number, layer in enumerate(layers, 1):
        print(_ROW.format(f"{layer.kind}-{number}", layer.shape, layer.size))
    total = sum(layer.size for layer in layers)
    trainable = sum(layer.trainable for layer in layers)
    shared = sum(layer.shared for layer in layers)
    print("=" * 80)
    print("Parameters in forward computation graph, duplicate included")
    print(f"   Total params: {total}")
    print(f"   Trainable params: {trainable}")
    print(f"   Non-trainable params: {total - trainable}")
    print(f"Shared params in forward computation graph: {shared}")
    print(f"Unique parameters in model: {total - shared}")
    print("-" * 80)


def _run(block: Any, inputs: tuple[Any, ...]) -> list[_Layer]:
    layers: list[_Layer] = []
    handles: list[Any] = []
    seen: set[Any] = set()

    def note(layer: Any, _: Any, outputs: Any) -> None:
        own = [(p, math.prod(p.shape)) for p in layer.params.values()]
        layers.append(_Layer(
            type(layer).__name__,
            ", ".join(map(_shapes, outputs)) if isinstance(outputs, (list, tuple))
            else _shapes(outputs),
            sum(size for _, size in own),
            sum(size for p, size in own if p.grad_req != "null"),
            sum(size for p, size in own if p in seen),
        ))
        seen.update(p for p, _ in own)

    def hook(layer: Any) -> None:
        if getattr(layer, "_active", False):
            raise AssertionError(f'"{layer.name}" must not be hybridized to print summary.')
        if layer._in_summary:
            handles.append(layer.register_forward_hook(note))

    try:
        block.apply(hook)
        block(*inputs)
    finally:
        for handle in handles:
            handle.detach()
    return layers


def _shapes(value: Any) -> str:
    if isinstance(value, (list, tuple)):
        return "[{}]".format(", ".join(map(_shapes, value)))
    return str(getattr(value, "shape", value))
