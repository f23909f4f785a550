// A reference interpreter of operator graphs: real numbers through small graphs, one loop nest a kind, no cleverness.
//
// Gradient checks need values; the simulator has none. Every kind is computed from its definition in
// docs/explain/autodiff.md, backward kinds by their own formulas, so a wrong rule shows against finite differences.
// Constants are zero except "loss.gradient" (1). Dropout keeps an element by its place, so that a run can be repeated.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "models/graph/op_graph.hpp"

namespace orrery::models::test {

struct Value {
  std::vector<std::int64_t> dims;
  std::vector<double> data;
  double at(std::size_t i) const { return data.size() == 1 ? data[0] : data.at(i); }
};

/// Values of tensors that exist before the run, by name.
using Feed = std::map<std::string, Value>;

/// Values of all tensors, by id. Throws std::runtime_error for a kind that it does not know.
std::vector<Value> interpret(const OpGraph& graph, const Bindings& bindings, const Feed& feed);

/// Random values in [-1, 1] for every floating tensor that exists before the run; whole numbers below `classes` for
/// the others; zero for constants, one for the gradient of the loss.
Feed random_feed(const OpGraph& graph, const Bindings& bindings, std::uint64_t seed, std::int64_t classes);

}  // namespace orrery::models::test
