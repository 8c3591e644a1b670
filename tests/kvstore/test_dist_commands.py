"""Commands to servers, servers of one's own, who is dead, the barrier before the exit."""
import json

import pytest
from dist_jobs import Job

from minigluon import kvstore
from minigluon.kvstore.dist import messages as say
from minigluon.kvstore.dist.actions import Limits, Run, Send
from minigluon.kvstore.dist.messages import Member, Role
from minigluon.kvstore.dist.scheduler import SchedulerState
from minigluon.kvstore.dist.server import ServerState

COMMANDS = """
import pickle
kv = mx.kv.create("dist_sync")
kv._send_command_to_servers(3, "")                                   # sync mode: it is
kv._send_command_to_servers(1, "")                                   # multi-precision, for the next
kv._send_command_to_servers(0, pickle.dumps(mx.optimizer.Test(), 0).decode("latin-1"))
kv.init("h", nd.ones((2,), dtype="float16"))
out = nd.zeros((2,), dtype="float16")
kv.pushpull("h", nd.ones((2,), dtype="float16"), out=out)
assert out.asnumpy().tolist() == [1 + kv.num_workers] * 2            # no warning about float16
kv._send_command_to_servers(4, "2bit,0.25")
kv.init("c", nd.zeros((2,)))
out = nd.zeros((2,))
kv.pushpull("c", nd.ones((2,)), out=out)
assert out.asnumpy().tolist() == [0.25 * kv.num_workers] * 2
for head, body, words in ((9, "", "unknown command 9"),
                          (4, "3bit,1", "unknown type '3bit'")):
    try:
        kv._send_command_to_servers(head, body)
    except mx.base.KVStoreError as error:
        assert words in str(error), error
    else:
        raise AssertionError(head)
kv._send_command_to_servers(0, "hello")
mx.profiler.set_config(profile_all=True, filename=os.environ["FOLDER"] + "/p.json",
                       profile_process="server")
kv.barrier()
mx.profiler.set_state("run", profile_process="server")
kv.barrier()
kv.pushpull("c", nd.ones((2,)), out=out)
kv.barrier()
mx.profiler.set_state("stop", profile_process="server")
mx.profiler.dump(profile_process="server")
assert kv.num_dead_node(7) == 0 and kv.num_dead_node(4, timeout=1e-9) <= kv.num_workers
kv.barrier_before_exit = True
kv._send_command_to_servers(2, "")
"""


def test_all_commands_in_a_job(tmp_path):
    with Job(COMMANDS, workers=2, servers=2, env={"FOLDER": str(tmp_path)}) as job:
        job.succeed(60)
        assert "command 0: this server has no controller" in job.text("server 0")
    for rank in range(2):
        trace = json.loads((tmp_path / f"rank{rank}_p.json").read_text())
        assert isinstance(trace["traceEvents"], list)
    events = [event["name"] for rank in range(2) for event in
              json.loads((tmp_path / f"rank{rank}_p.json").read_text())["traceEvents"]]
    assert "Holdings._merge" in events


OWN = """
class Own(mx.kvstore.KVStoreServer):
    def controller(self, head, body):
        print("got", head, body, flush=True)

sys.exit(Own().run())
"""


def test_a_server_of_ones_own():
    script = """
kv = mx.kv.create("dist_sync")
kv._send_command_to_servers(0, "hello")
kv.init(3, nd.ones((2,)))
out = nd.zeros((2,))
kv.pull(3, out=out)
assert out.asnumpy().tolist() == [1, 1]
"""
    with Job(script, workers=1, servers=1, own_server=OWN) as job:
        job.succeed(30)
        assert "got 0 hello" in job.text("server 0")


def server_with_worker():
    roster = (Member(Role.WORKER, 0, "h", 0, 1, "w0"), Member(Role.SERVER, 0, "h", 5, 2, "s0"))
    state = ServerState(0, roster, "sched", Limits(), None)
    state.handle(say.Attach(0, "w0", 0), "w0", 0.0)
    return state


def test_commands_are_actions_or_refusals():
    state = server_with_worker()
    assert state.handle(say.Command(1, 0, 5, "x"), "w0", 0.0) == [Run(5, "x"),
                                                                  Send("w0", say.Ack(1))]
    (refused,) = state.handle(say.Command(2, 0, 77, ""), "w0", 0.0)
    assert "unknown command 77; known: 0 (controller)" in refused.message.reason


def test_multi_precision_comes_before_the_optimizer():
    state = server_with_worker()
    state.updates.make_rule = lambda message: message.settings["multi_precision"]
    state.handle(say.SetOptimizer(1, 3, "sgd", {"multi_precision": False}), "w0", 0.0)
    (refused,) = state.handle(say.Command(2, 3, 1, ""), "w0", 0.0)
    assert "the optimizer is set already" in refused.message.reason
    for seq in (3, 5):  # each worker says so, some after another's optimizer
        assert state.handle(say.Command(seq, 4, 1, ""), "w0", 0.0) == [Send("w0", say.Ack(seq))]
        state.handle(say.SetOptimizer(seq + 1, 4, "sgd", {"multi_precision": False}), "w0", 0.0)
    assert state.updates.latest(4) is True


def complete(workers=2):
    state = SchedulerState(workers, 1, "a:1", Limits(), 100, 0.0)
    for rank in range(workers):
        state.handle(say.Register(0, Role.WORKER, rank, "h", 0, rank, f"w{rank}", 0, (workers, 1)),
                     f"w{rank}", 0.0)
    state.handle(say.Register(0, Role.SERVER, 0, "h", 5, 9, "s0", 0, (workers, 1)), "s0", 0.0)
    return state


def test_the_silent_are_counted():
    state = complete()
    state.handle(say.Heartbeat(), "w0", 50.0)
    (answer,) = state.handle(say.CountDead(3, (Role.WORKER,), 20.0), "w0", 60.0)
    assert answer == Send("w0", say.StatsReply(3, {"dead": 1}))
    (answer,) = state.handle(say.CountDead(4, (Role.WORKER, Role.SERVER), 20.0), "w0", 60.0)
    assert answer.message.counters == {"dead": 2}


def test_the_barrier_before_the_exit_does_not_wait_for_who_has_left():
    state = complete(3)
    assert state.handle(say.Barrier(7, 0), "w0", 1.0) == []
    assert state.handle(say.Goodbye(8), "w1", 1.0) == [Send("w1", say.Farewell(8))]
    done = state.handle(say.Barrier(9, 0), "w2", 1.0)
    assert done == [Send("w0", say.BarrierDone(7)), Send("w2", say.BarrierDone(9))]


def test_one_process_has_no_servers():
    kv = kvstore.create("device")
    assert kv.num_dead_node(2) == 0
    with pytest.raises(NotImplementedError, match="servers to send a command to"):
        kv._send_command_to_servers(0, "x")
