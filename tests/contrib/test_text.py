"""mx.contrib.text: words counted and numbered as MXNet does."""
from __future__ import annotations

from collections import Counter

import pytest

import minigluon as mx
from minigluon.base import ArgumentValueError
from minigluon.contrib import text

COUNTS = Counter(["a", "b", "b", "c", "c", "c", "some_word$"])


def test_words_are_counted() -> None:
    source = " Life is great ! \n life is good . \n"
    counts = text.utils.count_tokens_from_str(source, to_lower=True)
    assert counts == {"life": 2, "is": 2, "great": 1, "!": 1, "good": 1, ".": 1}
    again = text.utils.count_tokens_from_str("is_it", "_", counter_to_update=counts)
    assert again is counts and counts["is"] == 3 and counts["it"] == 1


def test_numbers_by_frequency_then_by_alphabet() -> None:
    vocabulary = text.vocab.Vocabulary(COUNTS, min_freq=2, reserved_tokens=["<pad>"])
    assert vocabulary.token_to_idx == {"<unk>": 0, "<pad>": 1, "c": 2, "b": 3}
    assert len(vocabulary) == 4 and vocabulary.reserved_tokens == ["<pad>"]
    assert vocabulary.to_indices("c") == 2 and vocabulary.to_indices(["c", "zz"]) == [2, 0]
    assert vocabulary.to_tokens(1) == "<pad>" and vocabulary.to_tokens([0, 3]) == ["<unk>", "b"]
    letters = text.vocab.Vocabulary(Counter("bac<unk>"))
    assert letters.idx_to_token == ["<unk>", "<", ">", "a", "b", "c", "k", "n", "u"]
    assert letters.reserved_tokens is None and letters.unknown_token == "<unk>"


def test_the_most_frequent_only() -> None:
    assert text.vocab.Vocabulary(COUNTS, 2).idx_to_token == ["<unk>", "c", "b"]
    reserved = text.vocab.Vocabulary(COUNTS, 2, reserved_tokens=["c"])
    assert reserved.idx_to_token == ["<unk>", "c", "b", "a"]
    assert text.vocab.Vocabulary().idx_to_token == ["<unk>"]


def test_misuse() -> None:
    with pytest.raises(ArgumentValueError, match="min_freq"):
        text.vocab.Vocabulary(COUNTS, min_freq=0)
    for words in (["<unk>"], ["a", "a"]):
        with pytest.raises(ArgumentValueError, match="must all differ"):
            text.vocab.Vocabulary(COUNTS, reserved_tokens=words)
    for index in (100, -1, "a"):
        with pytest.raises(ArgumentValueError, match="is invalid"):
            text.vocab.Vocabulary(COUNTS).to_tokens(index)


def test_what_is_not_built_is_named() -> None:
    with pytest.raises(AttributeError, match="amp, onnx and quantization"):
        _ = mx.contrib.amp
