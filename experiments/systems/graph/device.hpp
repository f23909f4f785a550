// The device of a graph experiment and the thread that dispatches to it.
//
// Either a platform of the catalog (a CPU coupled to a GPU, all constants measured or named there), or any computing
// part with dispatch constants in the config. A kernel of a stream lasts what a null kernel lasts and its work; where a
// part stands alone, what its cost model says.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "experiments/base/catalog.hpp"
#include "experiments/base/platform_choice.hpp"
#include "hw/cost/cost_model.hpp"
#include "hw/coupling/launch_program.hpp"
#include "hw/device/device.hpp"
#include "models/graph/graph_lowering.hpp"
#include "policies/base/graph_pass.hpp"
#include "sim/base/params.hpp"

namespace orrery::experiments::graph {

struct DeviceChoice {
  std::string part;
  sim::Node override_;
  static constexpr auto fields() {
    using sim::Unit;
    using D = DeviceChoice;
    return sim::FieldTable{
        names_part(sim::required(sim::field("part", &D::part, Unit::reference, sim::any_value(),
                                            "Computing part: GPU, NPU, CPU, FPGA, or memory with compute units."))),
        sim::annotated(
            sim::field("override", &D::override_, "Fields of the part to change."),
            [](sim::FieldInfo& info, const sim::RegistrySet*) { info.nested = hw::computing_part_fields(); }),
    };
  }
};

/// Host and front end of a part that stands alone.
struct DispatchParams {
  double operator_s = 10e-6, view_s = 2e-6, call_s = 3e-6, latency_s = 2e-6;
  double graph_call_s = 5e-6, graph_capture_s = 2e-6;
  std::int64_t queue_entries = 1024;
  static constexpr auto fields() {
    using sim::Unit;
    using D = DispatchParams;
    constexpr sim::Range kTime = sim::between(0, 1);
    return sim::FieldTable{
        sim::field("operator", &D::operator_s, Unit::seconds, kTime,
                   "Framework time of an operator that launches a kernel."),
        sim::field("view", &D::view_s, Unit::seconds, kTime, "Framework time of an operator that launches no kernel."),
        sim::field("call", &D::call_s, Unit::seconds, kTime, "CPU time of a launch call."),
        sim::field("latency", &D::latency_s, Unit::seconds, kTime,
                   "Time from the start of the launch call to the start of the kernel on an idle device."),
        sim::field("graph_call", &D::graph_call_s, Unit::seconds, kTime, "CPU time to launch a captured graph."),
        sim::field("graph_capture", &D::graph_capture_s, Unit::seconds, kTime,
                   "CPU time per node to instantiate a graph, once."),
        sim::field("queue_entries", &D::queue_entries, Unit::count, sim::between(1, 1 << 24),
                   "Launches that can wait in the queue at a time."),
    };
  }
};

/// Links to the host and to other devices, for ops that send.
struct LinkChoice {
  double bandwidth = 25e9, latency_s = 10e-6;
  static constexpr auto fields() {
    using sim::Unit;
    return sim::FieldTable{
        sim::field("bandwidth", &LinkChoice::bandwidth, Unit::bytes_per_s, sim::positive(),
                   "Bandwidth in each direction."),
        sim::field("latency", &LinkChoice::latency_s, Unit::seconds, sim::between(0, 1),
                   "Latency of one transfer or step."),
    };
  }
};

/// A device beside it, which runs the ops that a pass gives it (OpNode::target).
struct TargetChoice {
  std::string name;
  std::string part;
  sim::Node override_;
  double call_s = 10e-6;
  LinkChoice link;
  static constexpr auto fields() {
    using sim::Unit;
    using T = TargetChoice;
    return sim::FieldTable{
        sim::required(sim::field("name", &T::name, Unit::text, sim::any_value(),
                                 "Name that marks the operators that this target runs.")),
        names_part(sim::required(
            sim::field("part", &T::part, Unit::reference, sim::any_value(), "Computing part from the catalog."))),
        sim::annotated(
            sim::field("override", &T::override_, "Fields of the part to change."),
            [](sim::FieldInfo& info, const sim::RegistrySet*) { info.nested = hw::computing_part_fields(); }),
        sim::field("call", &T::call_s, Unit::seconds, sim::between(0, 1),
                   "Time of a call, independent of its number of operators."),
        sim::field("link", &T::link, "Link between host memory and the target's own memory."),
    };
  }
};

struct MachineParams {
  std::optional<PlatformChoice> platform;
  std::optional<DeviceChoice> device;
  std::vector<TargetChoice> targets;
  DispatchParams dispatch;
  LinkChoice host_link;
  std::optional<LinkChoice> peer_link;
  hw::CostModelRegistry::Choice cost;
  static constexpr auto fields() {
    using M = MachineParams;
    return sim::FieldTable{
        sim::field("platform", &M::platform, "Platform, a CPU coupled to a GPU; either this or `device`."),
        sim::field("device", &M::device, "Computing part from the catalog; either this or `platform`."),
        sim::field("targets", &M::targets, "Further devices, each with a link to the host."),
        sim::field("dispatch", &M::dispatch, "Dispatch costs of the host and the front end, for a `device`."),
        sim::field("host_link", &M::host_link, "Link for to_host and to_device, if no platform is given."),
        sim::field("peer_link", &M::peer_link,
                   "Link for collectives, send and recv; null: the link of the part, if it has one."),
        sim::choice("cost", &M::cost, "by_kind", "Cost model of the device."),
    };
  }
};

struct GraphTarget {
  std::string name;
  hw::Device device;
  double call_s = 0;
  LinkChoice link;
  /// As passes know it; this must outlive it.
  policies::PassTarget for_passes() const;
};

struct GraphDevice {
  std::string name;  ///< of the platform or the part
  hw::Device device;
  hw::LaunchLimits limits;
  double operator_s = 0, view_s = 0, call_s = 0, graph_call_s = 0, graph_capture_s = 0;
  double null_kernel_s = 0, graph_node_s = 0, persistent_fetch_s = 0;  ///< in place of the device's launch.in_cost_s
  LinkChoice to_host, to_device;
  hw::LinkParams peer;
  std::vector<GraphTarget> targets;
  std::optional<hw::AreaEstimate> area;  ///< of a part that names its process

  /// Duration of a kernel on the device, s.
  double kernel_s(double cost_s, hw::LaunchStyle style) const;
  /// Number of the target that an op carries; -1: it runs here, as all do whose target is no device of the machine.
  std::int32_t target_of(const models::OpNode& op) const;
  /// Duration of a transfer among its ranks, s: the library's collectives (hw/network/library_collective.hpp).
  double transfer_s(const models::GraphTransfer& transfer) const;
};

/// Reads the machine; null after a fault. `inputs` receives the catalog files.
std::shared_ptr<const GraphDevice> read_device(const sim::Node& machine, const MachineParams& params, double tick_s,
                                               std::vector<std::filesystem::path>& inputs, sim::Faults& faults);

}  // namespace orrery::experiments::graph
