"""Words as vectors: read from files of pretrained ones, or put together from several.

Pretrained files are not fetched: MXNet's addresses hold hundreds of large files. One that lies in
``embedding_root/NAME/`` (glove, fasttext), as its makers publish it, is used under its own name.
"""
from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from ... import ndarray as nd
from ...base import ArgumentError, ArgumentValueError, FileMissingError, Registry, data_dir
from ...ndarray import NDArray
from .vocab import Vocabulary

__all__ = ["CompositeEmbedding", "CustomEmbedding", "FastText", "GloVe", "create",
           "get_pretrained_file_names", "register"]


class _TokenEmbedding(Vocabulary):
    """A vocabulary with a vector for each word; row 0 is the unknown word's.

    >>> import tempfile
    >>> with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
    ...     _ = file.write("a 1 2" + chr(10) + "b 3 4" + chr(10))
    ...     file.flush()
    ...     vectors = CustomEmbedding(file.name)
    >>> vectors.get_vecs_by_tokens(["b", "?"]).asnumpy().tolist()
    [[3.0, 4.0], [0.0, 0.0]]
    """

    pretrained_file_names: Sequence[str] = ()

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._idx_to_vec: NDArray | None = None

    @property
    def vec_len(self) -> int:
        """Length of a vector."""
        return 0 if self._idx_to_vec is None else self._idx_to_vec.shape[1]

    @property
    def idx_to_vec(self) -> NDArray | None:
        """(words, vec_len): the vectors in the order of the words' numbers."""
        return self._idx_to_vec

    def get_vecs_by_tokens(self, tokens: Any, lower_case_backup: bool = False) -> NDArray:
        """The vector of a word, or the matrix of them for a list.

        Args:
            tokens: a word or a list. lower_case_backup: look for words that are unknown in lower
                case, too.
        """
        listed = tokens if isinstance(tokens, list) else [tokens]
        numbers = [self._token_to_idx.get(word, self._token_to_idx.get(word.lower(), 0)
                                          if lower_case_backup else 0) for word in listed]
        assert self._idx_to_vec is not None
        found = self._idx_to_vec[nd.array(numbers, dtype="int64")]
        return found if isinstance(tokens, list) else found[0]  # type: ignore[no-any-return]

    def update_token_vectors(self, tokens: Any, new_vectors: NDArray) -> None:
        """Other vectors for known words.

        Args:
            tokens: a word or a list. new_vectors: one vector, or a row for each word.

        Raises:
            ValueError: a word that is not known. AssertionError: not as many vectors as words.
        """
        if self._idx_to_vec is None:
            raise AssertionError("The property `idx_to_vec` has not been properly set.")
        listed = tokens if isinstance(tokens, list) else [tokens]
        if len(new_vectors.shape) not in ((2,) if len(listed) > 1 else (1, 2)):
            raise ArgumentValueError("`new_vectors` must be a 2-D NDArray if `tokens` is a list of "
                                     f"multiple strings; got shape {new_vectors.shape}")
        rows = new_vectors.reshape((-1, new_vectors.shape[-1]))
        if rows.shape != (len(listed), self.vec_len):
            raise ArgumentValueError("The length of `new_vectors` must be equal to the number of "
                                     f"tokens and its width to {self.vec_len}; got shape "
                                     f"{rows.shape} for {len(listed)} tokens")
        numbers = []
        for word in listed:
            if word not in self._token_to_idx:
                raise ArgumentValueError(
                    f"Token {word} is unknown. To update the embedding vector for an unknown "
                    f"token, name the `unknown_token` {self.unknown_token} in `tokens`.")
            numbers.append(self._token_to_idx[word])
        self._idx_to_vec[nd.array(numbers, dtype="int64")] = rows

    # -- reading ----------------------------------------------------------------------------------

    def _load_embedding(self, pretrained_file_path: str, elem_delim: str,
                        init_unknown_vec: Callable[..., NDArray], encoding: str = "utf8") -> None:
        """Read all words and vectors of a file; of a word that comes twice the first counts."""
        path = os.path.expanduser(pretrained_file_path)
        if not os.path.isfile(path):
            raise ArgumentValueError("`pretrained_file_path` must be a valid path to the "
                                     f"pre-trained token embedding file, got '{path}'")
        rows: list[np.ndarray[Any, Any]] = []
        unknown = None
        for number, word, values in _lines(path, elem_delim, encoding):
            if rows and len(values) != rows[0].size:
                raise AssertionError(
                    f"At line {number} of the pre-trained token embedding file: the dimension of "
                    f"token {word} is {len(values)} but the dimension of previous tokens is "
                    f"{rows[0].size}. Dimensions of all the tokens must be the same.")
            vector = np.array(values, dtype=np.float32)
            if word == self._unknown_token and unknown is None:
                unknown = vector
            elif word not in self._token_to_idx:
                self._token_to_idx[word] = len(self._idx_to_token)
                self._idx_to_token.append(word)
                rows.append(vector)
        if unknown is None:
            width = rows[0].size if rows else 0
            unknown = init_unknown_vec(shape=width).asnumpy() if width else np.zeros(0, "float32")
        table = np.zeros((len(self._idx_to_token), unknown.size), np.float32)
        table[0] = unknown
        if rows:
            table[-len(rows):] = np.stack(rows)
        self._idx_to_vec = nd.array(table)

    def _build_embedding_for_vocabulary(self, vocabulary: Vocabulary | None) -> None:
        """Keep the vectors of a vocabulary's words only, under its numbers."""
        if vocabulary is None:
            return
        if not isinstance(vocabulary, Vocabulary):
            raise ArgumentError("The argument `vocabulary` must be an instance of "
                                "mxnet.contrib.text.vocab.Vocabulary.")
        self._take_over([self], vocabulary)

    def _take_over(self, embeddings: Sequence[_TokenEmbedding], vocabulary: Vocabulary) -> None:
        """A vocabulary's words, and the vectors that embeddings have for them, side by side."""
        words = vocabulary.idx_to_token[1:]
        parts = []
        for embedding in embeddings:
            assert embedding.idx_to_vec is not None
            unknown = embedding.idx_to_vec[0:1]
            parts.append(nd.concat(unknown, embedding.get_vecs_by_tokens(words), dim=0)  # type: ignore[attr-defined]
                         if words else unknown)
        self._idx_to_vec = nd.concat(*parts, dim=1)  # type: ignore[attr-defined]
        self._token_to_idx = dict(vocabulary.token_to_idx)
        self._idx_to_token = list(vocabulary.idx_to_token)
        self._unknown_token = vocabulary.unknown_token
        self._reserved_tokens = (None if vocabulary.reserved_tokens is None
                                 else list(vocabulary.reserved_tokens))

    @classmethod
    def _pretrained(cls, name: str, root: str) -> str:
        """The path of a file of pretrained vectors."""
        kind = cls.__name__.lower()
        path = os.path.join(os.path.expanduser(root), kind, name)
        if os.path.isfile(path):
            return path
        if name not in cls.pretrained_file_names:
            raise KeyError(f"Cannot find pretrained file {name} for token embedding {kind}. Valid "
                           f"pretrained files for embedding {kind}: "
                           f"{', '.join(cls.pretrained_file_names)}")
        raise FileMissingError(f"{kind}: no file '{path}'; pretrained vectors are not fetched: put "
                               f"{name}, as its makers publish it, there")


def _lines(path: str, delimiter: str, encoding: str) -> Iterator[tuple[int, str, list[float]]]:
    """(line number, word, numbers) of each line; lines with one number are headings."""
    with open(path, encoding=encoding) as file:
        for number, line in enumerate(file, 1):
            word, *values = line.rstrip().split(delimiter)
            if len(values) < 1:
                raise AssertionError(f"At line {number} of the pre-trained text embedding file: "
                                     "the data format of the pre-trained token embedding file "
                                     f"{path} is unexpected.")
            if len(values) == 1:
                logging.warning("At line %d of the pre-trained text embedding file: token %s with "
                                "1-dimensional vector %s is likely a header and is skipped.",
                                number, word, values)
                continue
            yield number, word, [float(value) for value in values]


class CustomEmbedding(_TokenEmbedding):
    """Vectors from a file of yours: a line for each word, the word and then the numbers.

    Args:
        pretrained_file_path: the file. elem_delim: what parts the entries of a line.
        encoding: of the file. init_unknown_vec: makes the unknown word's vector, from ``shape=``,
            unless the file has one. vocabulary: the words to keep; all when None.
    """

    def __init__(self, pretrained_file_path: str, elem_delim: str = " ", encoding: str = "utf8",
                 init_unknown_vec: Callable[..., NDArray] = nd.zeros,
                 vocabulary: Vocabulary | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._load_embedding(pretrained_file_path, elem_delim, init_unknown_vec, encoding)
        self._build_embedding_for_vocabulary(vocabulary)


class CompositeEmbedding(_TokenEmbedding):
    """The vectors that several embeddings have for each word, one behind the other.

    Args:
        vocabulary: the words. token_embeddings: an embedding or a list of them.
    """

    def __init__(self, vocabulary: Vocabulary, token_embeddings: Any) -> None:
        super().__init__()
        listed = token_embeddings if isinstance(token_embeddings, list) else [token_embeddings]
        for one in listed:
            if not isinstance(one, _TokenEmbedding):
                raise ArgumentError("The argument `token_embeddings` must be an instance or a "
                                    "list of instances of _TokenEmbedding, got "
                                    f"{type(one).__name__}")
        self._take_over(listed, vocabulary)


# -- by name ---------------------------------------------------------------------------------------

_registry = Registry("token embedding", _TokenEmbedding)


def register(embedding_cls: type) -> type:
    """Enter a class of embeddings under its name in lower case; also a decorator."""
    return _registry.register(embedding_cls)


def create(embedding_name: str, **kwargs: Any) -> Any:
    """An embedding by the name of its class; `kwargs` are its arguments."""
    if embedding_name.lower() not in _registry.entries:
        raise ArgumentValueError(f"{embedding_name} is not registered. Please register with "
                                 "token embedding.register first")
    return _registry.create(embedding_name, **kwargs)


def get_pretrained_file_names(embedding_name: str | None = None) -> Any:
    """The names of pretrained files of an embedding; a dict by embedding for None."""
    names = {name: list(entry.pretrained_file_names) for name, entry in _registry.entries.items()
             if getattr(entry, "pretrained_file_names", ())}
    if embedding_name is None:
        return names
    if embedding_name not in names:
        raise KeyError(f"Cannot find `embedding_name` {embedding_name}. Use "
                       "`get_pretrained_file_names(embedding_name=None).keys()` to get all the "
                       "valid embedding names.")
    return names[embedding_name]


class _Published(_TokenEmbedding):
    """Vectors from a file that others publish."""

    def __init__(self, pretrained_file_name: str, embedding_root: str | None,
                 init_unknown_vec: Callable[..., NDArray], vocabulary: Vocabulary | None,
                 **kwargs: Any) -> None:
        root = embedding_root or os.path.join(data_dir(), "embeddings")
        path = self._pretrained(pretrained_file_name, root)
        super().__init__(**kwargs)
        self._load_embedding(path, " ", init_unknown_vec)
        self._build_embedding_for_vocabulary(vocabulary)


@register
class GloVe(_Published):
    """Vectors of J. Pennington, R. Socher, C. Manning, "GloVe: Global Vectors for Word
    Representation", 2014.

    Args:
        pretrained_file_name: the file, in ``embedding_root/glove``.
        embedding_root: where files are kept; ``embeddings`` in MXNET_HOME when None.
        init_unknown_vec, vocabulary: as for CustomEmbedding.
    """

    pretrained_file_names = (
        "glove.42B.300d.txt", "glove.6B.50d.txt", "glove.6B.100d.txt", "glove.6B.200d.txt",
        "glove.6B.300d.txt", "glove.840B.300d.txt", "glove.twitter.27B.25d.txt",
        "glove.twitter.27B.50d.txt", "glove.twitter.27B.100d.txt", "glove.twitter.27B.200d.txt",
    )

    def __init__(self, pretrained_file_name: str = "glove.840B.300d.txt",
                 embedding_root: str | None = None,
                 init_unknown_vec: Callable[..., NDArray] = nd.zeros,
                 vocabulary: Vocabulary | None = None, **kwargs: Any) -> None:
        super().__init__(pretrained_file_name, embedding_root, init_unknown_vec, vocabulary,
                         **kwargs)


@register
class FastText(_Published):
    """Vectors of P. Bojanowski et al., "Enriching Word Vectors with Subword Information", 2016.

    Args: as for GloVe; files lie in ``embedding_root/fasttext``. Files for other languages
        (``wiki.XX.vec``) are not listed, but read where they lie there.
    """

    pretrained_file_names = ("wiki.simple.vec", "wiki.en.vec", "crawl-300d-2M.vec")

    def __init__(self, pretrained_file_name: str = "wiki.simple.vec",
                 embedding_root: str | None = None,
                 init_unknown_vec: Callable[..., NDArray] = nd.zeros,
                 vocabulary: Vocabulary | None = None, **kwargs: Any) -> None:
        super().__init__(pretrained_file_name, embedding_root, init_unknown_vec, vocabulary,
                         **kwargs)
