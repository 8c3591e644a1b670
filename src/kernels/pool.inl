// The loops of pool.cpp, for one instruction set. Included several times: no include guard.

namespace pooling {

typedef float Lane __attribute__((vector_size(MG_WIDTH)));
typedef int32_t Mask __attribute__((vector_size(MG_WIDTH)));
typedef float LooseLane __attribute__((vector_size(MG_WIDTH), aligned(4), may_alias));
constexpr int kLanes = MG_WIDTH / 4;

MG_INLINE Lane get(const float* p) { return *reinterpret_cast<const LooseLane*>(p); }
MG_INLINE void put(float* p, Lane v) { *reinterpret_cast<LooseLane*>(p) = v; }
MG_INLINE float larger(float a, float b) { return (b > a) | (b != b) ? b : a; }
MG_INLINE Lane larger(Lane a, Lane b) { return (b > a) | (b != b) ? b : a; }

// A vector, or one number, of the window's elements reduced.
template <class T, class Read>
MG_INLINE T reduce(const Window& w, const Cut& cut, const float* image, float divisor, Read read) {
  if (w.kind == Kind::max) {
    T best = T{} - (cut.padded ? std::numeric_limits<float>::max()
                               : std::numeric_limits<float>::infinity());
    for (int64_t y = cut.y0; y < cut.y1; ++y) {
      for (int64_t x = cut.x0; x < cut.x1; ++x) {
        best = larger(best, read(image + (y * w.width + x) * w.inner));
      }
    }
    return best;
  }
  T sum = T{};
  for (int64_t y = cut.y0; y < cut.y1; ++y) {
    for (int64_t x = cut.x0; x < cut.x1; ++x) sum += read(image + (y * w.width + x) * w.inner);
  }
  return w.kind == Kind::avg ? sum / divisor : sum;
}

// One window: `inner` results side by side.
MG_INLINE void forward_window(const Window& w, const Cut& cut, const float* image, float* out) {
  int64_t i = 0;
  for (; i + kLanes <= w.inner; i += kLanes) {
    put(out + i, reduce<Lane>(w, cut, image + i, cut.count, [](const float* p) { return get(p); }));
  }
  for (; i < w.inner; ++i) {
    out[i] = reduce<float>(w, cut, image + i, cut.count, [](const float* p) { return *p; });
  }
}

// What of window (y, x) lies in the image; Two: windows of 2 by 2 side by side, all within it.
template <bool Two>
MG_INLINE Cut cut_of(const Window& w, int64_t y, int64_t x) {
  return Two ? Cut{2 * y, 2 * y + 2, 2 * x, 2 * x + 2, 4.0f, false} : w.cut(y, x);
}

template <bool Two>
MG_INLINE void forward_image(const Window& w, const float* image, float* out) {
  for (int64_t y = 0; y < w.out_h; ++y) {
    for (int64_t x = 0; x < w.out_w; ++x) {
      forward_window(w, cut_of<Two>(w, y, x), image, out);
      out += w.inner;
    }
  }
}

void forward(const Window& w, const float* image, float* out) {
  if (w.two) return forward_image<true>(w, image, out);
  forward_image<false>(w, image, out);
}

// The first element of the window that equals the maximum gets the gradient.
template <bool Apart>
MG_INLINE void max_window(const Window& w, const Cut& cut, const float* dy, const float* image,
                          const float* best, float* dx) {
  int64_t i = 0;
  for (; i + kLanes <= w.inner; i += kLanes) {
    const Lane top = get(best + i), grad = get(dy + i);
    Mask open = top == top;
    for (int64_t y = cut.y0; y < cut.y1; ++y) {
      for (int64_t x = cut.x0; x < cut.x1; ++x) {
        const int64_t at = (y * w.width + x) * w.inner + i;
        const Mask hit = open & (get(image + at) == top);
        open &= ~hit;
        const Lane share = hit ? grad : Lane{};
        put(dx + at, Apart ? share : get(dx + at) + share);
      }
    }
  }
  for (; i < w.inner; ++i) {
    bool open = true;
    for (int64_t y = cut.y0; y < cut.y1; ++y) {
      for (int64_t x = cut.x0; x < cut.x1; ++x) {
        const int64_t at = (y * w.width + x) * w.inner + i;
        const bool hit = open & (image[at] == best[i]);
        open = open & !hit;
        const float share = hit ? dy[i] : 0.0f;
        dx[at] = Apart ? share : dx[at] + share;
      }
    }
  }
}

template <bool Apart>
MG_INLINE void sum_window(const Window& w, const Cut& cut, const float* dy, float* dx) {
  const float divisor = w.kind == Kind::avg ? cut.count : 1.0f;
  for (int64_t y = cut.y0; y < cut.y1; ++y) {
    for (int64_t x = cut.x0; x < cut.x1; ++x) {
      float* at = dx + (y * w.width + x) * w.inner;
      for (int64_t i = 0; i < w.inner; ++i) {
        at[i] = Apart ? dy[i] / divisor : at[i] + dy[i] / divisor;
      }
    }
  }
}

template <bool Apart, bool Two>
MG_INLINE void backward_image(const Window& w, const float* dy, const float* image,
                              const float* best, float* dx) {
  for (int64_t y = 0; y < w.out_h; ++y) {
    for (int64_t x = 0; x < w.out_w; ++x) {
      if (w.kind == Kind::max) {
        max_window<Apart>(w, cut_of<Two>(w, y, x), dy, image, best, dx);
      } else {
        sum_window<Apart>(w, cut_of<Two>(w, y, x), dy, dx);
      }
      dy += w.inner;
      best += w.inner;
    }
  }
}

void backward(const Window& w, const float* dy, const float* image, const float* best, float* dx) {
  if (!w.covers) std::memset(dx, 0, w.height * w.width * w.inner * sizeof(float));
  if (w.two) {
    backward_image<true, true>(w, dy, image, best, dx);
  } else if (w.apart) {
    backward_image<true, false>(w, dy, image, best, dx);
  } else {
    backward_image<false, false>(w, dy, image, best, dx);
  }
}

// Windows of 2 by 2 side by side, channels in front: the common case there.
void forward_two(const Window& w, const float* image, float* out) {
  for (int64_t y = 0; y < w.out_h; ++y) {
    const float *a = image + 2 * y * w.width, *b = a + w.width;
    for (int64_t x = 0; x < w.out_w; ++x) {
      out[x] = larger(larger(a[2 * x], a[2 * x + 1]), larger(b[2 * x], b[2 * x + 1]));
    }
    out += w.out_w;
  }
}

}  // namespace pooling
