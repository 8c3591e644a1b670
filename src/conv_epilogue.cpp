#include "conv_epilogue.h"

#include <algorithm>
#include <cmath>

namespace mg {
namespace {

constexpr int kFirst = 2, kNorm = 4;  // inputs before the first of these, and of a normalisation

const float* input(const void* const* in, int i) { return static_cast<const float*>(in[i]); }

}  // namespace

const float* ConvEpilogue::bias_of(const void* const* in) const {
  return bias ? input(in, kFirst) : nullptr;
}

const float* ConvEpilogue::addend_of(const void* const* in) const {
  return add ? input(in, kFirst + bias + kNorm * norm) : nullptr;
}

void ConvEpilogue::normalise(const void* const* in, int64_t filters, float* scale) const {
  const float* added = bias_of(in);
  const void* const* own = in + kFirst + bias;
  const float *gamma = input(own, 0), *beta = input(own, 1);
  const float *mean = input(own, 2), *variance = input(own, 3);
  for (int64_t i = 0; i < filters; ++i) {
    const float inverse = 1.0f / std::sqrt(variance[i] + eps);
    scale[i] = fix_gamma ? inverse : inverse * gamma[i];
    scale[filters + i] = beta[i] + ((added ? added[i] : 0.0f) - mean[i]) * scale[i];
  }
}

const float* ConvEpilogue::scales(const void* const* in, int64_t filters, float* memory) const {
  if (norm) {
    normalise(in, filters, memory);
  } else if (bias) {
    std::fill_n(memory, filters, 1.0f);
    std::copy_n(bias_of(in), filters, memory + filters);
  } else {
    return nullptr;
  }
  return memory;
}

std::optional<ConvEpilogue> read_epilogue(const std::vector<Desc>& in, const Desc& out,
                                          const Attrs& attrs, int64_t filters) {
  ConvEpilogue after;
  after.norm = attrs.get<bool>("norm", false);
  after.add = attrs.get<bool>("add", false);
  after.relu = attrs.get<std::string>("act_type", "") == "relu";
  after.fix_gamma = attrs.get<bool>("fix_gamma", false);
  after.eps = static_cast<float>(attrs.get<double>("eps", 0.0));
  after.bias = attrs.has("norm") ? !attrs.get<bool>("no_bias", false) : in.size() > kFirst;
  for (std::size_t i = kFirst; i < in.size(); ++i) {
    const bool addend = after.add && i + 1 == in.size();
    if (in[i].dtype != DType::f32) return {};
    if (addend ? in[i].shape != out.shape : in[i].size() != filters) return {};
  }
  return after;
}

}  // namespace mg
