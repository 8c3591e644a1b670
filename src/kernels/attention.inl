// Products of small matrices that stay in the cache, and attention made of them. Included once for
// each instruction set.

#include "kernels/softmax.inl"
#include "kernels/exchange.inl"

template <class T>
struct Attend {
  using V = VecOf<T>;
  using S = Softmax<T>;
  static constexpr int N = lanes<T>;
  static constexpr int kRows = 6, kColumns = MG_WIDTH == 64 ? 4 : 2;  // as registers allow
  static constexpr int64_t kDepth = 128;  // rows of b at a time: they stay in the first cache

  static int64_t padded(int64_t n) { return (n + N - 1) / N * N; }

  // A matrix by its element (0, 0) and the distance of rows and of columns.
  struct Left {
    const T* p;
    int64_t row, column;
    const T* at(int64_t i, int64_t k) const { return p + i * row + k * column; }
  };

  // R x (C vectors) of c = a b, or added to c; `width` columns of them exist.
  template <int R, int C>
  static MG_INLINE void block(int64_t depth, const Left& a, const T* b, int64_t ldb, T* c,
                              int64_t ldc, bool add, int64_t width) {
    V sum[R][C] = {};
    for (int64_t k = 0; k < depth; ++k) {
      V row[C];
#pragma GCC unroll 4
      for (int j = 0; j < C; ++j) row[j] = load<T>(b + k * ldb + j * N);
#pragma GCC unroll 6
      for (int i = 0; i < R; ++i) {
        const V x = all<T>(*a.at(i, k));
#pragma GCC unroll 4
        for (int j = 0; j < C; ++j) sum[i][j] += x * row[j];
      }
    }
#pragma GCC unroll 6
    for (int i = 0; i < R; ++i)
#pragma GCC unroll 4
      for (int j = 0; j < C; ++j) {
        T* to = c + i * ldc + j * N;
        const int64_t left = width - j * N;
        if (left >= N) store<T>(to, add ? load<T>(to) + sum[i][j] : sum[i][j]);
        else if (left > 0)
          store_part<T>(to, add ? load_part<T>(to, left) + sum[i][j] : sum[i][j], left);
      }
  }

  template <int C>
  static void panel(int64_t m, int64_t depth, const Left& a, const T* b, int64_t ldb, T* c,
                    int64_t ldc, bool add, int64_t width) {
    int64_t i = 0;
    for (; i + kRows <= m; i += kRows)
      block<kRows, C>(depth, {a.at(i, 0), a.row, a.column}, b, ldb, c + i * ldc, ldc, add, width);
    for (; i + 2 <= m; i += 2)
      block<2, C>(depth, {a.at(i, 0), a.row, a.column}, b, ldb, c + i * ldc, ldc, add, width);
    if (i < m)
      block<1, C>(depth, {a.at(i, 0), a.row, a.column}, b, ldb, c + i * ldc, ldc, add, width);
  }

  // c (m, n) = a (m, k) b (k, n); b is packed: its rows are padded to whole vectors.
  static void product(int64_t m, int64_t n, int64_t k, const Left& a, const T* b, T* c,
                      int64_t ldc) {
    const int64_t ldb = padded(n);
    for (int64_t from = 0; from < k; from += kDepth) {
      const int64_t depth = std::min(kDepth, k - from);
      const Left part = {a.at(0, from), a.row, a.column};
      const T* rows = b + from * ldb;
      int64_t j = 0;
      for (; j + kColumns * N <= ldb; j += kColumns * N)
        panel<kColumns>(m, depth, part, rows + j, ldb, c + j, ldc, from > 0, n - j);
      if (kColumns > 2 && j + 2 * N <= ldb) {
        panel<2>(m, depth, part, rows + j, ldb, c + j, ldc, from > 0, n - j);
        j += 2 * N;
      }
      for (; j < ldb; j += N)
        panel<1>(m, depth, part, rows + j, ldb, c + j, ldc, from > 0, n - j);
    }
  }

  // -- packing: `rows` x `columns` at `from`, times a number; rows padded with zeros ---------------

  static void pack(const T* from, int64_t distance, int64_t rows, int64_t columns, T scale, T* to) {
    const int64_t ld = padded(columns);
    const V by = all<T>(scale);
    for (int64_t i = 0; i < rows; ++i) {
      const T* p = from + i * distance;
      T* q = to + i * ld;
      int64_t j = 0;
      for (; j + N <= columns; j += N) store<T>(q + j, load<T>(p + j) * by);
      if (j < columns) store<T>(q + j, load_part<T>(p + j, columns - j) * by);
    }
  }

  // The same turned: (columns, rows), padded.
  static void pack_turned(const T* from, int64_t distance, int64_t rows, int64_t columns, T scale,
                          T* to) {
    const int64_t ld = padded(rows);
    const V by = all<T>(scale);
    for (int64_t i = 0; i < rows; i += N)
      for (int64_t j = 0; j < columns; j += N) {
        const int64_t m = std::min<int64_t>(N, rows - i), n = std::min<int64_t>(N, columns - j);
        V v[N];
#pragma GCC unroll 16
        for (int r = 0; r < N; ++r) {
          const T* p = from + (i + r) * distance + j;
          v[r] = r >= m ? V{} : n == N ? load<T>(p) * by : load_part<T>(p, n) * by;
        }
        exchange<T>(v);
#pragma GCC unroll 16
        for (int r = 0; r < N; ++r)
          if (r < n) store<T>(to + (j + r) * ld + i, v[r]);
      }
  }

  // -- what is done for one head -------------------------------------------------------------------

  static T* place(void* array, const Part& part, int64_t head) {
    return static_cast<T*>(array) + part.start + head * part.step;
  }
  static const T* place(const void* array, const Part& part, int64_t head) {
    return static_cast<const T*>(array) + part.start + head * part.step;
  }
  static void clear(void* array, const Part& part, int64_t head, int64_t rows, int64_t depth) {
    for (int64_t i = 0; i < rows; ++i)
      std::memset(place(array, part, head) + i * part.row, 0, static_cast<size_t>(depth) * sizeof(T));
  }

  // scores (queries, keys) = q k^T
  static void scores(const Attention& s, const void* q, const void* k, T* to, int64_t head,
                     T* packed) {
    pack_turned(place(k, s.k, head), s.k.row, s.keys, s.depth, static_cast<T>(s.scale), packed);
    product(s.queries, s.keys, s.depth, {place(q, s.q, head), s.q.row, 1}, packed, to, s.keys);
  }
  // out = w v
  static void weighted(const Attention& s, const T* w, const void* v, void* out, int64_t head,
                       T* packed) {
    pack(place(v, s.v, head), s.v.row, s.keys, s.depth, 1, packed);
    product(s.queries, s.depth, s.keys, {w, s.keys, 1}, packed, place(out, s.out, head), s.out.row);
  }
  // dw = dy v^T
  static void to_weights(const Attention& s, const void* dy, const void* v, T* dw, int64_t head,
                         T* packed) {
    pack_turned(place(v, s.v, head), s.v.row, s.keys, s.depth, 1, packed);
    product(s.queries, s.keys, s.depth, {place(dy, s.out, head), s.out.row, 1}, packed, dw, s.keys);
  }
  // dv = w^T dy
  static void to_values(const Attention& s, const T* w, const void* dy, void* dv, int64_t head,
                        T* packed) {
    pack(place(dy, s.out, head), s.out.row, s.queries, s.depth, 1, packed);
    product(s.keys, s.depth, s.queries, {w, 1, s.keys}, packed, place(dv, s.v, head), s.v.row);
  }
  // dq = ds k, dk = ds^T q
  static void to_both(const Attention& s, const T* ds, const void* q, const void* k, void* dq,
                      void* dk, int64_t head, T* packed) {
    const T scale = static_cast<T>(s.scale);
    pack(place(k, s.k, head), s.k.row, s.keys, s.depth, scale, packed);
    product(s.queries, s.depth, s.keys, {ds, s.keys, 1}, packed, place(dq, s.q, head), s.q.row);
    pack(place(q, s.q, head), s.q.row, s.queries, s.depth, scale, packed);
    product(s.keys, s.depth, s.queries, {ds, 1, s.keys}, packed, place(dk, s.k, head), s.k.row);
  }

  static void run(AttentionCall call, const Attention& s, const void* const* in, void* const* out,
                  void* scratch, int64_t begin, int64_t end) {
    T* packed = static_cast<T*>(scratch);
    T* square = packed + pack_size(s);
    const int64_t size = s.queries * s.keys;
    const Rows rows = {s.queries, s.keys, 1};
    for (int64_t h = begin; h < end; ++h) {
      switch (call) {
        case AttentionCall::scores:
          scores(s, in[0], in[s.cross ? 1 : 0], static_cast<T*>(out[0]) + h * size, h, packed);
          break;
        case AttentionCall::weighted:
          weighted(s, static_cast<const T*>(in[1]) + h * size, in[0], out[0], h, packed);
          break;
        case AttentionCall::scores_grad: {
          void* dk = out[s.cross ? 1 : 0];
          to_both(s, static_cast<const T*>(in[0]) + h * size, in[1], in[s.cross ? 2 : 1], out[0],
                  dk, h, packed);
          clear(dk, s.v, h, s.keys, s.depth);
          break;
        }
        case AttentionCall::weighted_grad:
          to_weights(s, in[0], in[1], static_cast<T*>(out[1]) + h * size, h, packed);
          to_values(s, static_cast<const T*>(in[2]) + h * size, in[0], out[0], h, packed);
          clear(out[0], s.k, h, s.keys, s.depth);
          if (!s.cross) clear(out[0], s.q, h, s.queries, s.depth);
          break;
        case AttentionCall::whole: {
          T* w = static_cast<T*>(out[1]) + h * size;
          scores(s, in[0], in[0], w, h, packed);
          const void* from[] = {w};
          void* to[] = {w};
          S::template forward<false>(rows, from, to, 0, s.queries);
          weighted(s, w, in[0], out[0], h, packed);
          break;
        }
        case AttentionCall::whole_grad: {
          const T* w = static_cast<const T*>(in[2]) + h * size;
          to_weights(s, in[0], in[1], square, h, packed);
          to_values(s, w, in[0], out[0], h, packed);
          const void* from[] = {square, w};
          void* to[] = {square};
          S::template backward<false>(rows, from, to, 0, s.queries);
          to_both(s, square, in[1], in[1], out[0], out[0], h, packed);
          break;
        }
      }
    }
  }

  // Elements of the largest packed matrix.
  static int64_t pack_size(const Attention& s) {
    return std::max({s.depth * padded(s.keys), s.depth * padded(s.queries),
                     padded(s.depth) * std::max(s.keys, s.queries)});
  }
};

template <class T>
AttentionPasses attention_passes() {
  return {Attend<T>::run, Attend<T>::pack_size};
}
