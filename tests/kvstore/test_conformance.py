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
def make():
    kv = mx.kv.create(os.environ["STORE"])
    assert kv.type == os.environ["STORE"]
    return kv
check(make, os.environ["FOLDER"])
"""


@pytest.mark.parametrize("name", LOCAL)
def test_one_process(name: str, tmp_path: Path) -> None:
    check(lambda: kvstore.create(name), tmp_path)


def test_nccl(tmp_path: Path) -> None:
    if num_gpus():
        check(lambda: kvstore.create("nccl"), tmp_path)
    else:
        with pytest.raises(NotForThisError, match="use 'device'"):
            kvstore.create("nccl")


@pytest.mark.parametrize("name", DIST)
def test_a_job(name: str, tmp_path: Path) -> None:
    env = {"STORE": name, "FOLDER": str(tmp_path)}
    with Job(SCRIPT, workers=2, servers=2, env=env) as job:
        job.succeed(60)


def test_a_job_under_p3(tmp_path: Path) -> None:
    env = {"STORE": "dist_sync", "DMLC_PS_VAN_TYPE": "p3", "MXNET_KVSTORE_SLICE_THRESHOLD": "9999",
           "FOLDER": str(tmp_path)}
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


def test_a_store_of_ones_own(tmp_path: Path) -> None:
    @kvstore.KVStoreBase.register
    class OwnStore(kvstore.TestStore):
        pass

    try:
        assert type(kvstore.create("ownstore")) is OwnStore
        check(lambda: kvstore.create("ownstore"), tmp_path)
        with pytest.raises(ValueError, match="did you mean 'ownstore'"):
            kvstore.create("ownstor")
    finally:
        del kvstore.KVStoreBase.registry.entries["ownstore"]
