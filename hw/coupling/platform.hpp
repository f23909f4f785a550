// A platform: one CPU thread that dispatches to one GPU, and what lies between them.
//
// Parts stand by name; docs/explain/coupling.md tells where each constant comes from. Three groups of constants:
//   dispatch  what the framework's CPU code costs per operator, on a core of single_thread speed 1; a platform's cost
//   is
//             that over the speed of its own core. Driver calls are not scaled: they are measured per platform.
//   launch    the driver and the GPU's front end: call, latency from the call's start to the kernel's, duration of a
//             kernel that does nothing, entries of the launch queue, costs of graphs and persistent kernels.
//   copies    fixed cost + bytes / bandwidth per direction; pageable memory goes through a pinned staging buffer that a
//             CPU thread fills, unless the link is coherent; pages migrate on a fault, unless the link is coherent.
// Left out: several dispatching threads, interrupts and scheduling noise, contention of copies with kernels for device
// memory.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "hw/gpu/gpu.hpp"
#include "hw/parts/catalog.hpp"
#include "hw/parts/cpu.hpp"
#include "sim/base/params.hpp"

namespace orrery::hw {

/// What lies between host and device.
enum class HostLink : std::uint8_t { pcie3_x16, pcie4_x16, pcie5_x16, nvlink_c2c };
constexpr auto enum_names(HostLink) {
  using enum HostLink;
  return sim::names<HostLink>(
      {{"pcie3_x16", pcie3_x16}, {"pcie4_x16", pcie4_x16}, {"pcie5_x16", pcie5_x16}, {"nvlink_c2c", nvlink_c2c}});
}

/// Peak of a link per direction, B/s: what a data sheet says, and what no measured bandwidth can exceed.
double peak_bandwidth(HostLink link);
/// Whether both processors see each other's memory without copying pages.
constexpr bool is_coherent(HostLink link) {
  return link == HostLink::nvlink_c2c;
}

/// CPU time of the framework, on a core of single_thread speed 1, driver calls excluded.
struct DispatchParams {
  double operator_s = 0, view_s = 0, tracer_s = 0;
  static sim::FieldRows<DispatchParams> fields();
};

struct KernelLaunchParams {
  double call_s = 0, latency_s = 0, null_kernel_s = 0;
  std::int64_t queue_entries = 1024;
  std::int64_t concurrent_kernels = 1;
  double graph_call_s = 0, graph_node_s = 0, graph_capture_s = 0, persistent_fetch_s = 0;
  static sim::FieldRows<KernelLaunchParams> fields();
};

/// One direction of copying between pinned memory and the device.
struct CopyPath {
  double fixed_s = 0, bandwidth = 0;
  static sim::FieldRows<CopyPath> fields();
};

struct CopyParams {
  CopyPath to_device, to_host;
  std::int64_t engines = 2;
  double staging_bandwidth = 0;
  std::int64_t staging_bytes = 1 << 21;
  static sim::FieldRows<CopyParams> fields();
};

struct MigrationParams {
  std::int64_t page_bytes = 65536;
  double fault_s = 0, prefetch_s = 0;
  static sim::FieldRows<MigrationParams> fields();
};

/// A CPU, a GPU and what couples them. Times in s, bandwidths in B/s.
struct PlatformParams {
  static constexpr std::string_view kKind = "platform";
  std::string cpu, gpu;
  HostLink link = HostLink::pcie4_x16;
  DispatchParams dispatch;
  KernelLaunchParams launch;
  CopyParams copies;
  MigrationParams migration;

  static sim::FieldRows<PlatformParams> fields();

  /// Faults that no single field shows: bandwidths above the link's peak.
  static void check(const PlatformParams& platform, const sim::Node& fields, sim::Faults& faults);
};

/// A platform with its parts.
struct Platform {
  std::string name;
  PlatformParams params;
  CpuParams cpu;
  GpuParams gpu;
};

/// Reads a platform from a catalog node, and its parts from the files of the folder `catalog`; every fault goes to
/// `faults`.
Platform parse_platform(const sim::Node& node, const std::filesystem::path& catalog, sim::Faults& faults);
/// Reads the platform of that name. Throws sim::ConfigError with all faults.
Platform read_platform(const std::string& name, const std::filesystem::path& catalog);

/// Framework time of an operator with `views` further operators that launch nothing, on the platform's core, s.
double dispatch_time(const Platform& platform, std::int64_t views);

/// Duration of a kernel in a stream, s: a null kernel's, and the work. `cost_s` is what a CostModel says, its launch
/// included.
double stream_duration(const Platform& platform, double cost_s);
/// The same as a node of a graph, and as a piece of work of a persistent kernel.
double graph_duration(const Platform& platform, double cost_s);
double persistent_duration(const Platform& platform, double cost_s);

}  // namespace orrery::hw
