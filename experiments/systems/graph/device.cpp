#include "experiments/systems/graph/device.hpp"

#include <fmt/format.h>

#include "experiments/base/catalog.hpp"
#include "experiments/base/config_parts.hpp"
#include "hw/cost/cost_model.hpp"
#include "hw/coupling/platform.hpp"
#include "hw/network/library_collective.hpp"

namespace orrery::experiments::graph {
namespace {

using sim::Node;

void take_platform(const hw::Platform& platform, double tick_s, GraphDevice& device) {
  device.name = platform.name;
  const hw::KernelLaunchParams& launch = platform.params.launch;
  device.limits = hw::limits_of(platform, tick_scale(tick_s));
  device.operator_s = hw::dispatch_time(platform, 0);
  device.view_s = hw::dispatch_time(platform, 1) - device.operator_s;
  device.call_s = launch.call_s;
  device.graph_call_s = launch.graph_call_s;
  device.graph_capture_s = launch.graph_capture_s;
  device.null_kernel_s = launch.null_kernel_s;
  device.graph_node_s = launch.graph_node_s;
  device.persistent_fetch_s = launch.persistent_fetch_s;
  device.to_device = {platform.params.copies.to_device.bandwidth, platform.params.copies.to_device.fixed_s};
  device.to_host = {platform.params.copies.to_host.bandwidth, platform.params.copies.to_host.fixed_s};
}

void take_alone(const MachineParams& params, double tick_s, GraphDevice& device) {
  const DispatchParams& dispatch = params.dispatch;
  device.limits.latency = tick_scale(tick_s).duration(dispatch.latency_s);
  device.limits.queue_entries = dispatch.queue_entries;
  device.operator_s = dispatch.operator_s;
  device.view_s = dispatch.view_s;
  device.call_s = dispatch.call_s;
  device.graph_call_s = dispatch.graph_call_s;
  device.graph_capture_s = dispatch.graph_capture_s;
  device.to_host = device.to_device = params.host_link;
}

/// A part by itself, with the estimate of its die where it names its process.
void take_part(const Node& entry, GraphDevice& device, std::vector<std::filesystem::path>& inputs,
               sim::Faults& faults) {
  device.name = device.device.name;
  device.null_kernel_s = device.device.launch.stream_s;
  device.graph_node_s = device.persistent_fetch_s = device.device.launch.node_s;
  const hw::DieParams* die = device.device.die();
  if (die == nullptr) return;
  const std::filesystem::path file = part_file(die->process, place_of(section(entry, "die"), "process"), faults);
  if (file.empty()) return;
  inputs.push_back(file);
  device.area = device.device.area(hw::read_part<hw::ProcessParams>(file).part);
}

}  // namespace

policies::PassTarget GraphTarget::for_passes() const {
  return {.name = name,
          .cost = device.model.get(),
          .launch_in_cost_s = device.launch.in_cost_s,
          .call_s = call_s,
          .copy_latency_s = link.latency_s,
          .copy_bandwidth = link.bandwidth};
}

std::int32_t GraphDevice::target_of(const models::OpNode& op) const {
  if (op.target.empty()) return -1;
  const auto found = std::ranges::find(targets, op.target, &GraphTarget::name);
  return found == targets.end() ? -1 : static_cast<std::int32_t>(found - targets.begin());
}

double GraphDevice::kernel_s(double cost_s, hw::LaunchStyle style) const {
  const double work_s = cost_s > device.launch.in_cost_s ? cost_s - device.launch.in_cost_s : 0;
  switch (style) {
    case hw::LaunchStyle::stream:
      return work_s + null_kernel_s;
    case hw::LaunchStyle::graph:
      return work_s + graph_node_s;
    case hw::LaunchStyle::persistent:
      return work_s + persistent_fetch_s;
  }
  return cost_s;
}

double GraphDevice::transfer_s(const models::GraphTransfer& transfer) const {
  const auto bytes = static_cast<double>(transfer.bytes);
  const auto collective = [&](hw::LibraryCall call, std::int64_t whole) {
    return hw::library_collective(peer, call, transfer.ranks, whole).time_s;
  };
  using models::OpKind;
  switch (transfer.kind) {
    case OpKind::to_host:
      return to_host.latency_s + bytes / to_host.bandwidth;
    case OpKind::to_device:
      return to_device.latency_s + bytes / to_device.bandwidth;
    case OpKind::all_reduce:
      return collective(hw::LibraryCall::all_reduce, transfer.bytes);
    case OpKind::reduce_scatter:
      return collective(hw::LibraryCall::reduce_scatter, transfer.bytes);
    case OpKind::all_to_all:
      return collective(hw::LibraryCall::all_to_all, transfer.bytes);
    case OpKind::all_gather:  // `bytes` of each rank
      return collective(hw::LibraryCall::all_gather, transfer.bytes * transfer.ranks);
    default:
      return collective(hw::LibraryCall::send_recv, transfer.bytes);
  }
}

namespace {

/// The link to devices like it: as the config says, or the part's own, or a plain one.
hw::LinkParams peer_link(const MachineParams& params, const hw::Device& device) {
  if (!params.peer_link && device.link.bandwidth > 0) return device.link;
  const LinkChoice link = params.peer_link.value_or(LinkChoice{});
  return hw::plain_link(link.bandwidth, link.latency_s);
}

/// The devices beside it; each name once.
void read_targets(const Node& machine, const MachineParams& params, GraphDevice& device,
                  std::vector<std::filesystem::path>& inputs, sim::Faults& faults) {
  for (std::size_t i = 0; i < params.targets.size(); ++i) {
    const TargetChoice& choice = params.targets[i];
    const Node& node = machine.find("targets")->items()[i];
    if (std::ranges::find(device.targets, choice.name, &GraphTarget::name) != device.targets.end())
      faults.add(place_of(node, "name"), "expected another name, '" + choice.name + "' is that of one before");
    const Node entry = read_part_entry(node, choice.part, inputs, faults);
    if (!entry.is_object()) continue;
    const auto part = hw::parse_computing_part(entry, choice.override_, faults);
    if (!part) continue;
    auto made = hw::make_device(part->name, part->part, params.cost, place_of(machine, "cost"), faults);
    if (made) device.targets.push_back({choice.name, *std::move(made), choice.call_s, choice.link});
  }
}

}  // namespace

std::shared_ptr<const GraphDevice> read_device(const Node& machine, const MachineParams& params, double tick_s,
                                               std::vector<std::filesystem::path>& inputs, sim::Faults& faults) {
  const hw::CostModelRegistry::Choice& cost = params.cost;
  if (!machine.is_object()) return nullptr;
  if (params.platform.has_value() == params.device.has_value()) {
    faults.add(machine.origin(), "expected either a 'platform' or a 'device'");
    return nullptr;
  }
  auto device = std::make_shared<GraphDevice>();
  if (cost.make) read_targets(machine, params, *device, inputs, faults);
  if (params.platform) {
    const auto platform = read_platform_choice(*machine.find("platform"), *params.platform, inputs, faults);
    if (!platform || !cost.make) return nullptr;
    auto made = hw::make_device(platform->params.gpu, platform->gpu, cost, place_of(machine, "cost"), faults);
    if (!made) return nullptr;
    device->device = *std::move(made);
    device->peer = peer_link(params, device->device);
    take_platform(*platform, tick_s, *device);
    return device;
  }
  const Node entry = read_part_entry(*machine.find("device"), params.device->part, inputs, faults);
  if (!entry.is_object() || !cost.make) return nullptr;
  const auto part = hw::parse_computing_part(entry, params.device->override_, faults);
  if (!part) return nullptr;
  auto made = hw::make_device(part->name, part->part, cost, place_of(machine, "cost"), faults);
  if (!made) return nullptr;
  device->device = *std::move(made);
  device->peer = peer_link(params, device->device);
  take_alone(params, tick_s, *device);
  take_part(entry, *device, inputs, faults);
  return faults.empty() ? device : nullptr;
}

}  // namespace orrery::experiments::graph
