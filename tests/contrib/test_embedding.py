"""contrib.text.embedding; the figures are those that MXNet 1.9.1 gives for the same files."""
import collections

import pytest

import minigluon as mx
from minigluon.contrib import text


@pytest.fixture
def vectors(tmp_path):
    """Makes an embedding of the lines given."""
    def make(lines="a 0.5 0.25 1\nb 1 2 3\na 9 9 9\nc 4 5 6\n", **settings):
        path = tmp_path / "vectors.txt"
        path.write_text(lines, encoding="utf-8")
        return text.embedding.CustomEmbedding(str(path), **settings)
    return make


def test_words_and_vectors(vectors):
    found = vectors()
    assert found.idx_to_token == ["<unk>", "a", "b", "c"] and found.vec_len == 3
    assert len(found) == 4
    assert found.get_vecs_by_tokens("a").asnumpy().tolist() == [0.5, 0.25, 1]
    assert found.get_vecs_by_tokens(["b", "?"]).asnumpy().tolist() == [[1, 2, 3], [0, 0, 0]]
    assert found.get_vecs_by_tokens("B").asnumpy().tolist() == [0, 0, 0]
    assert found.get_vecs_by_tokens("B", lower_case_backup=True).asnumpy().tolist() == [1, 2, 3]
    assert vectors("<unk> 5 5\na 1 2\n").idx_to_vec.asnumpy().tolist() == [[5, 5], [1, 2]]
    assert vectors(init_unknown_vec=mx.nd.ones).idx_to_vec.asnumpy()[0].tolist() == [1, 1, 1]
    assert vectors("2 3\na 1 2 3\n").idx_to_token == ["<unk>", "a"]  # a heading is left out
    assert vectors("a,1,2\n", elem_delim=",").idx_to_vec.asnumpy().tolist() == [[0, 0], [1, 2]]


def test_vectors_can_be_changed(vectors):
    found = vectors()
    found.update_token_vectors(["a", "b"], mx.nd.array([[1, 1, 1], [2, 2, 2]]))
    found.update_token_vectors("c", mx.nd.array([7, 7, 7]))
    found.update_token_vectors("<unk>", mx.nd.array([3, 3, 3]))
    assert found.idx_to_vec.asnumpy()[:, 0].tolist() == [3, 1, 2, 7]
    with pytest.raises(ValueError, match="zz is unknown"):
        found.update_token_vectors("zz", mx.nd.ones((3,)))
    with pytest.raises(AssertionError, match="2-D"):
        found.update_token_vectors(["a", "b"], mx.nd.ones((3,)))
    with pytest.raises(AssertionError, match="width to 3"):
        found.update_token_vectors(["a", "b"], mx.nd.ones((2, 4)))


def test_a_vocabulary_chooses(vectors):
    vocabulary = text.vocab.Vocabulary(collections.Counter(["b", "b", "q"]),
                                       reserved_tokens=["<pad>"])
    found = vectors(vocabulary=vocabulary)
    assert found.idx_to_token == ["<unk>", "<pad>", "b", "q"]
    assert found.reserved_tokens == ["<pad>"]
    assert found.idx_to_vec.asnumpy().tolist() == [[0] * 3, [0] * 3, [1, 2, 3], [0] * 3]
    both = text.embedding.CompositeEmbedding(vocabulary, [vectors(),
                                                          vectors(init_unknown_vec=mx.nd.ones)])
    assert both.vec_len == 6
    assert both.idx_to_vec.asnumpy()[2:].tolist() == [[1, 2, 3] * 2, [0] * 3 + [1] * 3]


def test_what_does_not_fit_is_explained(vectors, tmp_path):
    with pytest.raises(AssertionError, match=r"line 3.*token x is 2"):
        vectors("a 1 2 3\nb 1 2 3\nx 1 2\n")
    with pytest.raises(AssertionError, match="line 1"):
        vectors("word\n")
    with pytest.raises(ValueError, match="valid path"):
        text.embedding.CustomEmbedding(str(tmp_path / "none"))
    with pytest.raises(ValueError, match="not registered"):
        text.embedding.create("nope")
    with pytest.raises(KeyError, match=r"glove\.6B\.50d\.txt"):
        text.embedding.create("glove", pretrained_file_name="nope")
    with pytest.raises(FileNotFoundError, match="not fetched"):
        text.embedding.create("glove", embedding_root=str(tmp_path))
    with pytest.raises(KeyError, match="Cannot find"):
        text.embedding.get_pretrained_file_names("nope")


def test_published_files_are_found(tmp_path):
    folder = tmp_path / "glove"
    folder.mkdir()
    (folder / "glove.6B.50d.txt").write_text("a 1 2\n", encoding="utf-8")
    assert "glove.6B.50d.txt" in text.embedding.get_pretrained_file_names("glove")
    found = text.embedding.create("GloVe", pretrained_file_name="glove.6B.50d.txt",
                                  embedding_root=str(tmp_path))
    assert found.idx_to_vec.asnumpy().tolist() == [[0, 0], [1, 2]]
