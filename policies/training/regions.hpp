// Regions of a forward pass, by the scopes of its ops: "layer.*" makes a region of each layer.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "models/graph/op_graph.hpp"

namespace orrery::policies {

inline constexpr std::int32_t kNoRegion = -1;

/// Region of each op, by index; kNoRegion for those of other passes and of no region. A region is all forward ops whose
/// scope begins as `pattern` says ('*' stands for one part between dots), `every` consecutive ones together; regions
/// are numbered in the order of their first ops.
std::vector<std::int32_t> forward_regions(const models::OpGraph& graph, std::string_view pattern,
                                          std::int64_t every = 1);

}  // namespace orrery::policies
