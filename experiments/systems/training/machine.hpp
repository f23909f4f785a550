// The machine of a training run: equal devices in equal nodes, and what a group of ranks has between them.
//
// A collective inside a node costs what its library makes of the device's link (hw/network/library_collective.hpp).
// Across nodes it is a ring, or a tree where that is sooner, whose slowest hop is the node's adapters: a group that has
// g ranks in a node gets g / D of its adapters, for the other D - g devices' groups send at the same time.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "hw/device/device.hpp"
#include "hw/network/library_collective.hpp"
#include "hw/parts/nic.hpp"

namespace orrery::experiments::training {

/// Adapters of a node.
struct NodeNics {
  hw::NicPart nic;
  std::int64_t count = 1;
};

/// What launches kernels, s; all zero: it is never waited for. The forward pass is a program in Python, the backward
/// pass is run by the framework's engine.
struct LaunchHost {
  double operator_s = 0;  ///< an op of the forward pass with a kernel, the call included
  double view_s = 0;      ///< an op of it without
  double backward_s = 0;  ///< an op of the backward pass with a kernel
};

/// What training adds to a kernel's price on an idle device; shares above 0. `--training` of `orrery calibrate` fits
/// these.
struct InSitu {
  double kernel = 1;      ///< of the speed that the device's model gives its kernels
  double collective = 1;  ///< the same for collectives
  double attention = 1;   ///< of attention in one kernel, beside `kernel`: libraries differ by generation
  double overlapped = 1;  ///< of the speed of collectives that run beside kernels
};

struct TrainingMachine {
  hw::Device device;
  std::int64_t devices = 1, node_devices = 1;  ///< in all, and in a node
  std::optional<NodeNics> nics;                ///< none: one node
  LaunchHost host;
  InSitu in_situ;
};

/// Ranks that communicate: how many, and how many of them lie in a node.
struct RankGroup {
  std::int64_t ranks = 1, in_node = 1;
};

/// Members of a group that are `stride` ranks apart, the first one at a node's begin.
RankGroup rank_group(const TrainingMachine& machine, std::int64_t ranks, std::int64_t stride);

/// Seconds of a collective on `bytes` (as library_collective has them) in a group, all such groups at once.
double collective_s(const TrainingMachine& machine, hw::LibraryCall call, const RankGroup& group, double bytes);

/// Why so many devices cannot share a step: they have no links to each other. Nothing if they can.
std::optional<std::string> machine_obstacle(const TrainingMachine& machine, std::int64_t ranks);

/// Seconds of a message to the rank that is `stride` further, every rank at once.
double message_s(const TrainingMachine& machine, std::int64_t stride, double bytes);

}  // namespace orrery::experiments::training
