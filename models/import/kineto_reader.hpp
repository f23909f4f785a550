// What is read of a PyTorch profiler trace, and how an aten call becomes an op. Internal to models/import/kineto*.cpp.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "models/graph/op_graph.hpp"

namespace orrery::models::kineto {

/// A recorded call of an aten operator: shapes, types and values of its arguments by position, as the profiler writes
/// them with record_shapes. A list of tensors has its shapes in `lists`.
struct AtenCall {
  std::string name;
  std::vector<std::vector<std::int64_t>> dims;
  std::vector<std::vector<std::vector<std::int64_t>>> lists;
  std::vector<std::string> types, concrete;
};

/// Adds the op of a call, with inputs of its own; nothing where the call has no counterpart or no shapes.
std::optional<OpId> add_aten(OpGraph& graph, const AtenCall& call, OpNode node);

}  // namespace orrery::models::kineto
