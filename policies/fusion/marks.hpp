// Marks: kernels that stay apart but share one launch.
//
// Two integer attributes of ops, read by whoever executes a graph. Ops of one `stack` number stand next to each other
// and go to the device in one launch, as leaves of one stacked kernel: their data still passes through memory. Ops of
// one `capture` number are nodes of one captured graph, which is launched by one call; a replay costs the device a
// small sum for every node.
#pragma once

#include <cstdint>
#include <string_view>

#include "models/graph/op_graph.hpp"

namespace orrery::policies {

inline constexpr std::string_view kStackMark = "stack";
inline constexpr std::string_view kCaptureMark = "capture";

/// Launches of a graph: ops that launch a kernel, those of one mark counted once. A loop counts what one trip launches,
/// a branch its first side.
std::int64_t count_launches(const models::OpGraph& graph);
/// Kernels, whatever they share.
std::int64_t count_kernels(const models::OpGraph& graph);

}  // namespace orrery::policies
