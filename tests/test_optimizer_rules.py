"""Every update rule follows MXNet 1.9.1 over twelve updates (figures in tests/oracle)."""
import importlib.util
import json
import pickle
from pathlib import Path

import numpy as np
import pytest

import minigluon as mx
from minigluon import nd
from minigluon import optimizer as opt

ORACLE = Path(__file__).parent / "oracle"
spec = importlib.util.spec_from_file_location("oracle_optimizers", ORACLE / "optimizers.py")
rules = importlib.util.module_from_spec(spec)
spec.loader.exec_module(rules)
FIGURES = json.loads((ORACLE / "optimizers.json").read_text())


@pytest.mark.parametrize("case", rules.CASES)
def test_follows_mxnet(case):
    np.testing.assert_allclose(rules.weights(mx, case), FIGURES[case], rtol=2e-6, atol=2e-6)


NAMES = sorted(set(opt.Optimizer.opt_registry) - {"sgld"})


@pytest.mark.parametrize("name", NAMES)
def test_states_survive_a_save_and_the_run_goes_on_alike(name):
    random = np.random.RandomState(0)
    grads = [nd.array(random.normal(size=(3, 4))) for _ in range(6)]
    start = nd.array(random.normal(size=(3, 4)))

    def run(stop):
        weight = start.copy()
        updater = opt.get_updater(opt.create(name))
        for i, grad in enumerate(grads):
            if i == stop:
                saved = updater.get_states(dump_optimizer=True)
                updater = opt.get_updater(opt.create(name))
                updater.set_states(saved)
            updater(0, grad, weight)
        return weight.asnumpy()

    np.testing.assert_array_equal(run(stop=3), run(stop=None))


@pytest.mark.parametrize("name", NAMES)
def test_half_precision_keeps_a_float32_copy(name):
    weight = nd.ones((3, 4), dtype="float16")
    updater = opt.get_updater(opt.create(name, multi_precision=True, learning_rate=1e-4))
    for _ in range(3):
        updater(0, nd.ones((3, 4), dtype="float16"), weight)
    assert weight.dtype is np.float16 and np.isfinite(weight.asnumpy()).all()


@pytest.mark.parametrize("name", sorted(opt.Optimizer.opt_registry))
def test_travels_as_name_and_settings(name):
    made = opt.create(name, learning_rate=0.25)
    again = opt.from_wire(*json.loads(json.dumps(made.wire())))
    assert type(again) is type(made) and again.learning_rate == 0.25
    assert type(pickle.loads(pickle.dumps(made))) is type(made)


def test_sgld_repeats_with_the_seed_and_its_noise_has_the_right_size():
    def run():
        mx.random.seed(4)
        weight = nd.zeros((100, 100))
        opt.get_updater(opt.create("sgld", learning_rate=0.04))(0, nd.zeros((100, 100)), weight)
        return weight.asnumpy()

    first = run()
    np.testing.assert_array_equal(first, run())
    assert abs(first.std() - 0.2) < 0.01


def test_bad_settings():
    with pytest.raises(ValueError, match="warmup_strategy"):
        opt.create("lbsgd", warmup_strategy="cubic")
    group = opt.get_updater(opt.create("groupadagrad"))
    with pytest.raises(ValueError, match="matrix"):
        group(0, nd.ones((3,)), nd.ones((3,)))
    with pytest.raises(ValueError, match="weight decay"):
        opt.get_updater(opt.create("groupadagrad", wd=0.1))(0, nd.ones((3, 2)), nd.ones((3, 2)))


def test_adamax_leaves_elements_alone_that_never_had_a_gradient():
    weight = nd.ones((2,))
    opt.get_updater(opt.create("adamax"))(0, nd.array([0.0, 1.0]), weight)
    assert weight.asnumpy()[0] == 1 and weight.asnumpy()[1] < 1


def test_an_unknown_setting_is_named():
    with pytest.raises(TypeError, match="Adam: unknown argument 'bata1'; did you mean 'beta1'"):
        opt.create("adam", bata1=0.9)
    with pytest.raises(TypeError, match="did you mean 'learning_rate'"):
        opt.create("sgd", learningrate=0.9)
