"""Workers with unequal numbers of steps: who has run out is counted out."""
import numpy as np
from dist_jobs import Job

from minigluon.kvstore.dist import messages as say
from minigluon.kvstore.dist.actions import Limits
from minigluon.kvstore.dist.messages import Item, Member, Role
from minigluon.kvstore.dist.server import ServerState

MEMBERS = tuple(Member(Role.WORKER, rank, "h", 0, rank, f"w{rank}") for rank in range(3))


def item(value=None):
    data = None if value is None else np.full(2, value, np.float32)
    return Item(0, 0, 0, 2, "float32", (2,), data)


def server():
    state = ServerState(0, MEMBERS, "sched", Limits(), None)
    for rank in range(3):
        state.handle(say.Attach(0, f"w{rank}", rank), f"w{rank}", 0.0)
    state.handle(say.Init(1, 0, "dist_sync", ("w",), (item(0),)), "w0", 0.0)
    return state


def values(actions):
    return {a.to: a.message.items[0].data.tolist() for a in actions
            if isinstance(a.message, say.Values)}


def test_an_open_step_is_completed_by_a_worker_that_leaves():
    state = server()
    assert state.handle(say.PushPull(2, (item(1),)), "w0", 1.0) == []
    assert state.handle(say.PushPull(2, (item(2),)), "w1", 1.0) == []
    actions = state.handle(say.Leave(2, 0, True), "w2", 1.0)
    assert values(actions) == {"w0": [3, 3], "w1": [3, 3]}
    assert [a.message for a in actions if a.to == "w2"] == [say.Ack(2)]


def test_later_steps_go_on_and_the_last_one_to_leave_lets_all_in_again():
    state = server()
    state.handle(say.Leave(2, 0, True), "w2", 1.0)
    state.handle(say.PushPull(2, (item(1),)), "w0", 1.0)
    assert values(state.handle(say.PushPull(2, (item(2),)), "w1", 1.0)) == {"w0": [3, 3],
                                                                          "w1": [3, 3]}
    (refused,) = state.handle(say.Push(3, (item(2),)), "w2", 1.0)
    assert "has been counted out" in refused.message.reason
    state.handle(say.Leave(3, 0, True), "w0", 1.0)
    assert values(state.handle(say.PushPull(3, (item(7),)), "w1", 1.0)) == {"w1": [7, 7]}
    state.handle(say.Leave(4, 0, True), "w1", 1.0)
    for rank, seq in ((0, 4), (1, 5)):
        assert state.handle(say.PushPull(seq, (item(1),)), f"w{rank}", 2.0) == []
    assert set(values(state.handle(say.PushPull(4, (item(1),)), "w2", 2.0))) == {"w0", "w1", "w2"}


UNEVEN = """
from minigluon import gluon, autograd
w = gluon.Parameter("w", shape=(3,))
w.initialize("zeros")
trainer = gluon.Trainer([w], "sgd", {"learning_rate": 1}, kvstore="dist_sync")
for epoch in range(2):
    with trainer.join():
        for step in range(2 + int(os.environ["DMLC_WORKER_ID"])):
            with autograd.record():
                loss = -w.data().sum()
            loss.backward()
            trainer.step(1)
    # 2, 3 and 4 steps: 9 gradients of -1 an epoch
    assert w.data().asnumpy().tolist() == [9.0 * (epoch + 1)] * 3, (epoch, w.data())
"""


def test_a_trainer_joins():
    with Job(UNEVEN, workers=3, servers=2) as job:
        job.succeed(40)
