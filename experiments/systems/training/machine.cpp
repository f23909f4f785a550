#include "experiments/systems/training/machine.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace orrery::experiments::training {
namespace {

hw::GroupCost in_situ(const TrainingMachine& machine, hw::GroupCost cost) {
  cost.time_s /= machine.in_situ.collective;
  return cost;
}

double speed(const NodeNics& nics) {
  return static_cast<double>(nics.count) * hw::achieved_bandwidth(nics.nic);
}

const NodeNics* slower(const NodeNics* a, const NodeNics* b) {
  if (a == nullptr || b == nullptr) return a == nullptr ? b : a;
  return speed(*a) <= speed(*b) ? a : b;
}

std::int32_t kind_of(const TrainingMachine& machine, std::int64_t rank) {
  return machine.mixed->kind_of[static_cast<std::size_t>(rank / machine.node_devices)];
}

const NodeNics* nics_of(const MixedNodes& mixed, std::int32_t kind, bool alike) {
  return alike && mixed.by_group ? &mixed.kinds[static_cast<std::size_t>(kind)] : &mixed.common;
}

/// Those of the spine where a group of ranks in [first, first + span) leaves its leaf; else none.
const NodeNics* leaves_nics(const TrainingMachine& machine, std::int64_t first, std::int64_t span, std::int64_t ranks,
                            std::int64_t stride) {
  const std::int64_t leaf = machine.spine->leaf_nodes * machine.node_devices;
  for (std::int64_t base = first; base < first + span; base += ranks * stride)
    for (const std::int64_t begin : {base, base + stride - 1}) {
      const std::int64_t last = begin + (ranks - 1) * stride;
      if (last < first + span && begin / leaf != last / leaf) return &machine.spine->nics;
    }
  return nullptr;
}

/// Whether a leaf has too few nodes for a group.
bool leaves(const TrainingMachine& machine, const hw::RankGroup& group) {
  return machine.spine && group.ranks > machine.spine->leaf_nodes * group.in_node;
}

/// Of a rank.
const hw::Device& device_of(const TrainingMachine& machine, std::int64_t rank) {
  for (const DeviceKind& kind : machine.unlike) {
    if (rank < kind.count) return kind.device;
    rank -= kind.count;
  }
  return machine.device;
}

const NodeNics* pair_nics(const TrainingMachine& machine, std::int64_t a, std::int64_t b) {
  const std::int32_t kind = kind_of(machine, a);
  return nics_of(*machine.mixed, kind, kind == kind_of(machine, b));
}

}  // namespace

const NodeNics* group_nics(const TrainingMachine& machine, std::int64_t first, std::int64_t span, std::int64_t ranks,
                           std::int64_t stride) {
  if (machine.spine) return leaves_nics(machine, first, span, ranks, stride);
  if (!machine.mixed) return nullptr;
  const NodeNics* nics = nullptr;
  for (std::int64_t base = first; base < first + span; base += ranks * stride)
    for (std::int64_t begin = base; begin < base + stride; ++begin) {
      if (begin + (ranks - 1) * stride >= first + span) break;
      const std::int32_t kind = kind_of(machine, begin);
      bool alike = true;
      for (std::int64_t i = 1; i < ranks && alike; ++i) alike = kind_of(machine, begin + i * stride) == kind;
      nics = slower(nics, nics_of(*machine.mixed, kind, alike));
    }
  return nics;
}

std::optional<std::string> machine_obstacle(const TrainingMachine& machine, std::int64_t ranks) {
  const std::int64_t in_node = std::min(ranks, machine.node_devices);
  if (in_node < 2) return std::nullopt;
  for (const DeviceKind& kind : machine.unlike)
    if (auto why = kind.device.rank_obstacle(in_node)) return why;
  return machine.device.rank_obstacle(in_node);
}

hw::RankGroup rank_group(const TrainingMachine& machine, std::int64_t ranks, std::int64_t stride) {
  return hw::rank_group(machine.fabric(), ranks, stride);
}

Overlap overlap(const TrainingMachine& machine, const hw::RankGroup& group) {
  return {machine.interference,
          group.ranks > group.in_node ? hw::CollectiveReach::network : hw::CollectiveReach::node};
}

hw::GroupCost collective(const TrainingMachine& machine, hw::LibraryCall call, const hw::RankGroup& group, double bytes,
                         const NodeNics* nics) {
  if (nics == nullptr && leaves(machine, group)) nics = &machine.spine->nics;
  return in_situ(machine, hw::node_collective(machine.fabric(nics), call, group, bytes));
}

double idle_j(const TrainingMachine& machine, double seconds) {
  const auto of = [&](const hw::Device& device, std::int64_t count) {
    return device.power.idle_w * seconds * static_cast<double>(count);
  };
  if (machine.unlike.empty()) return of(machine.device, machine.devices);
  double sum = 0;
  for (const DeviceKind& kind : machine.unlike) sum += of(kind.device, kind.count);
  return sum;
}

double peak_flops(const TrainingMachine& machine, hw::DType type) {
  if (machine.unlike.empty()) return machine.device.peak(type) * static_cast<double>(machine.devices);
  double sum = 0;
  for (const DeviceKind& kind : machine.unlike) sum += kind.device.peak(type) * static_cast<double>(kind.count);
  return sum;
}

std::string devices_text(const TrainingMachine& machine) {
  if (machine.unlike.empty()) return fmt::format("{} {}", machine.devices, machine.device.name);
  std::string text;
  for (const DeviceKind& kind : machine.unlike)
    text += fmt::format("{}{} {}", text.empty() ? "" : " + ", kind.count, kind.device.name);
  return text;
}

std::optional<std::size_t> kind_of_ranks(const TrainingMachine& machine, std::int64_t first, std::int64_t span) {
  std::int64_t begin = 0;
  for (std::size_t k = 0; k < machine.unlike.size(); begin += machine.unlike[k++].count)
    if (first >= begin && first + span <= begin + machine.unlike[k].count) return k;
  return std::nullopt;
}

TrainingMachine machine_of_kind(const TrainingMachine& machine, std::size_t kind) {
  TrainingMachine own = machine;
  own.device = machine.unlike[kind].device;
  own.unlike.clear();
  return own;
}

hw::GroupCost expert_exchange(const TrainingMachine& machine, const hw::RankGroup& group, double bytes,
                              std::int64_t choices, bool once, std::int64_t most_nodes) {
  if (!once) return collective(machine, hw::LibraryCall::all_to_all, group, bytes);
  const hw::NodeFabric fabric = machine.fabric(leaves(machine, group) ? &machine.spine->nics : nullptr);
  return in_situ(machine, hw::routed_exchange(fabric, group, bytes, choices, most_nodes));
}

hw::GroupCost message(const TrainingMachine& machine, std::int64_t from, std::int64_t to, std::int64_t ranks,
                      double bytes) {
  // Of ranks in a row the first or the last crosses wherever any does.
  const auto crosses = [&](std::int64_t size) {
    return from / size != to / size || (from + ranks - 1) / size != (to + ranks - 1) / size;
  };
  const NodeNics* nics = nullptr;
  if (machine.mixed)
    for (std::int64_t i = 0; i < ranks && std::max(from, to) + i < machine.devices; ++i)
      nics = slower(nics, pair_nics(machine, from + i, to + i));
  if (machine.spine && crosses(machine.spine->leaf_nodes * machine.node_devices)) nics = &machine.spine->nics;
  // Over the links of the devices that send.
  const hw::NodeFabric whole = machine.fabric(nics);
  const hw::NodeFabric fabric{device_of(machine, from).link, whole.devices, whole.nic, whole.nics};
  if (fabric.nic == nullptr || !crosses(machine.node_devices))
    return in_situ(machine, hw::node_message(fabric, 1, bytes));
  return in_situ(machine, hw::message_between_nodes(fabric, std::min(ranks, machine.node_devices), bytes));
}

hw::GroupCost slowest_message(const TrainingMachine& machine, std::int64_t ranks, std::int64_t groups, double bytes) {
  const auto hop = [&](std::int64_t group) {
    return message(machine, group * ranks, (group + 1) * ranks, ranks, bytes);
  };
  hw::GroupCost all;
  for (std::int64_t group = 0; group + 1 < groups; ++group) {
    const hw::GroupCost own = hop(group);
    all.time_s = std::max(all.time_s, own.time_s);
    all.energy_j += own.energy_j / static_cast<double>(groups - 1);
  }
  return all;
}

}  // namespace orrery::experiments::training
