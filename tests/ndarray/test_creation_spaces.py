"""The sub-namespaces of nd say what they do not have."""
import pytest

import minigluon as mx


@pytest.mark.parametrize("space,name,message", [
    ("sparse", "csr_matriks", "did you mean 'csr_matrix'"),
    ("linalg", "gem2", "did you mean 'gemm2'"),
])
def test_missing_names_of_a_space(space, name, message):
    with pytest.raises(AttributeError, match=message):
        getattr(getattr(mx.nd, space), name)


def test_spaces_are_asked_politely():
    assert not hasattr(mx.sym.sparse, "csr_matrix") and hasattr(mx.nd.linalg, "gemm2")
