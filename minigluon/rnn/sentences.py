"""Sentences as batches, sorted into buckets by their length."""
from __future__ import annotations

import logging
from bisect import bisect_left
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np

from .. import ndarray as nd
from .. import random
from ..base import ArgumentValueError
from ..io import DataBatch, DataDesc, DataIter

__all__ = ["BucketSentenceIter", "encode_sentences"]


def encode_sentences(sentences: Sequence[Sequence[Any]], vocab: Mapping[Any, int] | None = None,
                     invalid_label: int = -1, invalid_key: Hashable = "\n", start_label: int = 0,
                     unknown_token: Any = None) -> tuple[list[list[int]], dict[Any, int]]:
    """Numbers for words.

    Args:
        sentences: lists of words.
        vocab: numbers of words; None: each new word gets the next number.
        invalid_label, invalid_key: number and name of what fills sentences up.
        start_label: the first number.
        unknown_token: the word that stands for those not in `vocab`; None: they are an error.

    Returns:
        the sentences as numbers, and the vocabulary.

    >>> encode_sentences([["a", "b"], ["b"]], start_label=1, invalid_label=0)
    ([[1, 2], [2]], {'\\n': 0, 'a': 1, 'b': 2})
    """
    grows = vocab is None
    known: dict[Any, int] = {invalid_key: invalid_label} if vocab is None else dict(vocab)
    following = start_label
    encoded = []
    for sentence in sentences:
        numbers = []
        for word in sentence:
            if word not in known:
                if grows or (unknown_token is not None and unknown_token not in known):
                    if following == invalid_label:
                        following += 1
                    known[word if grows else unknown_token] = following
                    following += 1
                if not grows:
                    if unknown_token is None:
                        raise ArgumentValueError(f"encode_sentences: unknown word {word!r}; give "
                                                 "unknown_token to allow such words")
                    word = unknown_token
            numbers.append(known[word])
        encoded.append(numbers)
    return encoded, known


class BucketSentenceIter(DataIter):
    """Batches of sentences of similar length; the label of each word is the next word.

    Args:
        sentences: lists of numbers.
        batch_size: sentences in a batch.
        buckets: lengths; default every length that at least `batch_size` sentences have.
        invalid_label: fills sentences up.
        data_name, label_name: names of the arrays.
        dtype: of the numbers.
        layout: 'NT' or 'TN'.

    >>> batches = BucketSentenceIter([[1, 2], [3, 4], [5, 6, 7]], 2, buckets=[2], invalid_label=0)
    >>> [(batch.bucket_key, batch.data[0].shape) for batch in batches]
    [(2, (2, 2))]
    """

    def __init__(self, sentences: Sequence[Sequence[int]], batch_size: int,
                 buckets: Sequence[int] | None = None, invalid_label: int = -1,
                 data_name: str = "data", label_name: str = "softmax_label",
                 dtype: Any = "float32", layout: str = "NT") -> None:
        super().__init__(batch_size)
        if buckets is None:
            counts = np.bincount([len(sentence) for sentence in sentences])
            buckets = [length for length, count in enumerate(counts) if count >= batch_size]
        self.buckets = sorted(buckets)
        if not self.buckets:
            raise ArgumentValueError("BucketSentenceIter: no length has enough sentences for a "
                                     f"batch of {batch_size}; give buckets=[...]")
        rows: list[list[np.ndarray[Any, Any]]] = [[] for _ in self.buckets]
        discarded = 0
        for sentence in sentences:
            place = bisect_left(self.buckets, len(sentence))
            if place == len(self.buckets):
                discarded += 1
                continue
            row = np.full((self.buckets[place],), invalid_label, dtype=dtype)
            row[:len(sentence)] = sentence
            rows[place].append(row)
        if discarded:
            logging.warning("discarded %d sentences longer than the largest bucket.", discarded)
        self.data = [np.asarray(each, dtype=dtype).reshape(-1, length)
                     for each, length in zip(rows, self.buckets, strict=True)]
        self.data_name, self.label_name = data_name, label_name
        self.dtype, self.invalid_label, self.layout = dtype, invalid_label, layout
        self.major_axis = layout.find("N")
        if self.major_axis not in (0, 1):
            raise ArgumentValueError(f"BucketSentenceIter: layout: expected 'NT' or 'TN', got "
                                     f"'{layout}'")
        self.default_bucket_key = max(self.buckets)
        self.provide_data = self._description(data_name, self.default_bucket_key)
        self.provide_label = self._description(label_name, self.default_bucket_key)
        self.idx = [(place, start) for place, each in enumerate(self.data)
                    for start in range(0, len(each) - batch_size + 1, batch_size)]
        self.reset()

    def _description(self, name: str, length: int) -> list[DataDesc]:
        shape = (self.batch_size, length) if self.major_axis == 0 else (length, self.batch_size)
        return [DataDesc(name, shape, self.dtype, self.layout)]

    def reset(self) -> None:
        """Begin the next epoch, in a new random order."""
        self.curr_idx = 0
        generator = random.host_generator()
        self.idx = [self.idx[i] for i in generator.permutation(len(self.idx))]
        for each in self.data:
            generator.shuffle(each)
        self._labels = []
        for each in self.data:
            label = np.full_like(each, self.invalid_label)
            label[:, :-1] = each[:, 1:]
            self._labels.append(label)

    def next(self) -> DataBatch:
        if self.curr_idx == len(self.idx):
            raise StopIteration
        place, start = self.idx[self.curr_idx]
        self.curr_idx += 1

        def part(arrays: list[np.ndarray[Any, Any]]) -> list[Any]:
            rows = arrays[place][start:start + self.batch_size]
            return [nd.array(rows if self.major_axis == 0 else rows.T, dtype=self.dtype)]

        length = self.buckets[place]
        return DataBatch(part(self.data), part(self._labels), 0, bucket_key=length,
                         provide_data=self._description(self.data_name, length),
                         provide_label=self._description(self.label_name, length))
