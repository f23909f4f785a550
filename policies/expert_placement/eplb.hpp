// The expert-parallelism load balancer of DeepSeek-V3 (github.com/deepseek-ai/EPLB), of one layer.
#pragma once

#include "policies/expert_placement/expert_placement.hpp"

namespace orrery::policies {

struct EplbMachine {
  std::int64_t slots = 1, gpus = 1, nodes = 1, groups = 1;
};

/// The expert in each slot, GPU after GPU. Where groups share out over nodes: groups to nodes, replicas inside each
/// node, replicas to its GPUs (hierarchical). Else the same with one node and one group (global).
std::vector<std::int64_t> eplb_slots(const std::vector<double>& loads, EplbMachine machine);

}  // namespace orrery::policies
