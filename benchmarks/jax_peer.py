"""JAX on the CPU: one jitted train step with donated buffers, images channels last."""
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import timing
import workloads as W
from jax import lax


def wait(result):
    result.block_until_ready()


def _error(logits, labels):
    logs = jax.nn.log_softmax(logits)
    return -jnp.take_along_axis(logs, labels[..., None], -1).mean()


def _train(name, budget, params, aux, loss, data):
    def update(state, x, y):
        params, momentum, aux = state
        (error, aux), grads = jax.value_and_grad(loss, has_aux=True)(params, aux, x, y)
        momentum = jax.tree.map(lambda m, g: W.MOMENTUM * m - W.LR * g, momentum, grads)
        return (jax.tree.map(jnp.add, params, momentum), momentum, aux), error

    compiled = jax.jit(update, donate_argnums=0)
    state = [(params, jax.tree.map(jnp.zeros_like, params), aux)]
    data = itertools.cycle([(jnp.asarray(x), jnp.asarray(y)) for x, y in data])

    def step():
        x, y = next(data)
        state[0], error = compiled(state[0], x, y)
        return error

    timing.measure(name, step, wait, budget)


def mlp(size):
    def loss(values, aux, x, y):
        for place in range(0, len(values) - 2, 2):
            x = jax.nn.relu(x @ values[place].T + values[place + 1])
        return _error(x @ values[-2].T + values[-1], y), aux

    def run(mode, threads, budget):
        values = [jnp.asarray(v) for v in W.mlp_values()]
        _train(f"mlp_{size}", budget, values, None, loss, W.digits("flat", size))
    return run


def _conv(x, w, stride=1, pad="VALID"):
    return lax.conv_general_dilated(x, w, (stride, stride), pad,
                                    dimension_numbers=("NHWC", "HWIO", "NHWC"))


def _pool(x):
    return lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")


def _last(data):
    return [(np.ascontiguousarray(x.transpose(0, 2, 3, 1)), y) for x, y in data]


def lenet(size):
    def loss(v, aux, x, y):
        x = _pool(jnp.tanh(_conv(x, v[0]) + v[1]))
        x = _pool(jnp.tanh(_conv(x, v[2]) + v[3]))
        x = jnp.tanh(x.reshape(len(x), -1) @ v[4].T + v[5])
        return _error(x @ v[6].T + v[7], y), aux

    def run(mode, threads, budget):
        values = [jnp.asarray(v) for v in W.lenet_values()]
        for place in (0, 2):
            values[place] = values[place].transpose(2, 3, 1, 0)
        _train(f"lenet_{size}", budget, values, None, loss, _last(W.digits("nchw", size)))
    return run


def _uniform(random, shape, fan_in, fan_out):
    bound = np.sqrt(6.0 / (fan_in + fan_out))
    return jnp.asarray(random.uniform(-bound, bound, shape).astype(np.float32))


def _resnet():
    random = np.random.RandomState(W.SEED)

    def weight(size_in, size, kernel):
        taps = kernel * kernel
        return _uniform(random, (kernel, kernel, size_in, size), size_in * taps, size * taps)

    def norm(size):
        return jnp.ones(size), jnp.zeros(size)

    params, aux, size_in = {"stem": weight(3, 64, 3), "blocks": []}, [], 64
    for stage, size in enumerate(W.RESNET["stages"]):
        for number in range(2):
            unit = {"c1": weight(size_in, size, 3), "b1": norm(size),
                    "c2": weight(size, size, 3), "b2": norm(size)}
            state = {"b1": norm(size)[::-1], "b2": norm(size)[::-1]}
            if stage and not number:
                unit.update(cd=weight(size_in, size, 1), bd=norm(size))
                state.update(bd=norm(size)[::-1])
            params["blocks"].append(unit)
            aux.append(state)
            size_in = size
    params["out"] = _uniform(random, (512, 10), 512, 10), jnp.zeros(10)
    return params, aux


def _norm(x, scale, running, train):
    mean, var = running
    if train:
        mean, var = x.mean((0, 1, 2)), x.var((0, 1, 2))
        running = tuple(0.9 * old + 0.1 * lax.stop_gradient(new)
                        for old, new in zip(running, (mean, var), strict=True))
    factor = scale[0] * lax.rsqrt(var + 1e-5)
    return x * factor + (scale[1] - mean * factor), running


def _logits(params, aux, x, train):
    x, states, pad = _conv(x, params["stem"], 1, "SAME"), [], [(1, 1), (1, 1)]
    for unit, state in zip(params["blocks"], aux, strict=True):
        fresh, stride = {}, 2 if "cd" in unit else 1
        y, fresh["b1"] = _norm(_conv(x, unit["c1"], stride, pad), unit["b1"], state["b1"], train)
        y = _conv(jax.nn.relu(y), unit["c2"], 1, pad)
        y, fresh["b2"] = _norm(y, unit["b2"], state["b2"], train)
        if "cd" in unit:
            x, fresh["bd"] = _norm(_conv(x, unit["cd"], 2), unit["bd"], state["bd"], train)
        x = jax.nn.relu(x + y)
        states.append(fresh)
    return x.mean((1, 2)) @ params["out"][0] + params["out"][1], states


def resnet_train(mode, threads, budget):
    def loss(params, aux, x, y):
        logits, aux = _logits(params, aux, x, True)
        return _error(logits, y), aux

    params, aux = _resnet()
    _train("resnet_train", budget, params, aux, loss, _last(W.digits("rgb32", 64, 4)))


def resnet_infer(size):
    def run(mode, threads, budget):
        params, aux = _resnet()
        inputs = itertools.cycle([jnp.asarray(x) for x, _ in _last(W.digits("rgb32", size, 8))])
        compiled = jax.jit(lambda p, a, x: _logits(p, a, x, False)[0])
        timing.measure(f"resnet_infer_{size}", lambda: compiled(params, aux, next(inputs)), wait,
                       budget, wait_each=True)
    return run


def eager(mode, threads, budget):
    start, add = jnp.ones((4, 4)), jnp.full((4, 4), 1e-3)

    def chain(add=add):
        x = start
        for _ in range(1000):
            x = x + add
        return x

    timing.measure("op", chain, wait, budget, per=1000)
    timing.measure("op_recorded", lambda: jax.grad(lambda y: chain(y).sum())(add), wait, budget,
                   per=1000)


def sizes(mode, threads, budget):
    timing.sizes(jnp.ones, wait, budget)


def elementwise(mode, threads, budget):
    keys = jax.random.split(jax.random.key(0), 5)
    arrays = [jax.random.uniform(key, (W.ELEMENTS,), minval=-1.0) for key in keys]
    chain = jax.jit(lambda a, b, c, d, e: jax.nn.relu(a * b + c) * d - e)
    timing.measure("elementwise", lambda: chain(*arrays), wait, budget)


def gemm(mode, threads, budget):
    keys = jax.random.split(jax.random.key(0), 2)
    x, y = (jax.random.uniform(key, (W.GEMM, W.GEMM)) for key in keys)
    product = jax.jit(jnp.matmul)
    timing.measure("gemm", lambda: product(x, y), wait, budget)


def conv(mode, threads, budget):
    s, keys = W.CONV, jax.random.split(jax.random.key(0), 2)
    x = jax.random.uniform(keys[0], (s["n"], s["size"], s["size"], s["c"]))
    w = jax.random.uniform(keys[1], (s["kernel"], s["kernel"], s["c"], s["k"]))

    def both(x, w):
        out, back = jax.vjp(lambda x, w: _conv(x, w, 1, "SAME"), x, w)
        return back(jnp.ones_like(out))[0]

    compiled = jax.jit(both)
    timing.measure("conv", lambda: compiled(x, w), wait, budget)


timing.main({"mlp_64": mlp(64), "mlp_512": mlp(512), "mlp_1": mlp(1), "mlp_8": mlp(8),
             "lenet_64": lenet(64), "lenet_1": lenet(1), "lenet_8": lenet(8),
             "lenet_512": lenet(512), "resnet_train": resnet_train,
             "resnet_infer_1": resnet_infer(1), "resnet_infer_64": resnet_infer(64),
             "op": eager, "op_sizes": sizes, "elementwise": elementwise, "gemm": gemm,
             "conv": conv})
