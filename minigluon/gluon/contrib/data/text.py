"""WikiText: sequences of word numbers for language models."""
from __future__ import annotations

import collections
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from ....base import ArgumentValueError
from ....context import cpu
from ....ndarray import NDArray
from ...data import Dataset
from ...data.repository import data_folder, unpacked

__all__ = ["WikiText2", "WikiText103"]

_EOS = "<eos>"


class WikiText2(Dataset):
    """The WikiText-2 corpus, cut into sequences: samples (words, the word after each).

    The tokens (wiki.train.tokens ...) are taken from `root` if they are there; else they are
    downloaded. Where there is no network an error says where to put them.

    Args:
        root: folder of the files; None is datasets/wikitext-2 under ``MXNET_HOME``.
        segment: 'train', 'validation' or 'test'.
        vocab: numbers for words: an object with ``to_indices(words)`` or a dict; None makes one of
            the words found, the most frequent first.
        seq_len: words in a sequence.

    Attributes:
        vocabulary: the numbers used. frequencies: how often each word occurs.
    """

    _namespace = "wikitext-2"
    _archive = ("wikitext-2-v1.zip", "3c914d17d80b1459be871a5039ac23e752a53cbe")
    _words: ClassVar = {"train": "wiki.train.tokens", "validation": "wiki.valid.tokens",
                        "test": "wiki.test.tokens"}

    def __init__(self, root: str | os.PathLike[str] | None = None, segment: str = "train",
                 vocab: Any = None, seq_len: int = 35) -> None:
        if segment not in self._words:
            raise ArgumentValueError(f"{type(self).__name__}: segment: expected one of "
                                     f"{list(self._words)}, got {segment!r}")
        self._root = os.path.expanduser(root or data_folder(self._namespace))
        lines = self._find(Path(self._root), self._words[segment]).read_text("utf-8").splitlines()
        words = [word for line in lines if line.strip() for word in [*line.split(), _EOS]]
        self.frequencies = collections.Counter(words)
        self.vocabulary = vocab if vocab is not None else {
            word: number for number, (word, _) in enumerate(self.frequencies.most_common())}
        numbers = np.array(self._numbers(words), np.int32)
        count = (len(numbers) - 1) // seq_len
        self._data = numbers[: count * seq_len].reshape(count, seq_len)
        self._label = numbers[1: count * seq_len + 1].reshape(count, seq_len)

    def _numbers(self, words: Sequence[str]) -> Sequence[int]:
        if isinstance(self.vocabulary, dict):
            return [self.vocabulary[word] for word in words]
        result: Sequence[int] = self.vocabulary.to_indices(list(words))
        return result

    def _find(self, folder: Path, name: str) -> Path:
        return unpacked(type(self).__name__, self._namespace, folder, [name], *self._archive)[0]

    def __len__(self) -> int:
        return len(self._data)

    def __getitem__(self, idx: Any) -> Any:
        return NDArray(self._data[idx].copy(), cpu(0)), NDArray(self._label[idx].copy(), cpu(0))


class WikiText103(WikiText2):
    """As WikiText2, a hundred million words."""

    _namespace = "wikitext-103"
    _archive = ("wikitext-103-v1.zip", "0aec09a7537b58d4bb65362fee27650eeaba625a")
