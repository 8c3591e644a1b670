"""The scheduler's state machine: messages in, actions out; no process, no socket, no clock."""
import re

import pytest

from minigluon.kvstore.dist import messages as say
from minigluon.kvstore.dist.actions import Limits, Log, Send, Stop
from minigluon.kvstore.dist.messages import KeySpec, Node, Role
from minigluon.kvstore.dist.scheduler import SchedulerState

LIMITS = Limits(start=5, operation=30, heartbeat=2, interval=0.5)


def register(role, wanted=-1, workers=2, servers=1, pid=1):
    return say.Register(0, role, wanted, "127.0.0.1", 7000 if role == Role.SERVER else 0, pid, "",
                        0, (workers, servers))


def state(workers=2, servers=1):
    return SchedulerState(workers, servers, "127.0.0.1:9000", LIMITS, 1000, 0.0)


def running(workers=2, servers=1):
    """A complete job: workers w0, w1, ... and servers s0, s1, ..."""
    made = state(workers, servers)
    actions = []
    for rank in range(servers):
        hello = register(Role.SERVER, rank, workers, servers, 100 + rank)
        actions += made.handle(hello, f"s{rank}", 0)
    for rank in range(workers):
        hello = register(Role.WORKER, rank, workers, servers, 200 + rank)
        actions += made.handle(hello, f"w{rank}", 0)
    assert made.phase == "running"
    return made


def sent(actions, kind, to=None):
    return [a.message for a in actions if isinstance(a, Send) and isinstance(a.message, kind)
            and to in (None, a.to)]


def reason_of(actions):
    aborts = sent(actions, say.Abort)
    assert aborts and any(isinstance(a, Stop) and a.code for a in actions), actions
    assert any(isinstance(a, Log) and aborts[0].reason in a.text for a in actions)
    return aborts[0].reason


def test_the_roster_comes_when_all_are_here_and_tells_everybody_his_rank():
    made = state()
    assert made.handle(register(Role.WORKER, 1, pid=11), "a", 0) == []
    assert made.handle(register(Role.SERVER, pid=12), "b", 0) == []
    actions = made.handle(register(Role.WORKER, pid=13), "c", 0)
    ranks = {a.to: a.message.rank for a in actions if isinstance(a, Send)}
    assert ranks == {"a": 1, "b": 0, "c": 0}  # the wish of `a` is honoured
    members = sent(actions, say.Roster)[0].members
    assert [(str(m.node), m.pid) for m in members] == [
        ("server 0", 12), ("worker 0", 13), ("worker 1", 11)]


def test_without_wishes_ranks_follow_the_order_of_arrival():
    made = state(3, 1)
    for uid in "xyz":
        made.handle(register(Role.WORKER, -1, 3, 1), uid, 0)
    actions = made.handle(register(Role.SERVER, -1, 3, 1), "s", 0)
    assert {a.to: a.message.rank for a in actions if isinstance(a, Send)} == {
        "x": 0, "y": 1, "z": 2, "s": 0}


def test_the_roll_call_names_who_is_missing_and_who_is_here():
    made = state()
    made.handle(register(Role.SERVER, pid=100), "s", 0)
    made.handle(register(Role.WORKER, 0, pid=200), "w", 1)
    assert made.tick(4.9) == []
    actions = made.tick(5.1)
    reason = reason_of(actions)
    assert "missing: worker 1" in reason and "worker 0 (127.0.0.1, pid 200)" in reason
    assert "127.0.0.1:9000" in reason
    assert {a.to for a in actions if isinstance(a, Send)} == {"s", "w"}


@pytest.mark.parametrize("hello, words", [
    (register(Role.WORKER, 0), "wants rank 0, which another"),
    (register(Role.WORKER, 5), "wants rank 5; ranks are 0 to 1"),
    (register(Role.WORKER, -1, workers=3), "expects 3 workers and 1 servers"),
])
def test_who_does_not_fit_is_refused_and_the_job_goes_on(hello, words):
    made = state()
    made.handle(register(Role.WORKER, 0), "w0", 0)
    actions = made.handle(hello, "odd", 0)
    assert words in sent(actions, say.Refused, "odd")[0].reason
    made.handle(register(Role.WORKER, 1), "w1", 0)
    assert sent(made.handle(register(Role.SERVER), "s", 0), say.Roster)


def test_a_latecomer_is_refused():
    actions = running().handle(register(Role.WORKER), "late", 1)
    assert "too late" in sent(actions, say.Refused, "late")[0].reason


def test_registering_again_after_a_broken_connection_gives_the_same_roster():
    made = running()
    actions = made.handle(register(Role.WORKER, 1), "w1", 3)
    assert sent(actions, say.Roster, "w1")[0].rank == 1


def test_a_barrier_counts_workers_not_arrivals():
    made = running()
    assert made.handle(say.Barrier(3, 1), "w0", 0) == []
    assert made.handle(say.Barrier(3, 1), "w0", 0) == []  # doubled
    actions = made.handle(say.Barrier(8, 1), "w1", 0)
    assert actions == [Send("w0", say.BarrierDone(3)), Send("w1", say.BarrierDone(8))]
    # the answer got lost and is asked for again: it does not count for the next barrier
    assert made.handle(say.Barrier(3, 1), "w0", 0) == [Send("w0", say.BarrierDone(3))]
    assert made.handle(say.Barrier(4, 2), "w0", 0) == []


def test_a_barrier_warns_then_ends_with_who_is_missing():
    made = running()
    made.handle(say.Heartbeat(0, 4), "w1", 1.0)
    made.handle(say.Barrier(3, 1), "w0", 1.0)
    assert made.tick(2) == []
    (log,) = made.tick(5)
    assert "worker 1" in log.text and log.level == "warning"
    assert made.tick(6) == []  # once
    reason = reason_of(made.tick(32))
    assert "barrier 1" in reason and "worker 1" in reason and "at step 4" in reason


def test_a_barrier_does_not_wait_for_who_has_left():
    made = running()
    made.handle(say.Barrier(3, 1), "w0", 1.0)
    reason = reason_of(made.handle(say.Goodbye(9), "w1", 2.0))
    assert "barrier 1: waiting for worker 1, which left" in reason
    made = running()
    made.handle(say.Goodbye(9), "w1", 2.0)
    assert "worker 1" in reason_of(made.handle(say.Barrier(3, 1), "w0", 3.0))


def test_a_loss_is_settled_with_the_details_that_others_know():
    made = running()
    assert made.lost("w1", "died (connection lost)", 10.0) == []
    made.handle(say.PeerGone(0, Role.WORKER, 1, "connection lost", "w", 12), "s0", 10.1)
    assert made.tick(10.2) == []
    actions = made.tick(10.5)
    reason = reason_of(actions)
    assert reason == "worker 1 (127.0.0.1, pid 201) died (connection lost) at step 12, key w"
    (abort, *_) = sent(actions, say.Abort)
    assert abort.culprit == Node(Role.WORKER, 1) and abort.code == 75 and abort.error == "lost"
    assert {a.to for a in actions if isinstance(a, Send)} >= {"w0", "s0"}


def test_the_one_the_scheduler_lost_itself_is_blamed_before_one_that_others_cannot_reach():
    made = running(2, 2)
    made.handle(say.PeerGone(0, Role.SERVER, 1, "died (connection lost)", "", 3), "w0", 10.0)
    made.lost("w0", "died (connection lost)", 10.2)
    assert reason_of(made.tick(10.6)).startswith("worker 0")


def test_a_server_only_a_worker_cannot_reach_still_ends_the_job():
    made = running()
    made.handle(say.PeerGone(0, Role.SERVER, 0, "died (connection lost)", "w", 3), "w1", 10.0)
    reason = reason_of(made.tick(10.6))
    assert "server 0 (127.0.0.1:7000, pid 100)" in reason and "noticed by worker 1" in reason


def test_a_loss_during_start_up_ends_the_job_at_once():
    made = state()
    made.handle(register(Role.WORKER, 1, pid=5), "w", 0)
    reason = reason_of(made.lost("w", "died (connection lost)", 1))
    assert "worker 1" in reason and "during start-up" in reason


def test_a_traceback_of_a_worker_reaches_everybody_and_wins():
    made = running(3, 1)
    crash = say.Abort(
        0, "crash", "worker 2 failed: ValueError: boom", "Traceback", Role.WORKER, 2, 1)
    actions = made.handle(crash, "w2", 4.0)
    assert [m.detail for m in sent(actions, say.Abort)] == ["Traceback"] * 4
    assert [a for a in actions if isinstance(a, Stop)] == [Stop(75)]  # a mere victim
    assert made.lost("w2", "died", 5.0) == [] and made.tick(9.0) == []  # one abort is enough


def test_goodbyes_of_all_workers_end_the_servers_then_the_scheduler():
    made = running(2, 2)
    assert made.handle(say.Goodbye(5), "w0", 1) == [Send("w0", say.Farewell(5))]
    assert made.handle(say.Goodbye(5), "w0", 1) == [Send("w0", say.Farewell(5))]  # doubled
    assert made.lost("w0", "died", 1.1) == []  # it has left: that is no loss
    actions = made.handle(say.Goodbye(6), "w1", 2)
    assert {a.to for a in actions if isinstance(a, Send) and isinstance(a.message, say.Shutdown)} \
        == {"s0", "s1"}
    made.handle(say.Goodbye(0), "s0", 2)
    assert Stop(0) in made.handle(say.Goodbye(0), "s1", 2)


def test_servers_that_do_not_say_goodbye_are_not_waited_for():
    made = running()
    made.handle(say.Goodbye(5), "w0", 1)
    made.handle(say.Goodbye(5), "w1", 1)
    assert Stop(0) in made.tick(7)


def test_a_server_that_leaves_early_is_a_loss():
    assert "server 0" in reason_of(running().handle(say.Goodbye(0), "s0", 1))


def declare(*keys, store=0, kind="dist_sync", whole=False, seq=1):
    return say.Declare(seq, store, kind, whole, keys)


W, BIG = KeySpec("w", (3, 4), "float32"), KeySpec("big", (100, 20), "float32")


def test_init_of_others_is_answered_when_worker_0_has_brought_the_values():
    made = running(3, 2)
    assert made.handle(declare(W, BIG, seq=4), "w2", 0) == []
    placed = sent(made.handle(declare(BIG, W), "w0", 1), say.Placed, "w0")[0]
    assert made.handle(declare(BIG, seq=9), "w1", 1) == []
    idents = tuple(place.ident for place in placed.keys)
    actions = made.handle(say.Initialised(0, idents), "w0", 2)
    answers = {a.to: {p.key: p for p in a.message.keys} for a in actions}
    assert set(answers) == {"w1", "w2"}
    assert answers["w2"] == {p.key: p for p in placed.keys}  # the order of keys does not matter
    assert answers["w2"]["big"].servers == (0, 1) and len(answers["w2"]["w"].servers) == 1


@pytest.mark.parametrize("other, words", [
    (declare(KeySpec("w", (4, 3), "float32"), seq=7), r"worker 1 has shape \(4, 3\).*worker 0 has"),
    (declare(KeySpec("w", (3, 4), "float16"), seq=7), "float16"),
    (declare(W, seq=7, kind="dist_async"), "'dist_async', worker 0 one of type 'dist_sync'"),
])
@pytest.mark.parametrize("first", [True, False])
def test_the_worker_that_disagrees_hears_it_at_init(other, words, first):
    made = running()
    actions = made.handle(other, "w1", 0) if first else []
    actions += made.handle(declare(W), "w0", 0)
    actions += made.handle(other, "w1", 0) if not first else []
    (error,) = sent(actions, say.ErrorReply, "w1")
    assert re.search(words, error.reason), error.reason
    assert error.seq == 7 and not sent(actions, say.ErrorReply, "w0")


def test_stores_do_not_share_keys():
    made = running()
    one = sent(made.handle(declare(W), "w0", 0), say.Placed)[0].keys[0]
    two = sent(made.handle(declare(KeySpec("w", (9,), "int8"), store=1), "w0", 0), say.Placed)[0]
    assert one.ident != two.keys[0].ident


def test_an_init_that_worker_0_never_makes_ends_in_time_or_when_it_leaves():
    made = running()
    made.handle(declare(W), "w1", 0)
    assert made.tick(29) == []
    assert "init of key 'w': worker 1 has waited 31 s for worker 0" in reason_of(made.tick(31))
    made = running()
    made.handle(declare(W), "w1", 0)
    assert "worker 0, which left" in reason_of(made.handle(say.Goodbye(2), "w0", 1))


def test_a_stall_is_told_with_the_waits_of_all_servers_and_who_was_heard_last():
    made = running(2, 2)
    made.handle(say.Heartbeat(0, 3), "w0", 28)
    made.handle(say.Heartbeat(0, 3), "w1", 20)
    b, c = say.Stall("b", 1, (1,), 31.0), say.Stall("c", 1, (0,), 30.5)
    actions = made.handle(say.StallReport(0, (b,)), "s0", 31)
    assert actions == [Send("s1", say.StallQuery())]
    made.handle(say.StallReport(0, (c,)), "s1", 31.1)
    assert made.tick(31.2) == []
    actions = made.tick(31.6)
    reason = reason_of(actions)
    assert "b (step 1) waits for worker 1; c (step 1) waits for worker 0" in reason
    assert sent(actions, say.Abort)[0].culprit == Node(Role.WORKER, 1)  # silent the longest
    assert sent(actions, say.Abort)[0].error == "timeout"


@pytest.mark.parametrize("message", [
    say.Barrier(1, 1), say.Placed(1), say.PeerGone(), say.Initialised(0, (9,)), say.Values(3)])
def test_messages_that_are_out_of_place_break_nothing(message):
    made = state()
    assert made.handle(message, "stranger", 0) == []
    made.handle(register(Role.WORKER, 0), "w0", 0)
    made.handle(message, "w0", 0)
    assert made.phase == "gathering"
    made.handle(register(Role.WORKER, 1), "w1", 0)
    assert sent(made.handle(register(Role.SERVER), "s", 0), say.Roster)
