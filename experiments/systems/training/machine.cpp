#include "experiments/systems/training/machine.hpp"

#include <algorithm>

namespace orrery::experiments::training {
namespace {

hw::GroupCost in_situ(const TrainingMachine& machine, hw::GroupCost cost) {
  cost.time_s /= machine.in_situ.collective;
  return cost;
}

}  // namespace

std::optional<std::string> machine_obstacle(const TrainingMachine& machine, std::int64_t ranks) {
  const std::int64_t in_node = std::min(ranks, machine.node_devices);
  return in_node > 1 ? machine.device.rank_obstacle(in_node) : std::nullopt;
}

hw::RankGroup rank_group(const TrainingMachine& machine, std::int64_t ranks, std::int64_t stride) {
  return hw::rank_group(machine.fabric(), ranks, stride);
}

hw::GroupCost collective(const TrainingMachine& machine, hw::LibraryCall call, const hw::RankGroup& group,
                         double bytes) {
  return in_situ(machine, hw::node_collective(machine.fabric(), call, group, bytes));
}

hw::GroupCost expert_exchange(const TrainingMachine& machine, const hw::RankGroup& group, double bytes,
                              std::int64_t choices, bool once) {
  if (!once) return collective(machine, hw::LibraryCall::all_to_all, group, bytes);
  return in_situ(machine, hw::routed_exchange(machine.fabric(), group, bytes, choices));
}

hw::GroupCost message(const TrainingMachine& machine, std::int64_t stride, double bytes) {
  return in_situ(machine, hw::node_message(machine.fabric(), stride, bytes));
}

}  // namespace orrery::experiments::training
