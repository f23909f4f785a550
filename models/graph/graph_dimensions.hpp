// Dimensions of a graph under other names: exporters call them what they like.
#pragma once

#include "models/graph/op_graph.hpp"

namespace orrery::models {

/// The graph with `by` in the place of a dimension, in shapes, attributes and regions. What was known of the dimension
/// is kept where `by` is one dimension itself. Throws GraphError if the graph has no such dimension.
OpGraph with_dimension(OpGraph graph, Symbol dimension, const SymExpr& by);

}  // namespace orrery::models
