"""Who is let in: the handshake, and what strangers get."""
import os

import pytest

from minigluon.base import AuthenticationError, KVStoreError
from minigluon.kvstore.dist import auth, environment
from minigluon.kvstore.dist.auth import ClientHandshake, Gate
from minigluon.kvstore.dist.messages import Role
from minigluon.kvstore.dist.wire import VERSION


def shake(gate, client, identity=b"id"):
    """Both ends' frames until nobody has an answer; all frames in order."""
    frames = [client.hello()]
    while True:
        answer = gate.receive(identity, frames[-1])
        if answer is None:
            return frames
        frames.append(answer)
        answer = client.receive(answer)
        if answer is None:
            return frames
        frames.append(answer)


def test_the_same_token_opens_the_gate():
    gate, client = Gate(b"token"), ClientHandshake(b"token")
    assert len(shake(gate, client)) == 4
    assert gate.admits(b"id") and client.welcome and not client.refused
    assert not gate.admits(b"another")


@pytest.mark.parametrize("theirs", [b"", b"wrong"])
def test_no_token_or_a_wrong_one_is_refused_counted_and_told(theirs):
    gate, client = Gate(b"token"), ClientHandshake(theirs)
    shake(gate, client)
    assert not gate.admits(b"id") and not client.welcome
    assert "MINIGLUON_JOB_TOKEN" in client.refused
    assert gate.refused == 1


def test_a_server_that_does_not_know_the_token_is_recognised():
    class Impostor(Gate):
        def receive(self, identity, frame):
            answer = super().receive(identity, frame)
            kind = auth._split(frame)[1]
            return auth._frame(b"W", os.urandom(32)) if kind == b"P" else answer

    client = ClientHandshake(b"token")
    shake(Impostor(b"other"), client)
    assert not client.welcome and "does not know the job token" in client.refused


def test_a_recorded_handshake_opens_nothing():
    gate = Gate(b"token")
    recorded = shake(gate, ClientHandshake(b"token"), b"honest")
    hello, _, proof, _ = recorded
    assert gate.receive(b"thief", hello) is not None
    answer = gate.receive(b"thief", proof)
    assert not gate.admits(b"thief") and b"wrong job token" in answer
    assert gate.receive(b"thief", proof) is None  # and without a new challenge nothing at all


@pytest.mark.parametrize(
    "frame", [b"", b"x", b"\x80\x04pickle", b"?" * 64, b"MGAU", bytes(1 << 20)], ids=len)
def test_garbage_gets_no_answer_and_is_counted(frame):
    gate = Gate(b"token")
    assert gate.receive(b"id", frame) is None
    assert gate.refused == 1 and not gate.admits(b"id")


def test_another_version_is_told_both():
    gate, client = Gate(b"token"), ClientHandshake(b"token")
    hello = bytearray(client.hello())
    hello[4] = 9
    client.receive(gate.receive(b"id", bytes(hello)))
    assert f"{VERSION} is spoken here, not 9" in client.refused and not gate.admits(b"id")


def test_handshakes_under_way_are_bounded():
    gate = Gate(b"token")
    for number in range(1000):
        gate.receive(str(number).encode(), ClientHandshake(b"token").hello())
    assert len(gate._pending) <= 256


def job(monkeypatch, **env):
    for name in list(os.environ):
        if name.startswith(("DMLC_", "PS_", "MINIGLUON_", "MXNET_")):
            monkeypatch.delenv(name)
    base = {"DMLC_ROLE": "server", "DMLC_PS_ROOT_URI": "127.0.0.1", "DMLC_PS_ROOT_PORT": "9000",
            "DMLC_NUM_WORKER": "2", "DMLC_NUM_SERVER": "1"}
    for name, value in {**base, **env}.items():
        monkeypatch.setenv(name, value)
    return environment.read_environment()


def test_without_a_token_only_loopback_is_listened_on(monkeypatch):
    assert environment.listen_host(job(monkeypatch)) == "127.0.0.1"
    assert environment.listen_host(job(monkeypatch, DMLC_INTERFACE="lo")) == "127.0.0.1"
    open_job = job(monkeypatch, DMLC_NODE_HOST="0.0.0.0")
    with pytest.raises(AuthenticationError, match=r"0\.0\.0\.0.*MINIGLUON_JOB_TOKEN"):
        environment.listen_host(open_job)
    assert environment.listen_host(job(monkeypatch, DMLC_NODE_HOST="0.0.0.0",
                                       MINIGLUON_JOB_TOKEN="t")) == "0.0.0.0"


def test_what_is_missing_in_the_environment_is_named(monkeypatch):
    with pytest.raises(KVStoreError, match="not set: DMLC_PS_ROOT_PORT, DMLC_NUM_SERVER"):
        job(monkeypatch, DMLC_PS_ROOT_PORT="", DMLC_NUM_SERVER="")
    with pytest.raises(KVStoreError, match="expected worker, server or scheduler, got 'boss'"):
        job(monkeypatch, DMLC_ROLE="boss")
    with pytest.raises(KVStoreError, match="DMLC_PS_VAN_TYPE=p4: expected zmq or p3"):
        job(monkeypatch, DMLC_PS_VAN_TYPE="p4")
    assert job(monkeypatch, DMLC_PS_VAN_TYPE="p3", DMLC_ROLE="worker").slice == 40_000


def test_names_and_limits(monkeypatch):
    seen = job(monkeypatch, DMLC_ROLE="worker", DMLC_WORKER_ID="1", PS_HEARTBEAT_TIMEOUT="3",
               MINIGLUON_OP_TIMEOUT="7", MXNET_KVSTORE_BIGARRAY_BOUND="99")
    assert (seen.role, seen.wanted, seen.bound) == (Role.WORKER, 1, 99)
    assert (seen.limits.heartbeat, seen.limits.operation, seen.limits.start) == (3, 7, 60)
    assert environment.resolve("localhost", "the scheduler") in ("127.0.0.1", "::1")
    with pytest.raises(KVStoreError, match=r"nosuch\.invalid.*scheduler"):
        environment.resolve("nosuch.invalid", "the scheduler")
    with pytest.raises(KVStoreError, match=r"this machine has: .*lo"):
        environment.listen_host(job(monkeypatch, DMLC_INTERFACE="nosuch0"))
