// Operator graphs as Graphviz text.
#pragma once

#include <string>

#include "models/graph/op_graph.hpp"

namespace orrery::models {

/// A digraph for `dot`: a box an op (filled by pattern of its kind), an ellipse a tensor that exists before the run, an
/// arrow a use with the tensor's shape. Regions are clusters beside the op that has them. Deterministic.
std::string to_dot(const OpGraph& graph);

}  // namespace orrery::models
