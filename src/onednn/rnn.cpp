// RNN: all layers, directions and steps of a recurrent network.
//
// What the input contributes to the gates is one product over all steps. Through time the samples
// do not need each other: each thread takes some of them from the first step to the last.
#include <algorithm>
#include <cstring>

#include "../kernel.h"
#include "../kernels/dropout.h"
#include "../parallel.h"
#include "rnn.h"

namespace mg::onednn {
namespace {

class Forward final : public Step {
 public:
  Forward(const Net& net, bool training) : net_(net), passes_(passes_for(net.mode)) {
    draws_ = training && net.drops() && net.layers > 1;
    gru_ = net.mode == Mode::gru;
    plain_ = net.mode == Mode::relu || net.mode == Mode::tanh;
    gates_stride_ = plain_ ? net.width() : net.gate_rows;
    std::size_t most = 0;
    for (int64_t layer = 0; layer < std::min<int64_t>(net.layers, 2); ++layer) {
      const int64_t columns = net.columns(layer);
      const double flops = 2.0 * static_cast<double>(net.all() * net.gate_rows * columns);
      input_.emplace_back(matrix(net.all(), columns, columns),
                          turned(columns, net.gate_rows, columns),
                          matrix(net.all(), net.gate_rows, gates_stride_),
                          Threads::for_flops(flops), Matmul::write, true);
      most = std::max(most, input_.back().scratch());
    }
    const int64_t pieces = net.pieces();
    Layout weights = packed(net.hidden, net.gate_rows);
    for (int64_t i = 0; i < pieces; ++i) {
      const int64_t rows = net.piece(i + 1, pieces) - net.piece(i, pieces);
      state_.emplace_back(matrix(rows, net.hidden, net.hidden), weights,
                          matrix(rows, net.gate_rows, gru_ ? net.gate_rows : gates_stride_), 1,
                          gru_ ? Matmul::write : Matmul::add);
      weights = state_.back().weights();
      piece_scratch_.push_back(area_.bytes(state_.back().scratch()));
    }
    {
      Threads guard(1);
      pack_ = Reorder(turned(net.hidden, net.gate_rows, net.hidden), weights);
    }
    packed_ = area_.bytes(pack_ ? weights.get_size() : 0);
    pack_scratch_ = area_.bytes(pack_.scratch());
    product_scratch_ = area_.bytes(most);
    bias_ = area_.floats(net.gate_rows);
    outer_ = area_.floats(gru_ ? net.batch * net.gate_rows : 0);
    const int64_t between = net.all() * net.width();
    // each layer's mask has numbers of its own within the run, from a multiple of 32 on
    numbers_ = (between + 31) / 32 * 32;
    bits_ = area_.bytes(draws_ ? static_cast<std::size_t>(mask_bytes(net.layers * numbers_)) : 0);
    dropped_ = area_.floats(draws_ ? between : 0);
  }

  bool slow() const {
    auto is_slow = [](const Matmul& one) { return one.slow(); };
    return std::any_of(input_.begin(), input_.end(), is_slow) ||
           std::any_of(state_.begin(), state_.end(), is_slow);
  }

  std::size_t scratch() const override { return area_.size(); }
  bool draws() const override { return draws_; }

  void run(const void* const* in, void* const* out, void* scratch) override {
    Run now = {};
    now.parameters = static_cast<const float*>(in[1]);
    now.first_h = static_cast<const float*>(in[2]);
    const bool lstm = net_.mode == Mode::lstm;
    if (lstm) now.first_c = static_cast<const float*>(in[3]);
    now.h = static_cast<float*>(out[1]);
    if (lstm) now.c = static_cast<float*>(out[2]);
    now.reserve = static_cast<float*>(out[lstm ? 3 : 2]);
    now.scratch = static_cast<char*>(scratch);
    if (net_.reserve == 0) now.reserve[0] = 0;  // its size is never 0
    const float* x = static_cast<const float*>(in[0]);
    for (int64_t layer = 0; layer < net_.layers; ++layer) {
      const bool top = layer + 1 == net_.layers;
      float* y = top ? static_cast<float*>(out[0]) : now.reserve + net_.outputs[layer];
      for (int64_t side = 0; side < net_.sides; ++side) direction(now, layer, side, x, y);
      x = y;
      if (!top && net_.drops()) x = drop(now, layer, y);
    }
  }

 private:
  struct Run {
    const float *parameters, *first_h, *first_c;
    float *h, *c, *reserve;
    char* scratch;
    float* at(std::size_t offset) const { return reinterpret_cast<float*>(scratch + offset); }
  };

  // What the next layer sees of this one's output; the mask is kept: 0 or 1 / (1 - p).
  const float* drop(const Run& now, int64_t layer, const float* y) const {
    const int64_t count = net_.all() * net_.width();
    float *mask = now.reserve + net_.masks[layer], *dropped = now.at(dropped_);
    auto* bits = reinterpret_cast<uint8_t*>(now.at(bits_));
    const int64_t first = layer * numbers_;
    parallel_for(count, 1.5, [&](int64_t begin, int64_t end) {
      std::fill(mask + begin, mask + end, 1.0f);
      if (!draws_) return;
      draw_mask(seed, net_.p, first + begin, first + end, bits);
      apply_mask(mask, bits + first / 8, mask, begin, end, net_.p);
      passes_.times(y + begin, mask + begin, dropped + begin, end - begin);
    }, 32);
    return draws_ ? dropped : y;
  }

  void direction(const Run& now, int64_t layer, int64_t side, const float* x, float* out) {
    const int64_t number = layer * net_.sides + side;
    const Place& place = net_.places[number];
    float* y = out + side * net_.hidden;
    float* gates = plain_ ? y : now.reserve + place.gates;
    // the bias of gru's candidate for the state stands inside reset * (...)
    const float *inner = now.parameters + place.i2h_bias, *outer = now.parameters + place.h2h_bias;
    const int64_t both = gru_ ? 2 * net_.hidden : net_.gate_rows;
    float* bias = now.at(bias_);
    passes_.plus(inner, outer, bias, both);
    std::memcpy(bias + both, inner + both, sizeof(float) * (net_.gate_rows - both));
    input_[layer == 0 ? 0 : 1].run(x, now.parameters + place.i2h_weight, gates,
                                   now.at(product_scratch_), bias);
    const float* weights = now.parameters + place.h2h_weight;
    if (pack_) {
      Threads guard(1);
      pack_.run(weights, now.at(packed_), now.at(pack_scratch_));
      weights = now.at(packed_);
    }
    float* h = now.h + number * net_.state();
    std::memcpy(h, now.first_h + number * net_.state(), sizeof(float) * net_.state());
    const int64_t pieces = static_cast<int64_t>(state_.size());
    parallel_for(pieces, kWorthAThread, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) through_time(now, number, i, weights, gates, h, y);
    });
    if (net_.mode == Mode::lstm) {
      const int64_t last = side == 0 ? net_.steps - 1 : 0;
      std::memcpy(now.c + number * net_.state(), now.reserve + place.cells + last * net_.state(),
                  sizeof(float) * net_.state());
    }
  }

  // Some samples, from the first step to the last.
  void through_time(const Run& now, int64_t number, int64_t piece, const float* weights,
                    float* gates, float* h, float* y) const {
    const int64_t pieces = static_cast<int64_t>(state_.size());
    const int64_t first = net_.piece(piece, pieces), hidden = net_.hidden;
    const Place& place = net_.places[number];
    Cell cell = {};
    cell.rows = net_.piece(piece + 1, pieces) - first;
    cell.size = hidden;
    cell.gates_stride = gates_stride_;
    cell.y_stride = net_.width();
    cell.h = h + first * hidden;
    if (net_.mode == Mode::lstm)
      cell.cells_before = now.first_c + number * net_.state() + first * hidden;
    float* outer = now.at(outer_) + first * net_.gate_rows;
    if (gru_) {
      cell.outer = outer;
      cell.outer_bias = now.parameters + place.h2h_bias + 2 * hidden;
    }
    const bool backwards = number % net_.sides == 1;
    for (int64_t i = 0; i < net_.steps; ++i) {
      const int64_t t = backwards ? net_.steps - 1 - i : i, row = t * net_.batch + first;
      cell.gates = gates + row * gates_stride_;
      state_[piece].run(cell.h, weights, gru_ ? outer : cell.gates,
                        now.at(piece_scratch_[piece]));
      cell.y = y + row * cell.y_stride;
      cell.cells = now.reserve + place.cells + row * hidden;
      cell.inner = now.reserve + place.inner + row * hidden;
      passes_.forward(cell);
      cell.cells_before = cell.cells;
    }
  }

  Net net_;
  Passes passes_;
  bool draws_, gru_, plain_;
  int64_t gates_stride_, numbers_;
  std::vector<Matmul> input_;  // of the lowest layer, of the others
  std::vector<Matmul> state_;  // of each piece
  Reorder pack_;
  Area area_;
  std::vector<std::size_t> piece_scratch_;
  std::size_t packed_, pack_scratch_, product_scratch_, bias_, outer_, bits_, dropped_;
};

std::unique_ptr<Step> make(const std::vector<Desc>& in, const std::vector<Desc>& out,
                           const Attrs& attrs) {
  for (const Desc& each : in) {
    if (each.dtype != DType::f32) return nullptr;
  }
  const auto net = net_of(in[0], attrs);
  if (!net || in[1].size() != net->parameters ||
      out.back().size() != std::max<int64_t>(1, net->reserve)) {
    return nullptr;
  }
  const bool training = attrs.get<bool>("training", true);
  if (training && net->p >= 1) return nullptr;  // draw_mask takes chances below 1
  return attempt<Forward>(*net, training);
}

MG_KERNEL("RNN", make);

}  // namespace
}  // namespace mg::onednn
