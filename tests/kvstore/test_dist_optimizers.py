"""dist_sync with each optimizer is what one process does with the samples of all workers."""
import json
from pathlib import Path

import pytest
from dist_jobs import Job

from minigluon.optimizer import Optimizer

SCRIPT = (Path(__file__).parents[1] / "jobs" / "optimizers_job.py").read_text()
DIVIDE = {"adam", "adamax", "nadam", "rmsprop", "rmsprop centered", "adagrad", "adadelta", "ftml",
          "groupadagrad", "lamb", "signum", "ftrl"}
"""Rules that divide by the gradient's size or take its sign: they make a whole step of what is only
rounding where a gradient is nearly 0. The sums of a whole batch and of its parts differ in the last
bit, so their float32 results are compared with training that adds up the same parts."""


@pytest.fixture(scope="module")
def found():
    env = {"MXNET_KVSTORE_BIGARRAY_BOUND": "100"}  # the first layer is cut over the servers
    with Job(SCRIPT, workers=2, servers=2, env=env) as job:
        job.succeed(120)
        lines = [json.loads(line) for line in job.text("worker 0").splitlines()
                 if line.startswith("{")]
    return {(line["case"], line["dtype"]): line for line in lines}


def test_each_optimizer_is_there(found):
    assert {case.split()[0] for case, _ in found} == set(
        Optimizer.opt_registry) - {"sgld", "ccsgd"}  # ccsgd is sgd by its older name
    assert all(line["largest"] > 0.01 for line in found.values())


def test_workers_equal_devices_to_the_bit(found):
    assert {key: line["devices"] for key, line in found.items() if line["devices"] != 0} == {}


def test_workers_equal_the_union_of_their_samples(found):
    for (case, dtype), line in found.items():
        if dtype == "float64" or case not in DIVIDE:
            assert line["union"] < 1e-5, line
