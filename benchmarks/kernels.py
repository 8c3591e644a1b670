"""Single eager operators at three sizes, minigluon (or MXNet) beside PyTorch: ``--bench kernels``.

Each case names itself, the shapes of its arrays for a matrix of (r, c) elements, and the call in
the words of either framework. A measurement is short (some 60 ms): there are many.
"""
import statistics
import time

import numpy as np
import timing

SIZES = {"1e3": (25, 40), "1e5": (250, 400), "1e7": (2500, 4000)}
BLOCKS, BLOCK_SECONDS = 9, 0.005


def _matrix(r, c):
    return [(r, c)]


def _two(r, c):
    return [(r, c), (r, c)]


def _row(r, c):
    return [(r, c), (1, c)]


def _column(r, c):
    return [(r, c), (r, 1)]


def _images(r, c):
    return [(r // 5, 5, c // 4, 4)]


def _heads(r, c):
    return [(5, r // 5, 4, c // 4)]


def _picked(r, c):  # a table, and numbers of its rows
    return [(r, c), ("index", r, r)]


def _words(r, c):  # a table of narrow rows
    return [(r * c // 100, 100), ("index", r * c // 100, r * c // 100)]


# name -> (shapes, with the functions of nd, with those of torch)
CASES = {
    "sum": (_matrix, lambda nd, x: nd.sum(x), lambda t, x: t.sum(x)),
    "sum rows": (_matrix, lambda nd, x: nd.sum(x, axis=1), lambda t, x: t.sum(x, 1)),
    "sum columns": (_matrix, lambda nd, x: nd.sum(x, axis=0), lambda t, x: t.sum(x, 0)),
    "sum (0, 2, 3)": (_images, lambda nd, x: nd.sum(x, axis=(0, 2, 3)),
                      lambda t, x: t.sum(x, (0, 2, 3))),
    "sum (1, 3)": (_images, lambda nd, x: nd.sum(x, axis=(1, 3)), lambda t, x: t.sum(x, (1, 3))),
    "mean": (_matrix, lambda nd, x: nd.mean(x), lambda t, x: t.mean(x)),
    "mean rows": (_matrix, lambda nd, x: nd.mean(x, axis=1), lambda t, x: t.mean(x, 1)),
    "max": (_matrix, lambda nd, x: nd.max(x), lambda t, x: t.max(x)),
    "max rows": (_matrix, lambda nd, x: nd.max(x, axis=1), lambda t, x: t.amax(x, 1)),
    "max columns": (_matrix, lambda nd, x: nd.max(x, axis=0), lambda t, x: t.amax(x, 0)),
    "norm": (_matrix, lambda nd, x: nd.norm(x), lambda t, x: t.linalg.vector_norm(x)),
    "norm rows": (_matrix, lambda nd, x: nd.norm(x, axis=1),
                  lambda t, x: t.linalg.vector_norm(x, dim=1)),
    "softmax": (_matrix, lambda nd, x: nd.softmax(x), lambda t, x: t.softmax(x, -1)),
    "softmax columns": (_matrix, lambda nd, x: nd.softmax(x, axis=0),
                        lambda t, x: t.softmax(x, 0)),
    "log_softmax": (_matrix, lambda nd, x: nd.log_softmax(x), lambda t, x: t.log_softmax(x, -1)),
    "transpose": (_matrix, lambda nd, x: nd.transpose(x), lambda t, x: x.t().contiguous()),
    "transpose (0, 2, 1, 3)": (_heads, lambda nd, x: nd.transpose(x, axes=(0, 2, 1, 3)),
                               lambda t, x: x.permute(0, 2, 1, 3).contiguous()),
    "transpose (0, 2, 3, 1)": (_images, lambda nd, x: nd.transpose(x, axes=(0, 2, 3, 1)),
                               lambda t, x: x.permute(0, 2, 3, 1).contiguous()),
    "add": (_two, lambda nd, x, y: x + y, lambda t, x, y: x + y),
    "add row": (_row, lambda nd, x, y: nd.broadcast_add(x, y), lambda t, x, y: x + y),
    "mul column": (_column, lambda nd, x, y: nd.broadcast_mul(x, y), lambda t, x, y: x * y),
    "exp": (_matrix, lambda nd, x: nd.exp(x), lambda t, x: t.exp(x)),
    "tanh": (_matrix, lambda nd, x: nd.tanh(x), lambda t, x: t.tanh(x)),
    "clip": (_matrix, lambda nd, x: nd.clip(x, -0.5, 0.5), lambda t, x: t.clamp(x, -0.5, 0.5)),
    "concat rows": (_two, lambda nd, x, y: nd.concat(x, y, dim=0),
                    lambda t, x, y: t.cat((x, y), 0)),
    "concat columns": (_two, lambda nd, x, y: nd.concat(x, y, dim=1),
                       lambda t, x, y: t.cat((x, y), 1)),
    "split columns": (_matrix, lambda nd, x: nd.split(x, num_outputs=4, axis=1),
                      lambda t, x: [p.contiguous() for p in t.chunk(x, 4, 1)]),
    "slice": (_matrix, lambda nd, x: nd.slice(x, begin=(1, 2), end=(-1, -3)),
              lambda t, x: x[1:-1, 2:-3].contiguous()),
    "slice step 2": (_matrix, lambda nd, x: nd.slice(x, begin=(0, 0), end=x.shape, step=(2, 2)),
                     lambda t, x: x[::2, ::2].contiguous()),
    "take": (_picked, lambda nd, x, i: nd.take(x, i), lambda t, x, i: t.index_select(x, 0, i)),
    "where": (_two, lambda nd, x, y: nd.where(x > 0, x, y), lambda t, x, y: t.where(x > 0, x, y)),
    "one_hot": (_picked, lambda nd, x, i: nd.one_hot(i, depth=x.shape[1]),
                lambda t, x, i: t.nn.functional.one_hot(i % x.shape[1], x.shape[1]).float()),
    "embedding": (_words, lambda nd, x, i: nd.Embedding(i, x, input_dim=x.shape[0],
                                                        output_dim=x.shape[1]),
                  lambda t, x, i: t.nn.functional.embedding(i, x)),
}


def _arrays(shapes):
    random = np.random.RandomState(0)
    return [random.randint(0, shape[1], shape[2]) if shape[0] == "index"
            else random.uniform(-1, 1, shape).astype(np.float32) for shape in shapes]


def _measure(name, step, wait):
    wait(step())
    began, count = time.perf_counter(), 0
    while count < 2 or time.perf_counter() - began < BLOCK_SECONDS:
        result = step()
        count += 1
    wait(result)
    steps = max(1, int(BLOCK_SECONDS * count / (time.perf_counter() - began)))
    times = []
    for _ in range(BLOCKS):
        began = time.perf_counter()
        for _ in range(steps):
            result = step()
        wait(result)
        times.append((time.perf_counter() - began) / steps)
    timing.report(name, ms=statistics.median(times) * 1e3, best_ms=min(times) * 1e3)


def gluon(mx, wait):
    """All cases with the functions of `mx.nd`."""
    nd, autograd = mx.nd, mx.autograd
    for size, (r, c) in SIZES.items():
        for name, (shapes, call, _) in CASES.items():
            arrays = [nd.array(a, dtype="int32" if a.dtype.kind == "i" else "float32")
                      for a in _arrays(shapes(r, c))]
            _measure(f"{name} {size}", lambda call=call, arrays=arrays: call(nd, *arrays), wait)
        table, words = (nd.array(a, dtype="int32" if a.dtype.kind == "i" else "float32")
                        for a in _arrays(_words(r, c)))
        table.attach_grad()

        def back(table=table, words=words):
            with autograd.record():
                out = nd.Embedding(words, table, input_dim=table.shape[0],
                                   output_dim=table.shape[1])
            out.backward()
            return table.grad

        _measure(f"embedding and back {size}", back, wait)


def torch(torch, wait):
    """The same with those of `torch`."""
    for size, (r, c) in SIZES.items():
        for name, (shapes, _, call) in CASES.items():
            arrays = [torch.from_numpy(a) for a in _arrays(shapes(r, c))]
            _measure(f"{name} {size}", lambda call=call, arrays=arrays: call(torch, *arrays), wait)
        table, words = (torch.from_numpy(a) for a in _arrays(_words(r, c)))
        table.requires_grad_()
        ones = torch.ones(words.shape[0], table.shape[1])

        def back(table=table, words=words, ones=ones):
            table.grad = None
            torch.nn.functional.embedding(words, table).backward(ones)
            return table.grad

        _measure(f"embedding and back {size}", back, wait)
