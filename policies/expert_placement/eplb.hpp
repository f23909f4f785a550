// The expert-parallelism load balancer of DeepSeek-V3 (github.com/deepseek-ai/EPLB), of one layer.
#pragma once

#include <functional>

#include "policies/expert_placement/expert_placement.hpp"

namespace orrery::policies {

struct EplbMachine {
  std::int64_t slots = 1, gpus = 1, nodes = 1, groups = 1;
};

/// What each of so many replicas of an expert of that load is taken to bear.
using ReplicaShare = std::function<double(double load, double replicas)>;

/// The expert in each slot, GPU after GPU. Where groups share out over nodes: groups to nodes, replicas inside each
/// node, replicas to its GPUs (hierarchical). Else the same with one node and one group (global). `share`: in place of
/// load / replicas.
std::vector<std::int64_t> eplb_slots(
    const std::vector<double>& loads, EplbMachine machine,
    const ReplicaShare& share = [](double load, double replicas) { return load / replicas; });

}  // namespace orrery::policies
