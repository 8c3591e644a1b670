"""Every type of store keeps the same promises."""
from pathlib import Path

import pytest
from conformance import check
from dist_jobs import Job

from minigluon import kvstore, num_gpus
from minigluon.base import NotForThisError

HERE = Path(__file__).parent
LOCAL = ("local", "device", "local_update_cpu", "local_allreduce_cpu", "local_allreduce_device",
         "teststore")
DIST = ("dist", "dist_sync", "dist_async", "dist_device_sync", "dist_sync_device",
        "dist_device_async", "dist_async_device")
SCRIPT = f"""
sys.path.append({str(HERE)!r})
from conformance import check
kv = mx.kv.create(os.environ["STORE"])
assert kv.type == os.environ["STORE"]
check(kv)
"""


@pytest.mark.parametrize("name", LOCAL)
def test_one_process(name: str) -> None:
    check(kvstore.create(name))


def test_nccl() -> None:
    if num_gpus():
        check(kvstore.create("nccl"))
    else:
        with pytest.raises(NotForThisError, match="use 'device'"):
            kvstore.create("nccl")


@pytest.mark.parametrize("name", DIST)
def test_a_job(name: str) -> None:
    with Job(SCRIPT, workers=2, servers=2, env={"STORE": name}) as job:
        job.succeed(60)


def test_a_job_under_p3() -> None:
    env = {"STORE": "dist_sync", "DMLC_PS_VAN_TYPE": "p3", "MXNET_KVSTORE_SLICE_THRESHOLD": "9999"}
    with Job(SCRIPT, workers=2, servers=2, env=env) as job:
        job.succeed(60)


def test_p3_refuses_asynchronous_types() -> None:
    script = """
try:
    mx.kv.create("dist_async")
except ValueError as error:
    print(error)
mx.kv.create("dist_sync").barrier()
"""
    with Job(script, workers=1, servers=1, env={"DMLC_PS_VAN_TYPE": "p3"}) as job:
        job.succeed(30)
        assert "P3 (DMLC_PS_VAN_TYPE=p3, --p3) is for synchronous types" in job.text("worker 0")


def test_a_store_of_ones_own() -> None:
    @kvstore.KVStoreBase.register
    class OwnStore(kvstore.TestStore):
        pass

    try:
        kv = kvstore.create("ownstore")
        assert type(kv) is OwnStore
        check(kv)
        with pytest.raises(ValueError, match="did you mean 'ownstore'"):
            kvstore.create("ownstor")
    finally:
        del kvstore.KVStoreBase.registry.entries["ownstore"]
