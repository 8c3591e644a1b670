"""The server's state machine: messages in, actions out; no process, no socket, no clock."""
import itertools
import random
import re

import numpy as np
import pytest

from minigluon.kvstore.dist import messages as say
from minigluon.kvstore.dist.actions import Limits, Log, Send, Stop
from minigluon.kvstore.dist.messages import Item, Member, Role
from minigluon.kvstore.dist.server import ServerState

LIMITS = Limits(operation=30)


class Rule:
    """w += lr * grad, and a note of every call."""

    lets_go = True

    def __init__(self, message):
        self.lr = message.settings.get("lr", 1.0)
        self.calls = []
        self.kept = {}

    def update(self, key, part, weight, grad):
        if self.lr == "broken":
            raise ZeroDivisionError("in the rule")
        self.calls.append((key, part, self.lr, weight.shape))
        weight += np.asarray(self.lr * grad, weight.dtype)

    def configure(self, settings):
        self.lr = settings.get("lr", self.lr)

    def states(self):
        return {("w", 0): (np.arange(3.0), None)}

    def counts(self):
        return {"w": 4}

    def set_state(self, key, part, state):
        self.kept[key, part] = state


def server(workers=2):
    roster = tuple(Member(Role.WORKER, r, "127.0.0.1", 0, 40 + r, f"w{r}") for r in range(workers))
    made = ServerState(0, roster, "scheduler", LIMITS, Rule)
    for rank in range(workers):
        assert made.handle(say.Attach(0, f"w{rank}", rank, 0), f"w{rank}", 0) == [
            Send(f"w{rank}", say.Attached())]
    return made


class Worker:
    """Numbers its requests as a client would."""

    def __init__(self, made, rank):
        self.made, self.uid, self.seq = made, f"w{rank}", 0

    def __call__(self, kind, *args, now=0.0):
        self.seq += 1
        self.last = kind(self.seq, *args)
        return self.made.handle(self.last, self.uid, now)

    def again(self, now=0.0):
        return self.made.handle(self.last, self.uid, now)


def item(data, key=0, part=0):
    data = np.asarray(data, np.float32) if not isinstance(data, np.ndarray) else data
    return Item(key, part, 0, data.size, data.dtype.name, data.shape, data)


def bare(key=0, shape=(3,), dtype="float32"):
    return Item(key, 0, 0, int(np.prod(shape)), dtype, shape)


def ready(workers=2, first=(0.0, 0.0, 0.0), kind="dist_sync", keys=("w",)):
    made = server(workers)
    crew = [Worker(made, rank) for rank in range(workers)]
    for ident, key in enumerate(keys):
        crew[0](say.Init, 0, kind, (key,), (item(first, ident),))
    return (made, *crew)


def value(actions, to):
    (message,) = [a.message for a in actions if isinstance(a, Send) and a.to == to
                  and isinstance(a.message, say.Values)]
    return [one.data.tolist() for one in message.items]


def abort(actions):
    (message,) = [a.message for a in actions if isinstance(a, Send) and a.to == "scheduler"]
    assert isinstance(message, say.Abort)
    return message


def error(actions):
    (action,) = actions
    assert isinstance(action.message, say.ErrorReply)
    return action.message.reason


# -- synchronous merging ------------------------------------------------------------------------


def test_a_step_is_done_when_all_have_pushed_and_without_optimizer_the_sum_replaces():
    _, a, b = ready(first=(9, 9, 9))
    assert a(say.Push, (item([1, 2, 3]),)) == []
    actions = b(say.Push, (item([10, 20, 30]),))
    assert actions == [Send("w0", say.Ack(2)), Send("w1", say.Ack(1))]
    assert value(a(say.Pull, (bare(),)), "w0") == [[11, 22, 33]]


def test_a_worker_that_holds_pushes_back_hears_that_one_has_come():
    made, a, b = ready()
    made.clients["w0"].windowed = True
    assert a(say.Push, (item([1, 1, 1]),)) == [Send("w0", say.Taken(2))]
    assert a.again() == [Send("w0", say.Taken(2))]
    assert b(say.Push, (item([2, 2, 2]),)) == [Send("w0", say.Ack(2)), Send("w1", say.Ack(1))]
    assert a(say.PushPull, (item([3, 3, 3]),)) == [Send("w0", say.Taken(3))]
    wrong = Item(0, 0, 0, 2, "float32", (2,), np.zeros(2, np.float32))
    assert "shape" in error(a(say.Push, (wrong,)))


def test_a_pull_waits_for_the_own_push_and_no_longer():
    _, a, b = ready()
    assert value(b(say.Pull, (bare(),)), "w1") == [[0, 0, 0]]
    a(say.Push, (item([1, 1, 1]),))
    assert a(say.Pull, (bare(),)) == []
    assert value(b(say.Pull, (bare(),)), "w1") == [[0, 0, 0]]  # b has not pushed
    assert value(b(say.Push, (item([2, 2, 2]),)), "w0") == [[3, 3, 3]]


def test_push_and_pull_in_one_message():
    _, a, b = ready()
    assert a(say.PushPull, (item([1, 1, 1]),)) == []
    actions = b(say.PushPull, (item([4, 4, 4]),))
    assert value(actions, "w0") == value(actions, "w1") == [[5, 5, 5]]


def test_a_fast_worker_may_be_several_steps_ahead():
    made, a, b = ready()
    made_rule(a)
    for step in range(1, 4):
        a(say.Push, (item([step, 0, 0]),))
    assert a(say.Pull, (bare(),)) == []
    assert value(b(say.PushPull, (item([10, 0, 0]),)), "w1") == [[11, 0, 0]]
    assert value(b(say.PushPull, (item([10, 0, 0]),)), "w1") == [[23, 0, 0]]
    actions = b(say.PushPull, (item([10, 0, 0]),))
    assert value(actions, "w0") == value(actions, "w1") == [[36, 0, 0]]
    assert made.updates.rules[0][-1][0].calls == [("w", 0, 1.0, (3,))] * 3


def made_rule(worker, **settings):
    assert worker(say.SetOptimizer, 0, "rule", settings) == [Send(worker.uid, say.Ack(worker.seq))]


@pytest.mark.parametrize("dtype", ["float32", "float16", "float64"])
def test_the_sum_has_the_same_bits_in_every_order_of_arrival(dtype):
    rng = np.random.default_rng(1)
    grads = [(rng.standard_normal(50) * 10.0 ** rng.integers(-4, 4, 50)).astype(dtype)
             for _ in range(4)]
    seen = set()
    for order in itertools.permutations(range(4)):
        made, *crew = ready(4)
        crew[0](say.Init, 0, "dist_sync", ("x",), (item(np.zeros(50, dtype), 1),))
        for rank in order:
            actions = crew[rank](say.PushPull, (item(grads[rank], 1),))
        (values,) = {a.message.items[0].data.tobytes() for a in actions}
        seen.add(values)
        assert made.shards[1, 0].value.dtype == dtype
    assert len(seen) == 1


def test_several_keys_in_one_message_are_answered_together_in_order():
    _, a, b = ready(keys=("x", "y"))
    a(say.PushPull, (item([1, 1, 1], 0), item([2, 2, 2], 1)))
    assert b(say.Push, (item([1, 1, 1], 1),)) == [Send("w1", say.Ack(1))]
    actions = b(say.Push, (item([1, 1, 1], 0),))
    assert value(actions, "w0") == [[2, 2, 2], [3, 3, 3]]


def test_a_value_on_its_way_out_is_not_changed_by_the_next_step():
    _, a, b = ready()
    made_rule(a)
    a(say.PushPull, (item([1, 1, 1]),))
    first = b(say.PushPull, (item([1, 1, 1]),))
    a(say.Push, (item([5, 5, 5]),))
    b(say.Push, (item([5, 5, 5]),))
    assert value(first, "w0") == [[2, 2, 2]]
    assert value(a(say.Pull, (bare(),)), "w0") == [[12, 12, 12]]


# -- lost, doubled, malformed -------------------------------------------------------------------


def test_a_push_that_comes_twice_is_applied_once():
    made, a, b = ready()
    made_rule(a)
    a(say.Push, (item([1, 1, 1]),))
    assert a.again() == []  # still open
    b(say.Push, (item([2, 2, 2]),))
    assert a.again() == [Send("w0", say.Ack(3))]
    assert b.again() == [Send("w1", say.Ack(1))]
    assert value(a(say.Pull, (bare(),)), "w0") == [[3, 3, 3]]
    assert value(a.again(), "w0") == [[3, 3, 3]]
    assert made.counters["repeated"] == 4 and made.counters["updates"] == 1


def test_doubled_and_repeated_messages_at_random_change_no_result():
    for seed in range(50):
        rng = random.Random(seed)
        made, a, _ = ready()
        made_rule(a)
        queues = [[say.PushPull(10 + s, (item([s * (r + 1), 1, 0]),)) for s in range(1, 6)]
                  for r in range(2)]
        for queue in queues:
            for at in range(len(queue) - 1, -1, -1):
                queue[at + 1:at + 1] = [queue[at]] * rng.choice((0, 0, 1, 2))
        while any(queues):
            rank = rng.choice([r for r in range(2) if queues[r]])
            made.handle(queues[rank].pop(0), f"w{rank}", 0)
        assert made.shards[0, 0].value.tolist() == [3 * 15, 10, 0], seed


def test_the_first_value_wins():
    made, a, _ = ready(first=(1, 1, 1))
    assert a(say.Init, 0, "dist_sync", ("w",), (item([7, 7, 7]),)) == [Send("w0", say.Ack(2))]
    assert made.shards[0, 0].value.tolist() == [1, 1, 1]


@pytest.mark.parametrize("items, words", [
    ((item([1, 2]),), "expected shape .3,. and type float32, got .2,. and float32"),
    ((item(np.ones(3)),), "got .3,. and float64"),
    ((item([1, 1, 1], key=8),), "holds no key number 8"),
    ((item([1, 1, 1]), item([1, 1, 1], key=8)), "holds no key number 8"),
    ((bare(),), "without numbers"),
])
def test_what_does_not_fit_is_refused_before_anything_is_changed(items, words):
    made, a, b = ready()
    reason = error(a(say.Push, items))
    assert re.search(words, reason), reason
    assert error(a.again()) == reason
    assert made.shards[0, 0].pushed == [0, 0] and not made.shards[0, 0].steps
    a(say.Push, (item([1, 1, 1]),))
    assert len(b(say.Push, (item([1, 1, 1]),))) == 2


def test_strangers_and_wrong_incarnations_are_not_attached():
    made = server()
    for message, uid in [(say.Attach(0, "x", 0, 0), "x"), (say.Attach(0, "w1", 1, 3), "w1"),
                         (say.Attach(0, "w1", 0, 0), "w1")]:
        refused, log = made.handle(message, uid, 0)
        assert isinstance(refused.message, say.Refused) and isinstance(log, Log)
    (log,) = made.handle(say.Push(1, (item([1]),)), "x", 0)
    assert isinstance(log, Log)


def test_a_failing_optimizer_ends_the_job_with_key_step_and_traceback():
    _, a, b = ready()
    made_rule(a, lr="broken")
    a(say.Push, (item([1, 1, 1]),))
    message = abort(b(say.Push, (item([1, 1, 1]),)))
    assert "server 0, key w, step 1: ZeroDivisionError: in the rule" in message.reason
    assert "Traceback" in message.detail and (message.role, message.code) == (Role.SERVER, 1)


# -- uneven steps, stalls, losses ---------------------------------------------------------------


def test_a_step_that_waits_for_who_has_left_is_an_error_in_either_order():
    for goodbye_first in (True, False):
        _, a, b = ready(keys=("w",))
        for _ in range(4):
            a(say.Push, (item([1, 1, 1]),))
            b(say.Push, (item([1, 1, 1]),))
        actions = b(say.Goodbye) if goodbye_first else []
        actions += a(say.Push, (item([1, 1, 1]),))
        actions += [] if goodbye_first else b(say.Goodbye)
        assert Send("w1", say.Farewell(5)) in actions
        reason = abort(actions).reason
        assert "key w, step 5: waiting for worker 1" in reason
        assert "left after step 4" in reason


def test_leaving_one_store_is_leaving_that_store():
    made, a, b = ready()
    a(say.Init, 1, "dist_sync", ("v",), (item([0, 0, 0], 1),))
    assert b(say.Leave, 0) == [Send("w1", say.Ack(1))]
    assert a(say.Push, (item([1, 1, 1], 1),)) == []
    assert "left after step 0" in abort(a(say.Push, (item([1, 1, 1], 0),))).reason
    assert made.failed


def test_who_leaves_after_the_same_number_of_steps_disturbs_nobody():
    made, a, b = ready()
    a(say.Push, (item([1, 1, 1]),))
    b(say.Push, (item([1, 1, 1]),))
    assert b(say.Goodbye) == [Send("w1", say.Farewell(2))]
    assert value(a(say.Pull, (bare(),)), "w0") == [[2, 2, 2]]
    assert made.lost("w1", "connection lost", 1) == []


def test_a_wait_that_lasts_is_warned_about_once_and_then_reported_with_all_waits():
    made, a, b = ready(keys=("a", "b", "c"))
    a(say.Push, (item([1, 1, 1], 0), item([1, 1, 1], 1)), now=1)
    b(say.Push, (item([1, 1, 1], 0), item([1, 1, 1], 2)), now=1)
    assert made.tick(3) == []
    warnings = made.tick(5)
    assert [log.text.split(" since")[0] for log in warnings] == [
        "b (step 1) waits for worker 1", "c (step 1) waits for worker 0"]
    assert made.tick(6) == []
    (report,) = made.tick(32)
    assert [str(stall) for stall in report.message.stalls] == [
        "b (step 1) waits for worker 1", "c (step 1) waits for worker 0"]
    assert made.handle(say.StallQuery(), "scheduler", 32) == [report]


def test_a_lost_worker_is_reported_with_its_last_step():
    made, a, _ = ready()
    a(say.Push, (item([1, 1, 1]),))
    (action,) = made.lost("w0", "connection lost", 2)
    assert action == Send(
        "scheduler", say.PeerGone(0, Role.WORKER, 0, "connection lost", "w", 1))


def test_the_scheduler_says_how_it_ends():
    made = server()
    report = made.report(0)
    assert made.handle(say.Shutdown(), "scheduler", 0) == [
        Send("scheduler", report), Send("scheduler", say.Goodbye()), Stop(0)]
    log, stop = made.handle(say.Abort(0, "lost", "worker 1 died"), "scheduler", 0)
    assert "worker 1 died" in log.text and stop.code == 75
    own = say.Abort(0, "error", "optimizer", "", Role.SERVER, 0, 1)
    assert made.handle(own, "scheduler", 0)[1] == Stop(1)


# -- asynchronous -------------------------------------------------------------------------------


def test_async_applies_each_push_at_once_and_counts_staleness():
    made, a, b = ready(kind="dist_async")
    made_rule(a)
    a(say.Pull, (bare(),))
    b(say.Pull, (bare(),))
    for _ in range(3):
        assert value(a(say.PushPull, (item([1, 1, 1]),)), "w0")
    assert value(a(say.Pull, (bare(),)), "w0") == [[3, 3, 3]]
    assert value(b(say.PushPull, (item([1, 1, 1]),)), "w1") == [[4, 4, 4]]
    assert (made.counters["staleness_max"], made.counters["staleness_sum"]) == (3, 3)
    assert b(say.Push, (item([1, 1, 1]),)) == [Send("w1", say.Ack(3))]


def test_async_without_an_optimizer_keeps_what_was_pushed_last():
    _, a, b = ready(kind="dist_async")
    a(say.Push, (item([1, 1, 1]),))
    assert value(b(say.PushPull, (item([5, 5, 5]),)), "w1") == [[5, 5, 5]]


# -- optimizer and its settings -----------------------------------------------------------------


def test_all_workers_have_to_set_the_same_optimizer():
    made, a, b = ready()
    made_rule(a, lr=0.1)
    assert "'lr' of rule is 0.2 on worker 1 and 0.1" in error(
        b(say.SetOptimizer, 0, "rule", {"lr": 0.2}))
    assert "worker 1 sets other" in error(b(say.SetOptimizer, 0, "other", {"lr": 0.1}))
    made_rule(b, lr=0.1)
    made_rule(b, lr=0.5)  # a second one, for a second phase: b is the first to say so
    assert made.updates.rules[0][-1][0].lr == 0.5
    assert "'lr' of rule is 3 on worker 0 and 0.5" in error(
        a(say.SetOptimizer, 0, "rule", {"lr": 3}))


def test_an_optimizer_does_not_touch_steps_that_were_pushed_before_it_was_set():
    _, a, b = ready()
    b(say.Push, (item([1, 1, 1]),))
    made_rule(b, lr=10.0)
    assert value(a(say.PushPull, (item([2, 2, 2]),)), "w0") == [[3, 3, 3]]
    a(say.Push, (item([1, 1, 1]),))  # worker 0 leaves it to worker 1 to set one: then it holds
    assert value(b(say.PushPull, (item([1, 1, 1]),)), "w1") == [[23, 23, 23]]


def test_settings_hold_from_the_next_push_on_also_for_a_step_that_is_still_open():
    made, a, b = ready()
    made_rule(a, lr=1.0)
    made_rule(b, lr=1.0)
    a(say.Push, (item([1, 1, 1]),))
    a(say.UpdateSettings, 0, {"lr": 0.5})
    a(say.Push, (item([1, 1, 1]),))
    b(say.Push, (item([1, 1, 1]),))  # completes step 1, which began before the change
    b(say.UpdateSettings, 0, {"lr": 0.5})
    b(say.Push, (item([1, 1, 1]),))
    assert [call[2] for call in made.updates.rules[0][-1][0].calls] == [1.0, 0.5]
    assert value(a(say.Pull, (bare(),)), "w0") == [[3, 3, 3]]


def test_settings_go_back_for_a_key_that_is_a_step_behind():
    made, a, b = ready(keys=("x", "y"))
    made_rule(a, lr=1.0)
    made_rule(b, lr=1.0)
    a(say.Push, (item([1, 1, 1], 1),))
    b(say.UpdateSettings, 0, {"lr": 0.5})
    a(say.UpdateSettings, 0, {"lr": 0.5})
    b(say.Push, (item([1, 1, 1], 0),))
    a(say.Push, (item([1, 1, 1], 0),))
    assert [call[2] for call in made.updates.rules[0][-1][0].calls] == [0.5]
    message = abort(b(say.Push, (item([1, 1, 1], 1),)))  # b pushed y under the new setting
    assert "lr is 1.0 on worker 0 and 0.5 on worker 1" in message.reason


def test_states_travel_as_arrays():
    made, a, _ = ready()
    made_rule(a)
    (action,) = a(say.SaveStates, 0)
    assert action.message.layout == {
        "states": [["w", 0, ["array", None]]], "counts": [["w", 4]]}
    assert action.message.items[0].data.tolist() == [0, 1, 2]
    a(say.LoadStates, 0, action.message.layout, action.message.items)
    first, second = made.updates.rules[0][-1][0].kept["w", 0]
    assert first.tolist() == [0, 1, 2] and second is None
    assert "not a layout" in error(a(say.LoadStates, 0, {"states": [["w"]]}, ()))
    assert "no optimizer" in error(a(say.SaveStates, 4))
