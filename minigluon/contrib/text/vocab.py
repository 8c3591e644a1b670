"""Numbering words."""
from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

from ...base import ArgumentValueError

__all__ = ["Vocabulary"]


class Vocabulary:
    """Numbers for words: the unknown word is 0, reserved words follow, then the frequent ones.

    Args:
        counter: how often each word occurs; None: only the words below.
        most_freq_count: keep at most so many counted words; None: all.
        min_freq: keep only words that occur at least so often.
        unknown_token: what stands for every word that has no number.
        reserved_tokens: words that have a number in any case, such as one for padding.

    Words of the same frequency are in alphabetical order.

    >>> from collections import Counter
    >>> counts = Counter("a b b c c c".split())
    >>> vocabulary = Vocabulary(counts, min_freq=2, reserved_tokens=["<pad>"])
    >>> vocabulary.idx_to_token
    ['<unk>', '<pad>', 'c', 'b']
    >>> vocabulary.to_indices(["c", "a"])
    [2, 0]
    """

    def __init__(self, counter: Mapping[Any, int] | None = None,
                 most_freq_count: int | None = None, min_freq: int = 1,
                 unknown_token: Hashable = "<unk>",
                 reserved_tokens: Sequence[Hashable] | None = None) -> None:
        if min_freq < 1:
            raise ArgumentValueError(f"Vocabulary: min_freq: expected 1 or more, got {min_freq}")
        fixed = [unknown_token, *(reserved_tokens or ())]
        if len(set(fixed)) != len(fixed):
            raise ArgumentValueError("Vocabulary: unknown_token and reserved_tokens must all "
                                     f"differ, got {fixed}")
        self._unknown_token = unknown_token
        self._reserved_tokens = None if reserved_tokens is None else list(reserved_tokens)
        words = sorted((word for word, count in (counter or {}).items()
                        if count >= min_freq and word not in fixed),
                       key=lambda word: (-(counter or {})[word], word))
        self._idx_to_token: list[Any] = fixed + words[:most_freq_count]
        self._token_to_idx = {word: index for index, word in enumerate(self._idx_to_token)}

    def __len__(self) -> int:
        return len(self._idx_to_token)

    @property
    def token_to_idx(self) -> dict[Any, int]:
        """The number of each word."""
        return self._token_to_idx

    @property
    def idx_to_token(self) -> list[Any]:
        """All words, in the order of their numbers."""
        return self._idx_to_token

    @property
    def unknown_token(self) -> Any:
        """What stands for words without a number."""
        return self._unknown_token

    @property
    def reserved_tokens(self) -> list[Any] | None:
        """Words that have a number in any case."""
        return self._reserved_tokens

    def to_indices(self, tokens: Any) -> Any:
        """The number of a word, or a list of them for a list; 0 for unknown words."""
        if isinstance(tokens, list):
            return [self._token_to_idx.get(token, 0) for token in tokens]
        return self._token_to_idx.get(tokens, 0)

    def to_tokens(self, indices: Any) -> Any:
        """The word of a number, or a list of them for a list.

        Raises:
            ArgumentValueError: a number that no word has.
        """
        words = []
        for index in indices if isinstance(indices, list) else [indices]:
            if not isinstance(index, int) or not 0 <= index < len(self):
                raise ArgumentValueError(f"Vocabulary: token index {index!r} is invalid: expected "
                                         f"an int from 0 to {len(self) - 1}")
            words.append(self._idx_to_token[index])
        return words if isinstance(indices, list) else words[0]
