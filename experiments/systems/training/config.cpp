#include "experiments/systems/training/config.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "experiments/base/named_part.hpp"
#include "experiments/systems/training/best_plan.hpp"

namespace orrery::experiments::training {
namespace {

using sim::Node;

void read_devices(const Node& machine, const MachineParams& params, TrainingConfig& config, sim::Faults& faults) {
  const Node* groups = machine.find("devices");
  if (groups == nullptr) return;
  if (params.devices.empty()) {
    faults.add(groups->origin(), "expected one group of devices, got none");
    return;
  }
  if (params.devices.size() > 1) {
    faults.add(groups->origin(), "expected one group: unlike devices in one training run are not modelled");
    return;
  }
  const DeviceGroup& group = params.devices.front();
  const Node& node = groups->items().front();
  const Node entry = read_part_entry(node, group.part, config.inputs, faults);
  if (!entry.is_object() || !params.cost.make) return;
  auto part = hw::parse_computing_part(entry, group.override_, faults);
  if (!part) return;
  if (params.attention) {
    auto* gpu = std::get_if<hw::GpuParams>(&part->part);
    if (gpu == nullptr) {
      faults.add(place_of(machine, "attention"), "expected none: libraries of attention are those of GPUs");
      return;
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
  if (!device) return;
  if (const auto why = device->alone_obstacle()) {
    faults.add(place_of(node, "part"), *why);
    return;
  }
  config.machine.device = *std::move(device);
  config.machine.devices = group.count;
}

/// Nodes with unlike adapters.
void read_clusters(const Node& machine, const MachineParams& params, TrainingConfig& config, sim::Faults& faults) {
  MixedNodes mixed{.by_group = params.network == NetworkChoice::group};
  std::vector<std::int64_t> left;
  std::int64_t nodes = 0;
  for (std::size_t i = 0; i < params.clusters.size(); ++i) {
    const Node& node = machine.find("clusters")->items()[i];
    const auto nic = read_named_part<hw::NicPart>(params.clusters[i].nic, place_of(node, "nic"), config.inputs, faults);
    if (!nic) return;
    mixed.kinds.push_back({*nic, params.clusters[i].nics});
    left.push_back(params.clusters[i].nodes);
    nodes += params.clusters[i].nodes;
  }
  if (nodes * params.node.devices != config.machine.devices) {
    faults.add(place_of(machine, "clusters"),
               fmt::format("expected nodes for {} devices, {} of {} have {}", config.machine.devices, nodes,
                           params.node.devices, nodes * params.node.devices));
    return;
  }
  const auto common = read_named_part<hw::NicPart>(params.common.nic, place_of(section(machine, "common"), "nic"),
                                                   config.inputs, faults);
  if (!common) return;
  mixed.common = {*common, params.common.nics};
  // The order of nodes: all of a cluster, or one of each in turns while there are some.
  for (std::size_t i = 0; std::ssize(mixed.kind_of) < nodes; i = (i + 1) % left.size()) {
    const std::int64_t count = params.order == NodeOrder::by_cluster ? left[i] : std::min<std::int64_t>(1, left[i]);
    mixed.kind_of.insert(mixed.kind_of.end(), static_cast<std::size_t>(count), static_cast<std::int32_t>(i));
    left[i] -= count;
  }
  config.machine.nics = mixed.common;
  config.machine.mixed = std::move(mixed);
}

void read_links(const Node& machine, const MachineParams& params, TrainingConfig& config, sim::Faults& faults) {
  config.machine.node_devices = params.node.devices;
  if (!params.clusters.empty()) return read_clusters(machine, params, config, faults);
  if (config.machine.devices > params.node.devices)
    if (const auto nic = read_named_part<hw::NicPart>(params.node.nic, place_of(section(machine, "node"), "nic"),
                                                      config.inputs, faults))
      config.machine.nics = NodeNics{*nic, params.node.nics};
  if (!params.host_link.empty())
    config.machine.host_link =
        read_named_part<hw::LinkPart>(params.host_link, place_of(machine, "host_link"), config.inputs, faults);
}

/// Leaf switches and stragglers.
void read_irregular(const Node& machine, const MachineParams& params, TrainingConfig& config, sim::Faults& faults) {
  if (params.spine && config.machine.mixed) {
    faults.add(place_of(machine, "spine"),
               "expected none: leaf switches over nodes with unlike adapters are not modelled");
    return;
  }
  if (params.spine && config.machine.nics) {
    NodeNics nics = *config.machine.nics;
    nics.nic.bandwidth *= params.spine->share / params.spine->oversubscription;
    config.machine.spine = Spine{params.spine->leaf_nodes, nics};
  }
  const std::int64_t nodes = (config.machine.devices + config.machine.node_devices - 1) / config.machine.node_devices;
  for (std::size_t i = 0; i < params.slow.size(); ++i) {
    const SlowNodeParams& slow = params.slow[i];
    const Node& node = machine.find("slow_nodes")->items()[i];
    if (slow.node >= nodes)
      faults.add(place_of(node, "node"), fmt::format("expected a node from 0 to {}, got {}", nodes - 1, slow.node));
    for (std::size_t k = 0; k < i; ++k)
      if (params.slow[k].node == slow.node)
        faults.add(place_of(node, "node"),
                   fmt::format("expected each node once, {} is slow_nodes.{}'s too", slow.node, k));
    config.machine.slow.push_back({slow.node, slow.speed});
  }
}

void read_model(const Node& node, const ModelParams& params, TrainingConfig& config, sim::Faults& faults) {
  if (!node.is_object()) return;
  if ((node.find("builder") == nullptr) == (node.find("import") == nullptr)) {
    faults.add(node.origin(), "expected either a 'builder' or an 'import'");
    return;
  }
  auto loaded = build_or_import(params.builder, params.import_, node.origin(), faults);
  if (!loaded) return;
  if (loaded->file) config.inputs.push_back(*loaded->file);
  config.notes = std::move(loaded->notes);
  config.model.forward = std::move(loaded->graph);
  for (const models::Symbol symbol : config.model.forward.symbols())
    if (symbol.name() != "batch" && symbol.name() != "tokens") {
      faults.add(node.origin(),
                 fmt::format("expected a graph over 'batch' and 'tokens', it has dimension '{}' too", symbol.name()));
      return;
    }
  try {
    (void)one_layer(config.model.forward);
  } catch (const models::GraphError& error) {
    faults.add(node.origin(), error.what());
  }
}

}  // namespace

TrainingConfig read_training_config(const Node& root, const sim::RegistrySet& registries, sim::Faults& faults) {
  TrainingConfig config;
  config.file = root.origin().file;
  config.params = read_sections<TrainingParams>(root, registries, faults);
  TrainingParams& params = config.params;
  check_tick(section(root, "run"), params.run.tick_s, faults);
  const Node machine = section(root, "machine");
  if (machine.is_object() && faults.empty()) {
    read_devices(machine, params.machine, config, faults);
    read_links(machine, params.machine, config, faults);
    read_irregular(machine, params.machine, config, faults);
    const HostParams& host = params.machine.host;
    config.machine.host = {host.operator_s, host.view_s, host.backward_s, host.collective_s};
    const InSituParams& in_situ = params.machine.in_situ;
    config.machine.in_situ = {in_situ.kernel, in_situ.collective, in_situ.attention, in_situ.overlapped};
  }
  config.machine.context_bytes = params.machine.context_bytes;
  if (params.policies.offload.make) config.machine.offload = params.policies.offload.make();
  if (const auto& host = params.machine.host_update)
    config.machine.host_update = {host->adam, host->cast, host->widen, host->rank_share, host->staging};
  if (faults.empty()) read_model(section(root, "model"), params.model, config, faults);
  config.model.sequence = params.workload.sequence;
  const Node policies = section(root, "policies");
  if (policies.is_object()) {
    const Node passes = section(policies, "passes");
    config.model.passes_at = passes.origin();
    params.policies.passes = read_passes(passes, registries.get<policies::PassRegistry>(), config.model.passes, faults);
  }
  if (faults.empty()) config.resolved = resolved_config("training", params);
  if (faults.empty() && params.plan.best_by) take_best_plan(section(root, "plan"), registries, config, faults);
  return config;
}

}  // namespace orrery::experiments::training
