#include "kernels/conv_problem.h"

namespace mg {
namespace {

std::vector<int64_t> two(const Attrs& attrs, const char* name, int64_t fallback) {
  auto given = attrs.get<std::vector<int64_t>>(name, {});
  return given.size() == 2 ? given : std::vector<int64_t>(2, fallback);
}

int64_t places(int64_t size, int64_t kernel, int64_t step, int64_t dilate, int64_t pad) {
  return (size + 2 * pad - (kernel - 1) * dilate - 1) / step + 1;
}

std::optional<ConvGeometry> read_geometry(const std::vector<Desc>& in, const Desc& out,
                                          const Attrs& attrs, bool last) {
  const char* layout = last ? "NHWC/OIHW" : "NCHW";
  if (attrs.get<std::string>("layout", "NCHW") != layout) return {};
  if (in.size() < 2 || in[0].ndim() != 4 || in[1].ndim() != 4 || out.ndim() != 4) return {};
  for (const Desc& each : in) {
    if (each.dtype != DType::f32 || each.size() < 1) return {};
  }
  if (out.dtype != DType::f32 || attrs.get<int64_t>("num_group", 1) != 1) return {};
  const int channel = last ? 3 : 1, h = last ? 1 : 2, w = h + 1;
  const auto &x = in[0].shape, &weight = in[1].shape, &y = out.shape;
  const auto step = two(attrs, "stride", 1), dilate = two(attrs, "dilate", 1),
             pad = two(attrs, "pad", 0);
  const ConvGeometry g = {x[0],      x[h],      x[w],    x[channel], weight[0],
                          weight[2], weight[3], y[h],    y[w],       step[0],
                          step[1],   dilate[0], dilate[1], pad[0],   pad[1]};
  const bool fits = weight[1] == g.channels && y[0] == g.batch && y[channel] == g.filters &&
                    places(g.height, g.kh, g.step_y, g.dilate_y, g.pad_y) == g.out_h &&
                    places(g.width, g.kw, g.step_x, g.dilate_x, g.pad_x) == g.out_w;
  return fits ? std::optional(g) : std::nullopt;
}

}  // namespace

std::optional<ConvProblem> read_conv(const std::vector<Desc>& in, const Desc& out,
                                     const Attrs& attrs, bool last) {
  const auto geometry = read_geometry(in, out, attrs, last);
  if (!geometry) return {};
  const auto after = read_epilogue(in, out, attrs, geometry->filters);
  return after ? std::optional(ConvProblem{*geometry, *after}) : std::nullopt;
}

}  // namespace mg
