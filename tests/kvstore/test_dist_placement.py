"""Where keys live: cuts, shapes of parts, load."""
import numpy as np
import pytest

from minigluon.kvstore.dist.messages import KeySpec
from minigluon.kvstore.dist.placement import PART_BYTES, Placer, part_shape, parts


@pytest.mark.parametrize("servers", [1, 2, 3, 7])
@pytest.mark.parametrize("shape", [
    (1200, 1200), (1211, 1211), (1, 3_000_000), (3, 1_000_000), (2_500_000,), (64, 3, 200, 50)])
def test_parts_cover_a_big_array_exactly_once_and_keep_its_rows(shape, servers):
    place = Placer(servers, 1_000_000).place(KeySpec("w", shape, "float32"), whole=False)
    array = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    pieces = []
    for server, item in parts(place):
        piece = array.reshape(-1)[item.start:item.stop]
        assert np.prod(item.shape) == piece.size and piece.nbytes <= PART_BYTES
        assert 0 <= server < servers
        if shape[0] > 100 and len(place.servers) > 1:
            assert item.shape[1:] == shape[1:]
        pieces.append(piece)
    assert np.array_equal(np.concatenate(pieces), array.reshape(-1))
    used = [place.servers.count(server) for server in range(servers)]
    assert max(used) - min(used) == 0  # as many on each


def test_small_keys_go_where_least_is_held_and_always_to_the_same_place():
    sizes = [100, 90, 50, 40, 5, 4, 3, 2, 1]
    specs = [KeySpec(i, (size,), "float32") for i, size in enumerate(sizes)]
    one, two = Placer(3, 1000), Placer(3, 1000)
    places = [one.place(spec, False) for spec in specs]
    assert places == [two.place(spec, False) for spec in specs]
    assert max(one.load) <= 1.1 * sum(one.load) / 3
    assert [p.ident for p in places] == list(range(9))


def test_a_key_that_must_stay_whole_is_whole_and_counts_as_load():
    placer = Placer(2, 1000)
    place = placer.place(KeySpec("w", (100, 100), "float32"), whole=True)
    assert place.servers == (0,) and part_shape(place, 0) == (100, 100)
    assert placer.place(KeySpec("b", (1,), "float32"), whole=False).servers == (1,)


def test_the_bound_counts_elements():
    placer = Placer(2, 1000)
    assert len(placer.place(KeySpec("a", (999,), "float64"), False).servers) == 1
    assert len(placer.place(KeySpec("b", (1000,), "int8"), False).servers) == 2


def test_scalars_and_empty_arrays_have_a_place():
    placer = Placer(2, 10)
    for shape in [(), (0,), (3, 0), (1,)]:
        place = placer.place(KeySpec("w", shape, "float32"), False)
        ((_, item),) = parts(place)
        assert item.shape == shape


def test_parts_of_many_rows_begin_with_a_page_and_neighbours_share_a_server():
    place = Placer(2, 1_000_000).place(KeySpec("w", (512, 512, 3, 3), "float32"), whole=False)
    assert place.servers == (0, 0, 0, 1, 1, 1)
    assert all(4 * bound % 4096 == 0 for bound in place.bounds)
    assert all(bound % (512 * 9) == 0 for bound in place.bounds)
