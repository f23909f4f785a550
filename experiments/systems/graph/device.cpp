#include "experiments/systems/graph/device.hpp"

#include <fmt/format.h>

#include "experiments/base/catalog.hpp"
#include "experiments/base/config_parts.hpp"
#include "hw/coupling/platform.hpp"

namespace orrery::experiments::graph {
namespace {

using sim::Node;

void take_gpu(const hw::GpuParams& gpu, const hw::CostModelRegistry::Choice& cost, GraphDevice& device) {
  device.cost = cost.make(gpu);
  device.idle_w = gpu.power.idle_w;
  device.memory_bytes = gpu.memory_bytes;
  device.scratch_bytes = gpu.l1_bytes * gpu.sms;
  device.cores = gpu.sms;
}

void take_platform(const hw::Platform& platform, const hw::CostModelRegistry::Choice& cost, double tick_s,
                   GraphDevice& device) {
  device.name = platform.name;
  take_gpu(platform.gpu, cost, device);
  const hw::KernelLaunchParams& launch = platform.params.launch;
  device.limits = hw::limits_of(platform, tick_scale(tick_s));
  device.operator_s = hw::dispatch_time(platform, 0);
  device.view_s = hw::dispatch_time(platform, 1) - device.operator_s;
  device.call_s = launch.call_s;
  device.graph_call_s = launch.graph_call_s;
  device.graph_capture_s = launch.graph_capture_s;
  device.cost_launch_s = platform.gpu.launch_s();
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

/// The estimate of the die of a part that names its process.
template <class Part>
void take_area(const Node& entry, const Part& part, GraphDevice& device, std::vector<std::filesystem::path>& inputs,
               sim::Faults& faults) {
  if (part.die.process.empty()) return;
  const std::filesystem::path file = part_file(part.die.process, place_of(section(entry, "die"), "process"), faults);
  if (file.empty()) return;
  inputs.push_back(file);
  device.area = hw::estimate_area(part, hw::read_part<hw::ProcessParams>(file).part);
}

/// A GPU or an NPU by itself; false after a fault.
bool take_part(const Node& entry, const hw::CostModelRegistry::Choice& cost, GraphDevice& device,
               std::vector<std::filesystem::path>& inputs, sim::Faults& faults) {
  const Node* kind = entry.find("kind");
  const std::string what = kind != nullptr && kind->is_string() ? kind->as_string() : "";
  if (what == hw::NpuParams::kKind) {
    const auto part = hw::parse_part<hw::NpuParams>(entry, faults);
    if (!faults.empty()) return false;
    device.name = part.name;
    device.cost = hw::npu_cost_model(part.part);
    device.idle_w = part.part.power.idle_w;
    device.memory_bytes = part.part.memory_bytes;
    device.scratch_bytes = part.part.scratch.unified * part.part.cores;
    device.cores = part.part.cores;
    device.cost_launch_s = device.null_kernel_s = part.part.launch_s;
    device.access_s = part.part.memory_latency_s + part.part.dma.fixed_s;
    device.graph_node_s = device.persistent_fetch_s = part.part.launch_s;
    take_area(entry, part.part, device, inputs, faults);
    return faults.empty();
  }
  if (what != hw::GpuParams::kKind) {
    faults.add(kind == nullptr ? entry.origin() : kind->origin(),
               fmt::format("expected a part of kind gpu or npu, got {}", what.empty() ? "none" : "'" + what + "'"));
    return false;
  }
  const auto part = hw::parse_part<hw::GpuParams>(entry, faults);
  if (!faults.empty()) return false;
  device.name = part.name;
  take_gpu(part.part, cost, device);
  // The launch floor of a stream holds the call's latency, which `dispatch` has; a graph's node is the kernel alone.
  device.cost_launch_s = part.part.launch_s();
  device.null_kernel_s = device.graph_node_s = device.persistent_fetch_s = part.part.launch_graph_s;
  take_area(entry, part.part, device, inputs, faults);
  return faults.empty();
}

}  // namespace

double GraphDevice::kernel_s(double cost_s, hw::LaunchStyle style) const {
  const double work_s = cost_s > cost_launch_s ? cost_s - cost_launch_s : 0;
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
  const auto bytes = static_cast<double>(transfer.bytes), ranks = static_cast<double>(transfer.ranks);
  using models::OpKind;
  switch (transfer.kind) {
    case OpKind::to_host:
      return to_host.latency_s + bytes / to_host.bandwidth;
    case OpKind::to_device:
      return to_device.latency_s + bytes / to_device.bandwidth;
    case OpKind::all_reduce:  // of a buffer of `bytes`: 2 (n-1) steps of a part each
      return ranks < 2 ? 0 : 2 * (ranks - 1) * (peer.latency_s + bytes / ranks / peer.bandwidth);
    case OpKind::reduce_scatter:
    case OpKind::all_to_all:  // of a buffer of `bytes`: n-1 steps of a part each
      return ranks < 2 ? 0 : (ranks - 1) * (peer.latency_s + bytes / ranks / peer.bandwidth);
    case OpKind::all_gather:  // `bytes` of each rank
      return ranks < 2 ? 0 : (ranks - 1) * (peer.latency_s + bytes / peer.bandwidth);
    default:
      return peer.latency_s + bytes / peer.bandwidth;
  }
}

std::shared_ptr<const GraphDevice> read_device(const Node& machine, const MachineParams& params, double tick_s,
                                               std::vector<std::filesystem::path>& inputs, sim::Faults& faults) {
  const hw::CostModelRegistry::Choice& cost = params.cost;
  if (!machine.is_object()) return nullptr;
  if (params.platform.has_value() == params.device.has_value()) {
    faults.add(machine.origin(), "expected either a 'platform' or a 'device'");
    return nullptr;
  }
  auto device = std::make_shared<GraphDevice>();
  device->peer = params.peer_link;
  if (params.platform) {
    const auto platform = read_platform_choice(*machine.find("platform"), *params.platform, inputs, faults);
    if (!platform || !cost.make) return nullptr;
    take_platform(*platform, cost, tick_s, *device);
    return device;
  }
  const Node entry =
      read_part_entry(*machine.find("device"), params.device->part, params.device->override_, inputs, faults);
  if (!entry.is_object() || !cost.make) return nullptr;
  take_alone(params, tick_s, *device);
  return take_part(entry, cost, *device, inputs, faults) ? device : nullptr;
}

}  // namespace orrery::experiments::graph
