// What the forward and the backward of recurrent networks share: sizes, where things lie in the
// vector of parameters and in the reserve, the cells.
//
// Both arrays are laid out as minigluon/ops/nn/rnn.py says (`packed`, `reserved`), so kernel and
// body may take turns within one training step.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "../kernel.h"
#include "matmul.h"

namespace mg::onednn {

enum class Mode { relu, tanh, lstm, gru };

// One step of one direction for some samples. Rows are `size` numbers (gates: several times that),
// one after the other, but for those with a stride of their own.
struct Cell {
  int64_t rows, size;
  float* gates;               // in: what the input contributes (and the state, but for gru); out: gates
  int64_t gates_stride;
  const float* outer;         // gru: what the state contributes
  const float* outer_bias;    // gru: the candidate's part of it
  float* inner;               // gru: the candidate's outer part with its bias
  const float* cells_before;  // lstm
  float* cells;
  float* h;  // in: the state before, out: after
  float* y;  // the same, in the layer's output
  int64_t y_stride;
};

// The same on the way back.
struct CellBack {
  int64_t rows, size;
  const float* gates;
  const float* inner;         // gru
  const float* cells_before;  // lstm
  const float* cells;
  const float* y;             // relu, tanh: the output; gru: the state before
  int64_t y_stride;
  const float* dy;
  int64_t dy_stride;
  float* dh;       // in: from the step behind; gru, out: what goes past the gates
  float* dc;       // lstm: from the step behind, then for the step before
  float* dgates;   // of what the input contributes
  float* douter;   // gru: of what the state contributes
};

using CellPass = void (*)(const Cell&);
using CellBackPass = void (*)(const CellBack&);

struct Passes {
  CellPass forward;
  CellBackPass backward;
  // out = a b, or out = a + b
  void (*times)(const float* a, const float* b, float* out, int64_t count);
  void (*plus)(const float* a, const float* b, float* out, int64_t count);
  // out = the sum of `rows` rows, columns `begin` to `end`
  void (*sum_rows)(const float* a, int64_t rows, int64_t stride, float* out, int64_t begin,
                   int64_t end);
};

Passes passes_for(Mode mode);

// Where one direction of one layer finds its things, in numbers from the beginning of an array.
struct Place {
  int64_t i2h_weight, h2h_weight, i2h_bias, h2h_bias;  // in the parameters
  int64_t gates, cells, inner;                         // in the reserve
};

struct Net {
  Mode mode;
  int64_t steps, batch, inputs, hidden, layers, sides;
  double p;
  int64_t gate_rows;             // gates times hidden
  std::vector<Place> places;     // layer by layer, direction by direction
  std::vector<int64_t> outputs;  // of all layers but the last: in the reserve
  std::vector<int64_t> masks;
  int64_t parameters = 0, reserve = 0;  // how many numbers

  int64_t columns(int64_t layer) const { return layer == 0 ? inputs : width(); }
  int64_t width() const { return hidden * sides; }
  int64_t all() const { return steps * batch; }
  int64_t state() const { return batch * hidden; }
  bool drops() const { return p > 0; }
  // How many pieces the samples are cut into, each of which goes its way through time by itself.
  int64_t pieces() const;
  int64_t piece(int64_t number, int64_t count) const { return batch * number / count; }
  double step_cost() const {  // nanoseconds of one direction
    return 2.0 * static_cast<double>(all() * gate_rows * hidden) / 80.0;
  }
};

// The net of a call of RNN or _rnn_grad, if the kernels take it.
std::optional<Net> net_of(const Desc& data, const Attrs& attrs);

// Temporary memory, piece by piece.
class Area {
 public:
  std::size_t bytes(std::size_t count) {
    const std::size_t at = size_;
    size_ += (count + 63) / 64 * 64;
    return at;
  }
  std::size_t floats(int64_t count) { return bytes(static_cast<std::size_t>(count) * sizeof(float)); }
  std::size_t size() const { return size_; }

 private:
  std::size_t size_ = 0;
};

}  // namespace mg::onednn
