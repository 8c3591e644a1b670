// The loops of conv_columns.cpp, for one instruction set. Included several times: no include guard.
#include "kernels/panels.inl"

namespace columns {

using P = Panels<float>;
constexpr int N = P::N;

// act(norm(sums) + addend), or the sums are only added up.
struct End {
  const ConvEpilogue& after;
  bool more, last;
  int64_t first;         // filter of row 0
  const float* scale;    // of row 0; its shift `filters` further
  int64_t filters;
  const float* addend;   // what is added at C's first element of this tile
  const float* c;
  int64_t c_row;

  MG_INLINE VecOf<float> operator()(VecOf<float> value, const float* at, int row, int,
                                    int count) const {
    if (more) value += P::get(at, count);
    if (!last) return value;
    if (scale) value = value * all<float>(scale[row]) + all<float>(scale[filters + row]);
    if (addend) value += P::get(addend + (at - c), count);
    return after.relu ? relu_of<float>(value) : value;
  }
};

template <int NV>
void filters_of(const Work& w, const float* columns, int64_t k0, int64_t k, int64_t begin,
                int64_t end, int64_t place, int64_t count) {
  const int last = static_cast<int>(count - (NV - 1) * N);
  const int64_t positions = w.geometry.positions(), taps = w.geometry.taps();
  constexpr int most = NV * 2 <= P::kVectors ? 2 * P::kRows : P::kRows;
  for (int64_t f = begin; f < end;) {
    const float* a = w.weight + f * taps + k0;
    float* c = w.out + f * positions + place;
    const End finish = {w.after, k0 > 0, k0 + k == taps, f, w.scale ? w.scale + f : nullptr,
                        w.geometry.filters, w.addend ? w.addend + (c - w.out) : nullptr, c,
                        positions};
    if (end - f >= most) {
      P::tile<most, NV>(a, taps, 1, columns, c, positions, k, finish, last);
      f += most;
    } else {
      const int64_t rows = std::min<int64_t>(P::kRows, end - f);
      P::rows_of<NV>(rows, a, taps, 1, columns, c, positions, k, finish, last);
      f += rows;
    }
  }
}

// Filters [begin, end) at `count` positions from `place` on; `columns` holds the numbers that the
// weights [k0, k0 + k) of a filter are multiplied with.
void filters(const Work& w, const float* columns, int64_t k0, int64_t k, int64_t begin,
             int64_t end, int64_t place, int64_t count) {
  const int64_t vectors = (count + N - 1) / N;
  if (vectors == 1) filters_of<1>(w, columns, k0, k, begin, end, place, count);
  else if (vectors == 2) filters_of<2>(w, columns, k0, k, begin, end, place, count);
  else if constexpr (P::wide) {
    if (vectors == 3) filters_of<3>(w, columns, k0, k, begin, end, place, count);
    else filters_of<4>(w, columns, k0, k, begin, end, place, count);
  }
}

struct Run {  // positions that lie together in a row of the image
  int64_t from, to, length;
};

// Runs of at most Q vectors each; 0: of any length, and with any step from one number to the next.
template <int Q>
MG_INLINE void copy_runs(const float* from, const Run* runs, int64_t count, int64_t step,
                         float* to) {
  for (int64_t r = 0; r < count; ++r) {
    const float* source = from + runs[r].from;
    float* target = to + runs[r].to;
    if constexpr (Q > 0) {
#pragma GCC unroll 4
      for (int j = 0; j < Q; ++j) store<float>(target + j * N, load<float>(source + j * N));
    } else if (step == 1) {
      for (int64_t j = 0; j < runs[r].length; j += N) {
        store<float>(target + j, load<float>(source + j));
      }
    } else if (step == 2) {
      for (int64_t j = 0; j < runs[r].length; ++j) target[j] = source[2 * j];
    } else {
      for (int64_t j = 0; j < runs[r].length; ++j) target[j] = source[j * step];
    }
  }
}

template <int Q>
void gather_runs(const Work& w, const Run* runs, int64_t parts, int64_t k0, int64_t k,
                 int64_t count, float* to) {
  const ConvGeometry& g = w.geometry;
  const int64_t width = (count + N - 1) / N * N;
  int64_t c = k0 / (g.kh * g.kw), y = k0 / g.kw % g.kh, x = k0 % g.kw;
  for (int64_t i = 0; i < k; ++i, to += width) {
    const float* from = w.planes + c * g.plane() + y * g.dilate_y * g.wide() + x * g.dilate_x;
    copy_runs<Q>(from, runs, parts, g.step_x, to);
    for (int64_t j = count; j < width; ++j) to[j] = 0.0f;
    if (++x == g.kw) {
      x = 0;
      if (++y == g.kh) {
        y = 0;
        ++c;
      }
    }
  }
}

// The columns of weights [k0, k0 + k) at `count` positions from `place` on. Whole vectors are
// copied: what is too much is written over by what follows, or lies in the kSlack numbers behind.
void gather(const Work& w, int64_t k0, int64_t k, int64_t place, int64_t count, float* to) {
  const ConvGeometry& g = w.geometry;
  Run runs[P::kWidth];
  int64_t parts = 0, least = P::kVectors, most = 0;  // vectors of a run
  for (int64_t p = place; p < place + count;) {
    const int64_t y = p / g.out_w, x = p % g.out_w;
    const int64_t length = std::min(place + count - p, g.out_w - x);
    const int64_t from = y * g.step_y * g.wide() + x * g.step_x;
    Run* before = parts > 0 ? &runs[parts - 1] : nullptr;
    if (before && g.step_x == 1 && from == before->from + before->length) before->length += length;
    else runs[parts++] = {from, p - place, length};
    p += length;
  }
  for (int64_t r = 0; r < parts; ++r) {
    const int64_t vectors = (runs[r].length + N - 1) / N;
    least = std::min(least, vectors);
    most = std::max(most, vectors);
  }
  if (g.step_x == 1 && most == 1) gather_runs<1>(w, runs, parts, k0, k, count, to);
  else if (g.step_x == 1 && least == 2 && most == 2) {
    gather_runs<2>(w, runs, parts, k0, k, count, to);
  } else {
    gather_runs<0>(w, runs, parts, k0, k, count, to);
  }
}

int64_t width() { return P::kWidth; }
int64_t vector() { return N; }

}  // namespace columns
