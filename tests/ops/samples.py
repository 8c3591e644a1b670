"""All samples of the operator catalogue: the families' lists together, and what is left out."""
from __future__ import annotations

import samples_core
import samples_image
import samples_legacy
import samples_nn
import samples_numpy
import samples_rnn
import samples_tail
from sample import Sample

from minigluon.ops import registry

__all__ = ["ALL", "EXEMPT", "SAMPLES"]

# Registered operators that need no sample, each with the reason.
EXEMPT: dict[str, str] = {
    **dict.fromkeys(("_foreach", "_while_loop", "_cond", "_foreach_grad", "_while_loop_grad",
                     "_cond_grad"), "they run graphs; tests/symbol/test_control.py"),
    "_contrib_boolean_mask": "the shape of its output depends on values; tests/ops/test_tail.py",
    "_embedding_grad_rows": "it gives a row_sparse array; tests/ndarray/test_sparse.py",
    "Custom": "a name for all operators written in Python; tests/test_operator.py",
}

SAMPLES: dict[str, list[Sample]] = {}
for _family in (samples_core, samples_image, samples_legacy, samples_nn, samples_numpy,
                samples_rnn, samples_tail):
    for _name, _samples in _family.SAMPLES.items():
        SAMPLES.setdefault(registry[_name].name, []).extend(_samples)

# (operator name, sample) with a readable id
ALL: list[tuple[str, str, Sample]] = [
    (f"{name}-{number}", name, sample)
    for name, samples in sorted(SAMPLES.items()) for number, sample in enumerate(samples)
]
