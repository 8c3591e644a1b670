"""Lists of keys that repeat: one flat array, and the same numbers as key by key."""
import random

import numpy as np
import pytest
from dist_jobs import Job
from test_dist_server import Rule, bare, error, item, ready, value

from minigluon.device.cpu.native import core
from minigluon.kvstore.dist import messages as say
from minigluon.kvstore.dist.messages import BUNDLE, Item

KEYS = ("a", "b", "c")
ONE = BUNDLE | 1


def crew(workers=2):
    made, *several = ready(workers, keys=KEYS)
    for one in several:
        one(say.Bundle, ONE, tuple(bare(key) for key in range(3)))
    return made, *several


def flat(numbers=None, number=ONE, count=9, dtype="float32"):
    data = None if numbers is None else np.asarray(numbers, dtype)
    return (Item(number, 0, 0, count, dtype, (count,), data),)


def test_a_list_is_summed_and_answered_as_one_array():
    made, a, b = crew()
    assert a(say.PushPull, flat(range(9))) == []
    actions = b(say.PushPull, flat([10] * 9))
    assert value(actions, "w0") == value(actions, "w1") == [[10.0 + i for i in range(9)]]
    assert value(a(say.Pull, flat()), "w0") == [[10.0 + i for i in range(9)]]
    assert made.report(0).counters["held_bytes"] == 36


def test_a_key_by_itself_splits_the_list_with_its_open_step_and_pull():
    made, a, b = crew()
    assert a(say.PushPull, flat(range(9))) == []
    assert a(say.Pull, flat()) == []
    assert b(say.Push, (item([1, 1, 1], 1),)) != []          # acknowledged: key 1 is complete
    assert value(a(say.Pull, (bare(1),)), "w0") == [[4, 5, 6]]
    actions = b(say.PushPull, (item([2, 2, 2], 0), item([3, 3, 3], 2)))
    sent = [action.message for action in actions if action.to == "w0"]
    assert [[one.data.tolist() for one in message.items] for message in sent] == [
        [[2, 3, 4], [4, 5, 6], [9, 10, 11]]] * 2
    assert value(a(say.Pull, flat()), "w0") == [[2, 3, 4, 4, 5, 6, 9, 10, 11]]
    assert not made.busy


def test_others_may_have_another_list_or_none():
    _, a, b = crew()
    b(say.Bundle, BUNDLE | 2, (bare(2), bare(0)))
    a(say.PushPull, flat(range(9)))
    b(say.PushPull, flat([5] * 6, BUNDLE | 2, 6))
    done = b(say.Push, (item([7, 7, 7], 1),))
    assert value(
        done, "w0") == [[5, 6, 7], [10, 11, 12], [11, 12, 13]]


def test_a_repeated_request_is_answered_and_not_applied_again():
    _, a, b = crew()
    a(say.PushPull, flat(range(9)))
    assert a.again() == []
    b(say.PushPull, flat([1] * 9))
    assert value(b.again(), "w1") == value(a.again(), "w0") == [[1.0 + i for i in range(9)]]


def test_an_optimizer_sees_the_keys_one_by_one():
    made, a, b = crew()
    a(say.PushPull, flat([1] * 9))
    b(say.PushPull, flat([1] * 9))
    for one in (a, b):
        one(say.SetOptimizer, 0, "sgd", {"lr": 1.0})
    a(say.Push, flat([1] * 9))
    b(say.Push, flat([1] * 9))
    assert value(a(say.Pull, flat()), "w0") == [[4.0] * 3] * 3
    rule = made.updates.latest(0)
    assert isinstance(rule, Rule) and [call[0] for call in rule.calls] == list(KEYS)


def test_a_worker_that_is_counted_out_is_not_waited_for():
    _, a, b = crew()
    a(say.PushPull, flat(range(9)))
    actions = b(say.Leave, 0, True)
    assert value(actions, "w0") == [[0, 1, 2], [3, 4, 5], [6, 7, 8]]


@pytest.mark.parametrize(("request_", "match"), [
    (lambda a: a(say.PushPull, flat([1] * 9, BUNDLE | 7)), "no list of keys has number 7"),
    (lambda a: a(say.PushPull, flat([1] * 8, count=8)), "expected 9 elements"),
    (lambda a: a(say.PushPull, flat([1] * 9, dtype="int32")), "of float32, got"),
    (lambda a: a(say.PushPull, flat()), "without numbers"),
    (lambda a: a(say.Bundle, 3, (bare(0),)), "a number of its own kind"),
    (lambda a: a(say.Bundle, ONE, (bare(0), bare(0))), "different parts"),
    (lambda a: a(say.Bundle, ONE, (bare(9),)), "no key number 9"),
])
def test_bad_requests(request_, match):
    _, a, b = crew()
    assert match in error(request_(a))
    a(say.PushPull, flat([1] * 9))
    assert value(b(say.PushPull, flat([1] * 9)), "w0") == [[2.0] * 9]


def test_any_mixture_gives_what_key_by_key_gives():
    for seed in range(40):
        rng, draw = random.Random(seed), np.random.default_rng(seed)
        made, *several = crew(3)
        plain, *others = ready(3, keys=KEYS)
        for _ in range(4):
            grads = draw.standard_normal((3, 9)).astype("float32")
            for rank in rng.sample(range(3), 3):
                parts = [item(grads[rank, 3 * k : 3 * k + 3], k) for k in range(3)]
                others[rank](say.Push, tuple(parts))
                if rng.random() < 0.7:
                    several[rank](say.PushPull, flat(grads[rank]))
                else:
                    for part in rng.sample(parts, 3):
                        several[rank](say.Push, (part,))
            for asked in (flat(), tuple(bare(k) for k in range(3))):
                want = value(others[0](say.Pull, tuple(bare(k) for k in range(3))), "w0")
                got = value(several[0](say.Pull, asked), "w0")
                assert np.ravel(got).tolist() == np.ravel(want).tolist()
        assert not made.busy and not plain.busy


@pytest.mark.skipif(core is None, reason="the native core is off")
def test_native_copies():
    arrays = [np.arange(n, dtype="float32").reshape(s)
              for n, s in ((6, (2, 3)), (1, ()), (0, (0,)))]
    whole = np.empty(7, "float32")
    assert core.kv_gather(whole, arrays) and whole.tolist() == [0, 1, 2, 3, 4, 5, 0]
    targets = [np.empty_like(one) for one in arrays]
    assert core.kv_scatter(whole, targets)
    assert all((a == b).all() for a, b in zip(arrays, targets, strict=True))
    assert core.kv_fits(arrays, targets)
    assert not core.kv_fits(arrays[:2], targets)
    assert not core.kv_fits([arrays[0].T.copy(), *arrays[1:]], targets)
    assert not core.kv_fits([arrays[0].astype("int32"), *arrays[1:]], targets)
    assert not core.kv_fits([arrays[0][:, ::2], *arrays[1:]], [arrays[0][:, ::2], *arrays[1:]])
    assert not core.kv_fits([3, *arrays[1:]], targets)
    assert not core.kv_gather(np.empty(8, "float32"), arrays)
    assert not core.kv_gather(np.empty(7, "int32"), arrays)
    targets[0].flags.writeable = False
    assert not core.kv_scatter(whole, targets)


JOB = """
kv = mx.kv.create("dist_sync")
shapes = [(3, 5), (1,), (7,), (1100, 1000), (40,), (2, 2)]
types = ["float32", "float32", "float64", "float32", "float16", "int32"]
keys = list(range(len(shapes)))
kv.init(keys, [nd.zeros(s, dtype=t) for s, t in zip(shapes, types)])
outs = [nd.zeros(s, dtype=t) for s, t in zip(shapes, types)]
n = kv.num_workers
for step in range(6):
    vals = [nd.ones(s, dtype=t) * (kv.rank + step + i)
            for i, (s, t) in enumerate(zip(shapes, types))]
    want = [sum(r + step + i for r in range(n)) for i in keys]
    if step == 2 and kv.rank == 1:            # one goes by itself, the others together
        for i in keys:
            kv.pushpull(i, vals[i], out=outs[i])
    elif step == 3:
        kv.push(keys, vals)
        for v in vals:
            v[:] = -7                          # the value at the call counts
        kv.pull(keys, out=outs)
    elif step == 4:
        kv.pushpull(keys, [[v] for v in vals])
        outs = vals
    else:
        kv.pushpull(keys, vals, out=outs)
    for o, w in zip(outs, want):
        assert (o.asnumpy() == w).all(), (step, w, o)
a = nd.zeros((4, 3, 5))
for step in range(3):                          # arrays that are views, and the wrong shape
    kv.pushpull(0, a[1] + 1, out=a[2])
    assert (a.asnumpy()[2] == n).all() and a.asnumpy()[3].sum() == 0
try:
    kv.pushpull(0, nd.ones((5, 3)), out=a[2])
    raise SystemExit("took a wrong shape")
except mx.base.MXNetError as error:
    assert "expected shape (3, 5)" in str(error)
print("fine")
"""


@pytest.mark.parametrize("native", ["1", "0"])
def test_in_a_job(native):
    with Job(JOB, workers=2, servers=2, env={"MINIGLUON_NATIVE": native}) as job:
        job.succeed(60)
        assert "fine" in job.text("worker 0")


NAMES = """
from minigluon.kvstore.dist import client
client._NAMED = 4
kv = mx.kv.create("dist_sync")
kv.init([0, 1, 2], [nd.zeros((4,))] * 3)
for keys in ([0, 1], [2, 1, 0], [0, 1]):       # two parts, then three: too many for a number
    for step in range(4):
        outs = [nd.zeros((4,)) for _ in keys]
        kv.pushpull(keys, [nd.ones((4,)) * (key + step) for key in keys], out=outs)
        for key, out in zip(keys, outs):
            assert (out.asnumpy() == kv.num_workers * (key + step)).all(), (keys, step, out)
    kv._repeats.forget(keys)                      # the same list keeps its number
assert [number & 0xff for number in kv._client._bundles.values()] == [1], kv._client._bundles
"""


def test_a_worker_names_so_many_parts_and_no_more():
    with Job(NAMES, workers=2, servers=1) as job:
        job.succeed(60)
