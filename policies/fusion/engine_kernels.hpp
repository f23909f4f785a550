// Kernels of an inference engine's libraries in the place of a framework's modules.
#pragma once

#include <cstdint>

#include "models/graph/op_graph.hpp"

namespace orrery::policies {

/// What became one kernel.
struct EngineKernels {
  std::int64_t rotations = 0, gates = 0, cache_writes = 0, expert_sorts = 0;
};

/// The graph with these kernels; nothing else changes. See engine_kernels.cpp.
models::OpGraph with_engine_kernels(const models::OpGraph& graph, EngineKernels& made);

}  // namespace orrery::policies
