// One step of a recurrent cell for some samples, forwards and backwards. Included once for each
// instruction set. What they compute: minigluon/ops/nn/recurrent.py.

#include "kernels/vec.inl"

using F = float;
using V = VecOf<F>;
constexpr int N = lanes<F>;

template <class Body>
MG_INLINE void each(int64_t n, Body&& body) {  // body(j, count) for whole vectors, then the rest
  int64_t j = 0;
  for (; j + N <= n; j += N) body(j, std::integral_constant<int, N>());
  if (j < n) body(j, static_cast<int>(n - j));
}
MG_INLINE V get(const F* p, std::integral_constant<int, N>) { return load<F>(p); }
MG_INLINE V get(const F* p, int n) { return load_part<F>(p, n); }
MG_INLINE void put(F* p, V v, std::integral_constant<int, N>) { store<F>(p, v); }
MG_INLINE void put(F* p, V v, int n) { store_part<F>(p, v, n); }

template <bool relu>
void plain_forward(const Cell& s) {
  for (int64_t r = 0; r < s.rows; ++r) {
    F* z = s.gates + r * s.gates_stride;  // it is the output
    F* h = s.h + r * s.size;
    each(s.size, [&](int64_t j, auto m) {
      const V sum = get(z + j, m);
      const V out = relu ? max_of<F>(sum, all<F>(0)) : tanh_of<F>(sum);
      put(z + j, out, m);
      put(h + j, out, m);
    });
  }
}

template <bool relu>
void plain_backward(const CellBack& s) {
  const V one = all<F>(1);
  for (int64_t r = 0; r < s.rows; ++r) {
    const F* y = s.y + r * s.y_stride;
    const F* dy = s.dy + r * s.dy_stride;
    const F* dh = s.dh + r * s.size;
    F* dz = s.dgates + r * s.size;
    each(s.size, [&](int64_t j, auto m) {
      const V out = get(y + j, m), grad = get(dh + j, m) + get(dy + j, m);
      put(dz + j, grad * (relu ? one_where<F>(out > F(0)) : one - out * out), m);
    });
  }
}

void lstm_forward(const Cell& s) {
  const int64_t size = s.size;
  for (int64_t r = 0; r < s.rows; ++r) {
    F* z = s.gates + r * s.gates_stride;
    const F* before = s.cells_before + r * size;
    F *cells = s.cells + r * size, *h = s.h + r * size, *y = s.y + r * s.y_stride;
    each(size, [&](int64_t j, auto m) {
      const V i = sigmoid_of<F>(get(z + j, m)), f = sigmoid_of<F>(get(z + size + j, m));
      const V n = tanh_of<F>(get(z + 2 * size + j, m));
      const V o = sigmoid_of<F>(get(z + 3 * size + j, m));
      const V c = f * get(before + j, m) + i * n;
      const V out = o * tanh_of<F>(c);
      put(z + j, i, m);
      put(z + size + j, f, m);
      put(z + 2 * size + j, n, m);
      put(z + 3 * size + j, o, m);
      put(cells + j, c, m);
      put(h + j, out, m);
      put(y + j, out, m);
    });
  }
}

void lstm_backward(const CellBack& s) {
  const int64_t size = s.size;
  const V one = all<F>(1);
  for (int64_t r = 0; r < s.rows; ++r) {
    const F* z = s.gates + r * 4 * size;
    const F *before = s.cells_before + r * size, *cells = s.cells + r * size;
    const F *dy = s.dy + r * s.dy_stride, *dh = s.dh + r * size;
    F *dc = s.dc + r * size, *dz = s.dgates + r * 4 * size;
    each(size, [&](int64_t j, auto m) {
      const V i = get(z + j, m), f = get(z + size + j, m), n = get(z + 2 * size + j, m),
              o = get(z + 3 * size + j, m);
      const V squashed = tanh_of<F>(get(cells + j, m));
      const V grad = get(dh + j, m) + get(dy + j, m);
      const V inside = get(dc + j, m) + grad * (o * (one - squashed * squashed));
      put(dz + j, inside * (n * i * (one - i)), m);
      put(dz + size + j, inside * (get(before + j, m) * f * (one - f)), m);
      put(dz + 2 * size + j, inside * (i * (one - n * n)), m);
      put(dz + 3 * size + j, grad * (squashed * o * (one - o)), m);
      put(dc + j, inside * f, m);
    });
  }
}

void gru_forward(const Cell& s) {
  const int64_t size = s.size;
  for (int64_t r = 0; r < s.rows; ++r) {
    F* x = s.gates + r * s.gates_stride;
    const F* outer = s.outer + r * 3 * size;
    F *inner = s.inner + r * size, *h = s.h + r * size, *y = s.y + r * s.y_stride;
    each(size, [&](int64_t j, auto m) {
      const V reset = sigmoid_of<F>(get(x + j, m) + get(outer + j, m));
      const V z = sigmoid_of<F>(get(x + size + j, m) + get(outer + size + j, m));
      const V inside = get(outer + 2 * size + j, m) + get(s.outer_bias + j, m);
      const V n = tanh_of<F>(get(x + 2 * size + j, m) + inside * reset);
      const V out = (get(h + j, m) - n) * z + n;
      put(x + j, reset, m);
      put(x + size + j, z, m);
      put(x + 2 * size + j, n, m);
      put(inner + j, inside, m);
      put(h + j, out, m);
      put(y + j, out, m);
    });
  }
}

void gru_backward(const CellBack& s) {
  const int64_t size = s.size;
  const V one = all<F>(1);
  for (int64_t r = 0; r < s.rows; ++r) {
    const F* gates = s.gates + r * 3 * size;
    const F *inner = s.inner + r * size, *before = s.y + r * s.y_stride;
    const F* dy = s.dy + r * s.dy_stride;
    F* dh = s.dh + r * size;
    F *dx = s.dgates + r * 3 * size, *dout = s.douter + r * 3 * size;
    each(size, [&](int64_t j, auto m) {
      const V reset = get(gates + j, m), z = get(gates + size + j, m),
              n = get(gates + 2 * size + j, m);
      const V grad = get(dh + j, m) + get(dy + j, m);
      const V candidate = grad * ((one - z) * (one - n * n));
      const V for_reset = candidate * get(inner + j, m) * (reset * (one - reset));
      const V for_z = grad * ((get(before + j, m) - n) * (z * (one - z)));
      put(dx + j, for_reset, m);
      put(dx + size + j, for_z, m);
      put(dx + 2 * size + j, candidate, m);
      put(dout + j, for_reset, m);
      put(dout + size + j, for_z, m);
      put(dout + 2 * size + j, candidate * reset, m);
      put(dh + j, grad * z, m);
    });
  }
}

void times(const F* a, const F* b, F* out, int64_t count) {
  each(count, [&](int64_t j, auto m) { put(out + j, get(a + j, m) * get(b + j, m), m); });
}

void plus(const F* a, const F* b, F* out, int64_t count) {
  each(count, [&](int64_t j, auto m) { put(out + j, get(a + j, m) + get(b + j, m), m); });
}

void sum_rows(const F* a, int64_t rows, int64_t stride, F* out, int64_t begin, int64_t end) {
  constexpr int64_t stretch = 64;  // so many rows by themselves: long sums keep their digits
  each(end - begin, [&](int64_t j, auto m) {
    V total = {};
    for (int64_t top = 0; top < rows; top += stretch) {
      V part = {};
      for (int64_t r = top; r < std::min(top + stretch, rows); ++r)
        part += get(a + r * stride + begin + j, m);
      total += part;
    }
    put(out + begin + j, total, m);
  });
}

Passes passes(Mode mode) {
  Passes found = {nullptr, nullptr, times, plus, sum_rows};
  switch (mode) {
    case Mode::relu: found.forward = plain_forward<true>, found.backward = plain_backward<true>; break;
    case Mode::tanh: found.forward = plain_forward<false>, found.backward = plain_backward<false>; break;
    case Mode::lstm: found.forward = lstm_forward, found.backward = lstm_backward; break;
    case Mode::gru: found.forward = gru_forward, found.backward = gru_backward; break;
  }
  return found;
}
