"""What the environment says of a job, and what of it cannot be right."""
from __future__ import annotations

import pytest

from minigluon.base import KVStoreError
from minigluon.kvstore.dist.environment import read_environment
from minigluon.kvstore.dist.messages import Role

GOOD = {
    "DMLC_ROLE": "worker", "DMLC_PS_ROOT_URI": "127.0.0.1", "DMLC_PS_ROOT_PORT": "9091",
    "DMLC_NUM_WORKER": "2", "DMLC_NUM_SERVER": "1",
}


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    for name, value in GOOD.items():
        monkeypatch.setenv(name, value)
    return monkeypatch


def test_a_good_one(environment: pytest.MonkeyPatch) -> None:
    job = read_environment(Role.WORKER)
    assert (job.port, job.workers, job.servers, job.role) == (9091, 2, 1, Role.WORKER)
    environment.delenv("DMLC_ROLE")
    assert read_environment(Role.WORKER) == job


@pytest.mark.parametrize(("name", "value", "words"), [
    ("DMLC_PS_ROOT_PORT", "99999", "DMLC_PS_ROOT_PORT=99999: expected a port from 1 to 65535"),
    ("DMLC_PS_ROOT_PORT", "0", "DMLC_PS_ROOT_PORT=0: expected a port"),
    ("DMLC_PS_ROOT_PORT", "-5", "DMLC_PS_ROOT_PORT=-5: expected a port"),
    ("MINIGLUON_OP_TIMEOUT", "0", "MINIGLUON_OP_TIMEOUT=0: expected a positive number"),
    ("MINIGLUON_START_TIMEOUT", "-1", "MINIGLUON_START_TIMEOUT=-1: expected a positive number"),
    ("MINIGLUON_OP_TIMEOUT", "nan", "MINIGLUON_OP_TIMEOUT=nan: expected a positive number"),
    ("PS_HEARTBEAT_TIMEOUT", "-1", "PS_HEARTBEAT_TIMEOUT=-1: expected a positive number"),
    ("PS_HEARTBEAT_INTERVAL", "-2", "PS_HEARTBEAT_INTERVAL=-2: expected a positive number"),
    ("DMLC_ROLE", "sever", "DMLC_ROLE: expected worker, server or scheduler, got 'sever'"),
])
def test_what_cannot_be_right_is_said_at_once(
    environment: pytest.MonkeyPatch, name: str, value: str, words: str
) -> None:
    environment.setenv(name, value)
    with pytest.raises(KVStoreError, match=words):
        read_environment(Role.WORKER)
