#include <fmt/format.h>

#include <algorithm>

#include "experiments/base/named_part.hpp"
#include "experiments/systems/training/config.hpp"

namespace orrery::experiments::training {
namespace {

using sim::Node;

struct Reading {
  TrainingMachine& machine;
  std::vector<std::filesystem::path>& inputs;
};

/// The devices of a group; nothing where the config is at fault.
std::optional<hw::Device> read_group(const Node& machine, const Node& node, const DeviceGroup& group,
                                     const MachineParams& params, Reading& to, sim::Faults& faults) {
  const Node entry = read_part_entry(node, group.part, to.inputs, faults);
  if (!entry.is_object() || !params.cost.make) return std::nullopt;
  auto part = hw::parse_computing_part(entry, group.override_, faults);
  if (!part) return std::nullopt;
  if (params.attention) {
    auto* gpu = std::get_if<hw::GpuParams>(&part->part);
    if (gpu == nullptr) {
      faults.add(place_of(machine, "attention"), "expected none: libraries of attention are those of GPUs");
      return std::nullopt;
    }
    std::vector<std::string_view> known;
    for (const hw::AttentionLibrary library : hw::attention_libraries(*gpu)) known.push_back(sim::to_string(library));
    if (std::ranges::find(known, sim::to_string(*params.attention)) == known.end())
      faults.add(place_of(machine, "attention"),
                 fmt::format("expected {}, of which {} has constants, got {}", fmt::join(known, " or "), part->name,
                             sim::to_string(*params.attention)));
    *gpu = hw::with_attention(std::move(*gpu), *params.attention);
  }
  auto device = hw::make_device(part->name, part->part, params.cost, place_of(machine, "cost"), faults);
  if (!device) return std::nullopt;
  if (const auto why = device->alone_obstacle()) {
    faults.add(place_of(node, "part"), *why);
    return std::nullopt;
  }
  return device;
}

void read_devices(const Node& machine, const MachineParams& params, bool unlike, Reading& to, sim::Faults& faults) {
  const Node* groups = machine.find("devices");
  if (groups == nullptr) return;
  if (params.devices.empty()) {
    faults.add(groups->origin(), "expected one group of devices, got none");
    return;
  }
  if (params.devices.size() > 1 && !unlike) {
    faults.add(groups->origin(), "expected one group: unlike devices are those of system training alone");
    return;
  }
  std::vector<DeviceKind> kinds;
  for (std::size_t i = 0; i < params.devices.size(); ++i) {
    const DeviceGroup& group = params.devices[i];
    auto device = read_group(machine, groups->items()[i], group, params, to, faults);
    if (!device) return;
    to.machine.devices = (i == 0 ? 0 : to.machine.devices) + group.count;
    if (params.devices.size() > 1 && group.count % params.node.devices != 0)
      faults.add(
          place_of(groups->items()[i], "count"),
          fmt::format("expected whole nodes of {} beside unlike devices, got {}", params.node.devices, group.count));
    kinds.push_back({*std::move(device), group.count});
  }
  to.machine.device = kinds.front().device;
  if (kinds.size() > 1) to.machine.unlike = std::move(kinds);
}

/// Nodes with unlike adapters.
void read_clusters(const Node& machine, const MachineParams& params, Reading& to, sim::Faults& faults) {
  MixedNodes mixed{.by_group = params.network == NetworkChoice::group};
  std::vector<std::int64_t> left;
  std::int64_t nodes = 0;
  for (std::size_t i = 0; i < params.clusters.size(); ++i) {
    const Node& node = machine.find("clusters")->items()[i];
    const auto nic = read_named_part<hw::NicPart>(params.clusters[i].nic, place_of(node, "nic"), to.inputs, faults);
    if (!nic) return;
    mixed.kinds.push_back({*nic, params.clusters[i].nics});
    left.push_back(params.clusters[i].nodes);
    nodes += params.clusters[i].nodes;
  }
  if (nodes * params.node.devices != to.machine.devices) {
    faults.add(place_of(machine, "clusters"),
               fmt::format("expected nodes for {} devices, {} of {} have {}", to.machine.devices, nodes,
                           params.node.devices, nodes * params.node.devices));
    return;
  }
  const auto common =
      read_named_part<hw::NicPart>(params.common.nic, place_of(section(machine, "common"), "nic"), to.inputs, faults);
  if (!common) return;
  mixed.common = {*common, params.common.nics};
  // The order of nodes: all of a cluster, or one of each in turns while there are some.
  for (std::size_t i = 0; std::ssize(mixed.kind_of) < nodes; i = (i + 1) % left.size()) {
    const std::int64_t count = params.order == NodeOrder::by_cluster ? left[i] : std::min<std::int64_t>(1, left[i]);
    mixed.kind_of.insert(mixed.kind_of.end(), static_cast<std::size_t>(count), static_cast<std::int32_t>(i));
    left[i] -= count;
  }
  to.machine.nics = mixed.common;
  to.machine.mixed = std::move(mixed);
}

void read_links(const Node& machine, const MachineParams& params, Reading& to, sim::Faults& faults) {
  to.machine.node_devices = params.node.devices;
  if (!params.host_link.empty())
    to.machine.host_link =
        read_named_part<hw::LinkPart>(params.host_link, place_of(machine, "host_link"), to.inputs, faults);
  if (!params.clusters.empty()) return read_clusters(machine, params, to, faults);
  if (to.machine.devices > params.node.devices)
    if (const auto nic =
            read_named_part<hw::NicPart>(params.node.nic, place_of(section(machine, "node"), "nic"), to.inputs, faults))
      to.machine.nics = NodeNics{*nic, params.node.nics};
}

/// Leaf switches and stragglers.
void read_irregular(const Node& machine, const MachineParams& params, Reading& to, sim::Faults& faults) {
  if (params.spine && to.machine.mixed) {
    faults.add(place_of(machine, "spine"),
               "expected none: leaf switches over nodes with unlike adapters are not modelled");
    return;
  }
  if (params.spine && to.machine.nics) {
    NodeNics nics = *to.machine.nics;
    nics.nic.bandwidth *= params.spine->share / params.spine->oversubscription;
    to.machine.spine = Spine{params.spine->leaf_nodes, nics};
  }
  const std::int64_t nodes = (to.machine.devices + to.machine.node_devices - 1) / to.machine.node_devices;
  for (std::size_t i = 0; i < params.slow.size(); ++i) {
    const SlowNodeParams& slow = params.slow[i];
    const Node& node = machine.find("slow_nodes")->items()[i];
    if (slow.node >= nodes)
      faults.add(place_of(node, "node"), fmt::format("expected a node from 0 to {}, got {}", nodes - 1, slow.node));
    for (std::size_t k = 0; k < i; ++k)
      if (params.slow[k].node == slow.node)
        faults.add(place_of(node, "node"),
                   fmt::format("expected each node once, {} is slow_nodes.{}'s too", slow.node, k));
    to.machine.slow.push_back({slow.node, slow.speed});
  }
}

/// How work that runs at once slows down; a machine says it once.
void read_interference(const Node& machine, const MachineParams& params, Reading& to, sim::Faults& faults) {
  if (!params.interference.make) return;
  std::shared_ptr<const hw::Interference> model = params.interference.make();
  const sim::Origin where = place_of(machine, "interference");
  if (const auto why = model->fault()) return faults.add(where, *why);
  if (hw::slows_nothing(*model)) return;
  if (params.in_situ.overlapped != 1)
    faults.add(where, "expected `none` beside in_situ.overlapped, which slows collectives beside kernels too");
  to.machine.interference = std::move(model);
}

}  // namespace

TrainingMachine read_training_machine(const Node& node, const MachineParams& params,
                                      std::vector<std::filesystem::path>& inputs, sim::Faults& faults, bool unlike) {
  TrainingMachine machine;
  Reading to{machine, inputs};
  read_devices(node, params, unlike, to, faults);
  read_links(node, params, to, faults);
  read_irregular(node, params, to, faults);
  read_interference(node, params, to, faults);
  const HostParams& host = params.host;
  machine.host = {host.operator_s, host.view_s, host.backward_s, host.collective_s};
  const InSituParams& in_situ = params.in_situ;
  machine.in_situ = {in_situ.kernel, in_situ.collective, in_situ.attention, in_situ.overlapped};
  machine.context_bytes = params.context_bytes;
  machine.host_memory = params.host_memory;
  machine.allocator = params.allocator;
  if (const auto& update = params.host_update)
    machine.host_update = {update->adam, update->cast, update->widen, update->rank_share, update->staging};
  return machine;
}

}  // namespace orrery::experiments::training
