// Sizes and places of a recurrent network; its cells, compiled for each instruction set.
#include <algorithm>

#include "../kernels/sets.h"
#include "../parallel.h"
#include "rnn.h"

namespace mg::onednn {
namespace {

#define MG_ISA_FILE "onednn/rnn_cells.inl"
#include "kernels/each_set.h"

std::optional<Mode> mode_named(const std::string& name) {
  if (name == "rnn_relu") return Mode::relu;
  if (name == "rnn_tanh") return Mode::tanh;
  if (name == "lstm") return Mode::lstm;
  if (name == "gru") return Mode::gru;
  return std::nullopt;
}

int64_t gates_of(Mode mode) { return mode == Mode::lstm ? 4 : mode == Mode::gru ? 3 : 1; }

}  // namespace

Passes passes_for(Mode mode) { return MG_PICK(passes)(mode); }

int64_t Net::pieces() const {
  constexpr int64_t rows = 4;  // fewer of them read the weights without making use of it
  return std::max<int64_t>(1, std::min<int64_t>(threads_for(step_cost()), batch / rows));
}

std::optional<Net> net_of(const Desc& data, const Attrs& attrs) {
  const auto mode = mode_named(attrs.get<std::string>("mode", ""));
  if (!mode || data.ndim() != 3 || data.size() == 0 || attrs.has("projection_size") ||
      attrs.has("lstm_state_clip_min") || attrs.get<bool>("use_sequence_length", false)) {
    return std::nullopt;
  }
  Net net;
  net.mode = *mode;
  net.steps = data.shape[0];
  net.batch = data.shape[1];
  net.inputs = data.shape[2];
  net.hidden = attrs.get<int64_t>("state_size", 0);
  net.layers = attrs.get<int64_t>("num_layers", 0);
  net.sides = attrs.get<bool>("bidirectional", false) ? 2 : 1;
  net.p = attrs.get<double>("p", 0);
  if (net.hidden < 1 || net.layers < 1) return std::nullopt;
  net.gate_rows = gates_of(*mode) * net.hidden;
  auto take = [](int64_t& from, int64_t count) {
    const int64_t at = from;
    from += count;
    return at;
  };
  for (int64_t layer = 0; layer < net.layers; ++layer) {
    for (int64_t side = 0; side < net.sides; ++side) {
      Place place = {};
      place.i2h_weight = take(net.parameters, net.gate_rows * net.columns(layer));
      place.h2h_weight = take(net.parameters, net.gate_rows * net.hidden);
      const int64_t states = net.all() * net.hidden;
      if (*mode == Mode::lstm || *mode == Mode::gru) {
        place.gates = take(net.reserve, net.all() * net.gate_rows);
        (*mode == Mode::lstm ? place.cells : place.inner) = take(net.reserve, states);
      }
      net.places.push_back(place);
    }
    if (layer + 1 < net.layers) {
      net.outputs.push_back(take(net.reserve, net.all() * net.width()));
      if (net.drops()) net.masks.push_back(take(net.reserve, net.all() * net.width()));
    }
  }
  for (Place& place : net.places) {
    place.i2h_bias = take(net.parameters, net.gate_rows);
    place.h2h_bias = take(net.parameters, net.gate_rows);
  }
  return net;
}

}  // namespace mg::onednn
