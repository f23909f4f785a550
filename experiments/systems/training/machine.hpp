// The machine of a training run: equal devices in equal nodes, and what a group of ranks has between them
// (hw/network/node_collective.hpp).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "hw/device/device.hpp"
#include "hw/interference/interference.hpp"
#include "hw/network/node_collective.hpp"
#include "hw/parts/link_part.hpp"
#include "policies/offload/offload.hpp"
#include "sim/base/enum_names.hpp"

namespace orrery::experiments::training {

/// Adapters of a node.
struct NodeNics {
  hw::NicPart nic;
  std::int64_t count = 1;
};

/// What launches kernels, s; all zero: it is never waited for. The forward pass is a program in Python, the backward
/// pass is run by the framework's engine.
struct LaunchHost {
  double operator_s = 0;    ///< an op of the forward pass with a kernel, the call included
  double view_s = 0;        ///< an op of it without
  double backward_s = 0;    ///< an op of the backward pass with a kernel
  double collective_s = 0;  ///< a collective between the kernels of a layer, in either pass; 0: as another op
};

/// What training adds to a kernel's price on an idle device; shares above 0, measured on whole runs (docs/fidelity.md
/// says on which rows).
struct InSitu {
  double kernel = 1;      ///< of the speed that the device's model gives its kernels
  double collective = 1;  ///< the same for collectives
  double attention = 1;   ///< of attention in one kernel, beside `kernel`: libraries differ by generation
  double overlapped = 1;  ///< of the speed of collectives that run beside kernels
};

/// What the host of a node does with optimizer states that it holds, per second; its ranks share the first three.
struct HostUpdate {
  double adam_per_s = 0;           ///< parameters updated
  double cast_per_s = 0;           ///< new weights cast to the device's type
  double widen_per_s = 0;          ///< gradients widened to fp32
  double rank_share = 1;           ///< of these rates, what one rank reaches alone
  double staging_bytes_per_s = 0;  ///< of a rank, between states and buffers that the link reads
};

/// Nodes with unlike adapters. A group of ranks whose nodes all have the same uses those; one that straddles kinds uses
/// what all have (Holmes, arXiv 2312.03549).
struct MixedNodes {
  std::vector<NodeNics> kinds;
  std::vector<std::int32_t> kind_of;  ///< of each node, in the order of ranks
  NodeNics common;                    ///< that every node has beside
  bool by_group = true;               ///< else the job chooses once, and uses what all have
};

/// Leaf switches: what leaves one has adapters of a part of the bandwidth.
struct Spine {
  std::int64_t leaf_nodes = 1;
  NodeNics nics;  ///< of a node, as the links to the spine leave them
};

/// A node whose devices are slower.
struct SlowNode {
  std::int64_t node = 0;
  double speed = 1;
};

/// So many equal devices of a machine that has others too.
struct DeviceKind {
  hw::Device device;
  std::int64_t count = 1;
};

/// Who hands out device memory: none, tensors lie anywhere; PyTorch's caching allocator.
enum class Allocator : std::uint8_t { none, caching };
constexpr auto enum_names(Allocator) {
  using enum Allocator;
  return sim::names<Allocator>({{"none", none}, {"caching", caching}});
}

struct TrainingMachine {
  hw::Device device;
  std::vector<DeviceKind> unlike;              ///< in the order of ranks, `device` the first one's; none: all are alike
  std::int64_t devices = 1, node_devices = 1;  ///< in all, and in a node
  std::optional<NodeNics> nics;                ///< none: one node
  std::optional<MixedNodes> mixed;             ///< none: all nodes have `nics`
  std::optional<Spine> spine;                  ///< none: full bisection bandwidth
  std::vector<SlowNode> slow;
  std::optional<hw::LinkPart> host_link;             ///< of a device to its host; none: nothing is kept there
  std::optional<HostUpdate> host_update;             ///< none: the host updates nothing
  std::shared_ptr<const policies::Offload> offload;  ///< of states that the host holds; none: they are streamed
  std::optional<std::int64_t> host_memory;           ///< of a node, for what ranks keep there; none: enough
  Allocator allocator = Allocator::none;
  std::int64_t context_bytes = 0;  ///< of a device, before any tensor: the driver's context, libraries' workspaces
  LaunchHost host;
  InSitu in_situ;
  std::shared_ptr<const hw::Interference> interference;  ///< of work that runs at once; none: nothing is slowed

  /// With the adapters that a group uses between nodes; none: the machine's.
  hw::NodeFabric fabric(const NodeNics* own = nullptr) const {
    if (own == nullptr && nics) own = &*nics;
    return {device.link, node_devices, own != nullptr ? &own->nic : nullptr, own != nullptr ? own->count : 1};
  }
};

/// What devices draw without work for so long, J, and their FLOP/s in a type, all together.
double idle_j(const TrainingMachine& machine, double seconds);
double peak_flops(const TrainingMachine& machine, hw::DType type);
/// "8 h100-sxm5-80gb", of unlike ones joined by " + ".
std::string devices_text(const TrainingMachine& machine);
/// The place in `unlike` of the devices that ranks [first, first + span) are; nothing where they are not all of one.
std::optional<std::size_t> kind_of_ranks(const TrainingMachine& machine, std::int64_t first, std::int64_t span);
/// The machine as ranks of that kind see it: their device alone.
TrainingMachine machine_of_kind(const TrainingMachine& machine, std::size_t kind);

/// Adapters of the slowest group of `ranks`, `stride` apart, among the ranks [first, first + span); none: the
/// machine's.
const NodeNics* group_nics(const TrainingMachine& machine, std::int64_t first, std::int64_t span, std::int64_t ranks,
                           std::int64_t stride);

/// Members of a group that are `stride` ranks apart, the first one at a node's begin.
hw::RankGroup rank_group(const TrainingMachine& machine, std::int64_t ranks, std::int64_t stride);

/// How work that a device does at once slows down, with the collectives of one group.
struct Overlap {
  std::shared_ptr<const hw::Interference> model;  ///< none: nothing is slowed
  hw::CollectiveReach reach = hw::CollectiveReach::node;

  /// Seconds until work that takes `alone_s` by itself is done, all of it started at once.
  double together_s(const hw::PerActivity& alone_s) const {
    return model ? hw::together_s(*model, alone_s, reach) : hw::longest_s(alone_s);
  }
};
Overlap overlap(const TrainingMachine& machine, const hw::RankGroup& group);

/// A collective on `bytes` (as library_collective has them) in a group, all such groups at once, as in_situ has it.
/// `nics`: adapters that it uses between nodes; none: the machine's.
hw::GroupCost collective(const TrainingMachine& machine, hw::LibraryCall call, const hw::RankGroup& group, double bytes,
                         const NodeNics* nics = nullptr);

/// The exchange of rows with the ranks of their experts, `choices` a token; `once`: a token travels once to each rank
/// and node that wants it. Its experts lie on at most `most_nodes` nodes (0: on any).
hw::GroupCost expert_exchange(const TrainingMachine& machine, const hw::RankGroup& group, double bytes,
                              std::int64_t choices, bool once, std::int64_t most_nodes = 0);

/// Why so many devices cannot share a step: they have no links to each other. Nothing if they can.
std::optional<std::string> machine_obstacle(const TrainingMachine& machine, std::int64_t ranks);

/// Messages of so many ranks from `from` on to as many from `to` on, one each and at once: over the links of a node
/// where all stay in one, else over adapters, the slowest pair's where nodes are unlike.
hw::GroupCost message(const TrainingMachine& machine, std::int64_t from, std::int64_t to, std::int64_t ranks,
                      double bytes);
/// Messages from each of so many groups of `ranks`, one behind the other, to the next: the time of the slowest, and the
/// mean of what they draw.
hw::GroupCost slowest_message(const TrainingMachine& machine, std::int64_t ranks, std::int64_t groups, double bytes);

}  // namespace orrery::experiments::training
