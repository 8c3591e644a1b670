// The loops of arithmetic.cpp, for one instruction set. Included several times: no include guard.

#define MG_LOOP(expression) \
  for (int64_t i = 0; i < n; ++i) out[i] = (expression)

void pair(Arithmetic kind, const float* a, const float* b, float* __restrict out, int64_t n) {
  switch (kind) {
    case kAdd: MG_LOOP(a[i] + b[i]); break;
    case kSub: MG_LOOP(a[i] - b[i]); break;
    case kMul: MG_LOOP(a[i] * b[i]); break;
    default: MG_LOOP(a[i] / b[i]);
  }
}

void scalar(Arithmetic kind, const float* a, float s, float* __restrict out, int64_t n) {
  switch (kind) {
    case kAdd: MG_LOOP(a[i] + s); break;
    case kSub: MG_LOOP(a[i] - s); break;
    case kMul: MG_LOOP(a[i] * s); break;
    case kDiv: MG_LOOP(a[i] / s); break;
    case kReversedSub: MG_LOOP(s - a[i]); break;
    default: MG_LOOP(s / a[i]);
  }
}

#undef MG_LOOP
