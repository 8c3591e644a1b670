// _rnn_grad: the way back through all layers, directions and steps of a recurrent network.
//
// Through time goes what must (each thread takes some of the samples all the way); the gradients
// of weights and input are one product over all steps each.
#include <algorithm>
#include <cstring>

#include "../kernel.h"
#include "../parallel.h"
#include "rnn.h"

namespace mg::onednn {
namespace {

class Backward final : public Step {
 public:
  explicit Backward(const Net& net) : net_(net), passes_(passes_for(net.mode)) {
    gru_ = net.mode == Mode::gru;
    const int64_t all = net.all(), rows = net.gate_rows, hidden = net.hidden;
    std::size_t most = 0;
    auto product = [&](const Layout& a, const Layout& b, const Layout& c, Matmul::Into into) {
      const double flops = 2.0 * static_cast<double>(a.get_dims()[0] * a.get_dims()[1] *
                                                     b.get_dims()[1]);
      Matmul made(a, b, c, Threads::for_flops(flops), into);
      most = std::max(most, made.scratch());
      slow_ = slow_ || made.slow();
      return made;
    };
    for (int64_t layer = 0; layer < std::min<int64_t>(net.layers, 2); ++layer) {
      const int64_t columns = net.columns(layer);
      const Layout x = matrix(all, columns, columns), weight = matrix(rows, columns, columns);
      i2h_.push_back(product(turned(rows, all, rows), x, weight, Matmul::write));
      for (int64_t side = 0; side < net.sides; ++side) {
        dx_.push_back(product(matrix(all, rows, rows), weight, x,
                              side == 0 ? Matmul::write : Matmul::add));
      }
    }
    const Layout weight = matrix(rows, hidden, hidden);
    first_ = product(turned(rows, net.batch, rows), matrix(net.batch, hidden, hidden), weight,
                     Matmul::write);
    if (net.steps > 1) {
      const int64_t others = all - net.batch;
      h2h_ = product(turned(rows, others, rows), matrix(others, hidden, net.width()), weight,
                     Matmul::add);
    }
    const int64_t pieces = net.pieces();
    Layout weights = packed(rows, hidden);
    for (int64_t i = 0; i < pieces; ++i) {
      const int64_t some = net.piece(i + 1, pieces) - net.piece(i, pieces);
      state_.emplace_back(matrix(some, rows, rows), weights, matrix(some, hidden, hidden), 1,
                          gru_ ? Matmul::add : Matmul::write);
      slow_ = slow_ || state_.back().slow();
      weights = state_.back().weights();
      piece_scratch_.push_back(area_.bytes(state_.back().scratch()));
    }
    {
      Threads guard(1);
      pack_ = Reorder(matrix(rows, hidden, hidden), weights);
    }
    packed_ = area_.bytes(pack_ ? weights.get_size() : 0);
    pack_scratch_ = area_.bytes(pack_.scratch());
    product_scratch_ = area_.bytes(most);
    dgates_ = area_.floats(all * rows);
    douter_ = gru_ ? area_.floats(all * rows) : dgates_;
    for (std::size_t& dx : between_) dx = area_.floats(net.layers > 1 ? all * net.width() : 0);
    masked_ = area_.floats(net.drops() && net.layers > 1 ? all * net.width() : 0);
  }

  bool slow() const { return slow_; }
  std::size_t scratch() const override { return area_.size(); }

  void run(const void* const* in, void* const* out, void* scratch) override {
    Run now = {};
    const float* dy = static_cast<const float*>(in[0]);
    now.parameters = static_cast<const float*>(in[3]);
    now.first_h = static_cast<const float*>(in[4]);
    now.reserve = static_cast<const float*>(in[6]);
    now.grads = static_cast<float*>(out[1]);
    now.dh = static_cast<float*>(out[2]);
    now.scratch = static_cast<char*>(scratch);
    const std::size_t states = sizeof(float) * net_.places.size() * net_.state();
    std::memcpy(now.dh, in[1], states);
    if (net_.mode == Mode::lstm) {
      now.first_c = static_cast<const float*>(in[8]);
      now.dc = static_cast<float*>(out[3]);
      std::memcpy(now.dc, in[7], states);
    }
    for (int64_t layer = net_.layers - 1; layer >= 0; --layer) {
      const float* y = layer + 1 == net_.layers ? static_cast<const float*>(in[5])
                                                : now.reserve + net_.outputs[layer];
      const float* x = layer == 0 ? static_cast<const float*>(in[2])
                                  : now.reserve + net_.outputs[layer - 1];
      const float* mask = layer > 0 && net_.drops() ? now.reserve + net_.masks[layer - 1] : nullptr;
      const int64_t count = net_.all() * net_.width();
      if (mask != nullptr) {
        passes_.times(x, mask, now.at(masked_), count);
        x = now.at(masked_);
      }
      float* dx = layer == 0 ? static_cast<float*>(out[0]) : now.at(between_[layer % 2]);
      for (int64_t side = 0; side < net_.sides; ++side) direction(now, layer, side, dy, x, y, dx);
      if (mask != nullptr) passes_.times(dx, mask, dx, count);
      dy = dx;
    }
  }

 private:
  struct Run {
    const float *parameters, *first_h, *first_c, *reserve;
    float *grads, *dh, *dc;
    char* scratch;
    float* at(std::size_t offset) const { return reinterpret_cast<float*>(scratch + offset); }
  };

  void direction(const Run& now, int64_t layer, int64_t side, const float* dy, const float* x,
                 const float* y, float* dx) {
    const int64_t number = layer * net_.sides + side, kind = layer == 0 ? 0 : 1;
    const Place& place = net_.places[number];
    const float* weights = now.parameters + place.h2h_weight;
    if (pack_) {
      Threads guard(1);
      pack_.run(weights, now.at(packed_), now.at(pack_scratch_));
      weights = now.at(packed_);
    }
    y += side * net_.hidden;
    dy += side * net_.hidden;
    const int64_t pieces = static_cast<int64_t>(state_.size());
    parallel_for(pieces, kWorthAThread, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) through_time(now, number, i, weights, dy, y);
    });

    const float *dgates = now.at(dgates_), *douter = now.at(douter_);
    float* scratch = now.at(product_scratch_);
    i2h_[kind].run(dgates, x, now.grads + place.i2h_weight, scratch);
    dx_[kind * net_.sides + side].run(dgates, now.parameters + place.i2h_weight, dx, scratch);
    // the first step in time came from the given state, each other from the output before it
    const int64_t rows = net_.gate_rows, batch = net_.batch;
    const int64_t begin = side == 0 ? 0 : net_.all() - batch;
    float* h2h = now.grads + place.h2h_weight;
    first_.run(douter + begin * rows, now.first_h + number * net_.state(), h2h, scratch);
    if (net_.steps > 1) {
      h2h_.run(douter + (side == 0 ? batch * rows : 0),
               y + (side == 0 ? 0 : batch * net_.width()), h2h, scratch);
    }
    float *inner = now.grads + place.i2h_bias, *outer = now.grads + place.h2h_bias;
    parallel_for(rows, 0.3 * static_cast<double>(net_.all()), [&](int64_t from, int64_t to) {
      passes_.sum_rows(dgates, net_.all(), rows, inner, from, to);
      if (gru_) passes_.sum_rows(douter, net_.all(), rows, outer, from, to);
    }, 16);
    if (!gru_) std::memcpy(outer, inner, sizeof(float) * rows);
  }

  // Some samples, from the last step to the first.
  void through_time(const Run& now, int64_t number, int64_t piece, const float* weights,
                    const float* dy, const float* y) const {
    const int64_t pieces = static_cast<int64_t>(state_.size());
    const int64_t first = net_.piece(piece, pieces), hidden = net_.hidden, rows = net_.gate_rows;
    const int64_t states = number * net_.state() + first * hidden;
    const Place& place = net_.places[number];
    const bool backwards = number % net_.sides == 1;
    CellBack cell = {};
    cell.rows = net_.piece(piece + 1, pieces) - first;
    cell.size = hidden;
    cell.dy_stride = net_.width();
    cell.dh = now.dh + states;
    if (net_.mode == Mode::lstm) cell.dc = now.dc + states;
    for (int64_t i = 0; i < net_.steps; ++i) {
      const int64_t t = backwards ? i : net_.steps - 1 - i, row = t * net_.batch + first;
      const bool earliest = i + 1 == net_.steps;
      const int64_t before = row + (backwards ? net_.batch : -net_.batch);
      cell.gates = now.reserve + place.gates + row * rows;
      cell.inner = now.reserve + place.inner + row * hidden;
      cell.cells = now.reserve + place.cells + row * hidden;
      if (net_.mode == Mode::lstm) {
        cell.cells_before = earliest ? now.first_c + states
                                     : now.reserve + place.cells + before * hidden;
      }
      const bool from_state = gru_ && earliest;
      cell.y_stride = from_state ? hidden : net_.width();
      cell.y = from_state ? now.first_h + states : y + (gru_ ? before : row) * net_.width();
      cell.dy = dy + row * net_.width();
      cell.dgates = now.at(dgates_) + row * rows;
      cell.douter = now.at(douter_) + row * rows;
      passes_.backward(cell);
      state_[piece].run(cell.douter, weights, cell.dh, now.at(piece_scratch_[piece]));
    }
  }

  Net net_;
  Passes passes_;
  bool gru_, slow_ = false;
  std::vector<Matmul> i2h_, dx_;  // of the lowest layer, of the others; dx of each direction
  Matmul first_, h2h_;
  std::vector<Matmul> state_;  // of each piece
  Reorder pack_;
  Area area_;
  std::vector<std::size_t> piece_scratch_;
  std::size_t packed_, pack_scratch_, product_scratch_, dgates_, douter_, between_[2], masked_;
};

std::unique_ptr<Step> make(const std::vector<Desc>& in, const std::vector<Desc>& out,
                           const Attrs& attrs) {
  for (const Desc& each : in) {
    if (each.dtype != DType::f32) return nullptr;
  }
  const auto net = net_of(in[2], attrs);
  if (!net || in[3].size() != net->parameters ||
      in[6].size() != std::max<int64_t>(1, net->reserve)) {
    return nullptr;
  }
  return attempt<Backward>(*net);
}

MG_KERNEL("_rnn_grad", make);

}  // namespace
}  // namespace mg::onednn
