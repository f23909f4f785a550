#include "hw/coupling/platform.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

namespace orrery::hw {

double peak_bandwidth(HostLink link) {
  switch (link) {
    case HostLink::pcie3_x16:
      return 15.75e9;  // 8 GT/s x 16 lanes x 128/130
    case HostLink::pcie4_x16:
      return 31.5e9;
    case HostLink::pcie5_x16:
      return 63e9;
    case HostLink::nvlink_c2c:
      return 450e9;  // NVIDIA GH200 data sheet: 900 GB/s, both directions together
  }
  return 0;
}

void PlatformParams::check(const PlatformParams& platform, const sim::Node& fields, sim::Faults& faults) {
  const double peak = peak_bandwidth(platform.link);
  const auto check = [&](const CopyPath& path, const char* place) {
    if (path.bandwidth > peak)
      faults.add(fields.origin_at(place), fmt::format("expected at most {}, the peak of the link per direction, got {}",
                                                      sim::humanise(peak, sim::Unit::bytes_per_s),
                                                      sim::humanise(path.bandwidth, sim::Unit::bytes_per_s)));
  };
  check(platform.copies.to_device, "copies.to_device.bandwidth");
  check(platform.copies.to_host, "copies.to_host.bandwidth");
}

namespace {

/// The file of a part that a platform names, or nothing and a fault.
std::optional<sim::Node> part_node(const std::string& reference, const std::filesystem::path& catalog,
                                   const sim::Origin& where, sim::Faults& faults) {
  const std::string name = reference.starts_with("catalog:") ? reference.substr(8) : reference;
  const std::filesystem::path path = catalog / (name + ".json");
  std::error_code ignored;
  if (std::filesystem::is_regular_file(path, ignored)) return sim::read_config(path);
  faults.add(where, fmt::format("expected a part of the catalog, found no '{}'", name));
  return std::nullopt;
}

}  // namespace

Platform parse_platform(const sim::Node& node, const std::filesystem::path& catalog, sim::Faults& faults) {
  Platform platform;
  const std::size_t before = faults.size();
  auto entry = parse_part<PlatformParams>(node, faults);
  platform.name = entry.name;
  platform.params = std::move(entry.part);
  if (faults.size() != before) return platform;
  const auto place = [&](const char* key) { return node.find(key)->origin(); };
  if (const auto cpu = part_node(platform.params.cpu, catalog, place("cpu"), faults))
    platform.cpu = parse_part<CpuParams>(*cpu, faults).part;
  if (const auto gpu = part_node(platform.params.gpu, catalog, place("gpu"), faults))
    platform.gpu = parse_part<GpuParams>(*gpu, faults).part;
  return platform;
}

Platform read_platform(const std::string& name, const std::filesystem::path& catalog) {
  sim::Faults faults;
  Platform platform = parse_platform(sim::read_config(catalog / (name + ".json")), catalog, faults);
  faults.throw_if_any();
  return platform;
}

double dispatch_time(const Platform& platform, std::int64_t views) {
  const DispatchParams& dispatch = platform.params.dispatch;
  return (dispatch.operator_s + dispatch.tracer_s + static_cast<double>(views) * dispatch.view_s) /
         platform.cpu.single_thread;
}

namespace {
double work_s(const Platform& platform, double cost_s) {
  return std::max(0.0, cost_s - platform.gpu.launch_s());
}
}  // namespace

double stream_duration(const Platform& platform, double cost_s) {
  return platform.params.launch.null_kernel_s + work_s(platform, cost_s);
}
double graph_duration(const Platform& platform, double cost_s) {
  return platform.params.launch.graph_node_s + work_s(platform, cost_s);
}
double persistent_duration(const Platform& platform, double cost_s) {
  return platform.params.launch.persistent_fetch_s + work_s(platform, cost_s);
}

sim::FieldRows<DispatchParams> DispatchParams::fields() {
  using sim::Unit;
  static const sim::FieldTable table{
      sim::required(sim::field("operator", &DispatchParams::operator_s, Unit::seconds, sim::between(0, 1),
                               "Framework time of an operator that launches kernels, without the launch calls.")),
      sim::field("view", &DispatchParams::view_s, Unit::seconds, sim::between(0, 1),
                 "Framework time of an operator that makes a view and launches nothing."),
      sim::field("tracer", &DispatchParams::tracer_s, Unit::seconds, sim::between(0, 1),
                 "Time that tracing adds to an operator that launches kernels, including all that nests in it; 0: no "
                 "tracing."),
  };
  return table;
}

sim::FieldRows<KernelLaunchParams> KernelLaunchParams::fields() {
  using sim::Unit;
  constexpr sim::Range kTime = sim::between(0, 1);
  using P = KernelLaunchParams;
  static const sim::FieldTable table{
      sim::required(sim::field("call", &P::call_s, Unit::seconds, kTime, "CPU time of a launch call.")),
      sim::required(sim::field("latency", &P::latency_s, Unit::seconds, kTime,
                               "Time from the start of the launch call to the start of the kernel on an idle device.")),
      sim::required(
          sim::field("null_kernel", &P::null_kernel_s, Unit::seconds, kTime,
                     "Duration of an empty kernel, which each kernel of a stream costs in addition to its work.")),
      sim::field("queue_entries", &P::queue_entries, Unit::count, sim::between(1, 1 << 24),
                 "Most launches that may wait in the queue; beyond that, the CPU blocks in the next call."),
      sim::field("concurrent_kernels", &P::concurrent_kernels, Unit::count, sim::between(1, 128),
                 "Most kernels of different streams that run at once without slowing each other."),
      sim::field("graph_call", &P::graph_call_s, Unit::seconds, kTime, "CPU time to launch a captured graph."),
      sim::required(
          sim::field("graph_node", &P::graph_node_s, Unit::seconds, kTime, "Duration of an empty node of a graph.")),
      sim::field("graph_capture", &P::graph_capture_s, Unit::seconds, kTime,
                 "CPU time per node to instantiate a graph, once. The capture itself also dispatches every operator."),
      sim::required(sim::field("persistent_fetch", &P::persistent_fetch_s, Unit::seconds, kTime,
                               "Time that a persistent kernel takes to fetch its next piece of work and synchronise.")),
  };
  return table;
}

sim::FieldRows<CopyPath> CopyPath::fields() {
  using sim::Unit;
  static const sim::FieldTable table{
      sim::field("fixed", &CopyPath::fixed_s, Unit::seconds, sim::between(0, 1), "Fixed time of a copy of any size."),
      sim::required(sim::field("bandwidth", &CopyPath::bandwidth, Unit::bytes_per_s, sim::positive(),
                               "Bandwidth that large copies between pinned memory and the device reach.")),
  };
  return table;
}

sim::FieldRows<CopyParams> CopyParams::fields() {
  using sim::Unit;
  static const sim::FieldTable table{
      sim::required(sim::field("to_device", &CopyParams::to_device, "Copies from host to device.")),
      sim::required(sim::field("to_host", &CopyParams::to_host, "Copies from device to host.")),
      sim::field("engines", &CopyParams::engines, Unit::count, sim::between(1, 16),
                 "Most copies that run at once; each takes the whole bandwidth of its direction."),
      sim::field("staging_bandwidth", &CopyParams::staging_bandwidth, Unit::bytes_per_s, sim::at_least(0),
                 "Rate at which a CPU thread copies pageable memory to the staging buffer. 0: half of a core's memory "
                 "bandwidth, since it reads and writes."),
      sim::field("staging_buffer", &CopyParams::staging_bytes, Unit::bytes, sim::positive(),
                 "Size of the pieces in which pageable memory is staged; a piece is sent while the next is staged."),
  };
  return table;
}

sim::FieldRows<MigrationParams> MigrationParams::fields() {
  using sim::Unit;
  static const sim::FieldTable table{
      sim::field("page", &MigrationParams::page_bytes, Unit::bytes, sim::positive(),
                 "Size of a page, which a fault brings over."),
      sim::field("fault", &MigrationParams::fault_s, Unit::seconds, sim::between(0, 1),
                 "Time to handle a fault, without the transfer; faults are handled one after another."),
      sim::field("prefetch", &MigrationParams::prefetch_s, Unit::seconds, sim::between(0, 1),
                 "Fixed time of a prefetch of any size."),
  };
  return table;
}

sim::FieldRows<PlatformParams> PlatformParams::fields() {
  using sim::Unit;
  using P = PlatformParams;
  static const sim::FieldTable table{
      sim::required(sim::field("cpu", &P::cpu, Unit::none, sim::any_value(),
                               "CPU, a part of the catalog, whose core dispatches.")),
      sim::required(sim::field("gpu", &P::gpu, Unit::none, sim::any_value(),
                               "GPU, a part of the catalog, that runs the kernels.")),
      sim::required(sim::field("link", &P::link, "Link between host and device.")),
      sim::required(sim::field("dispatch", &P::dispatch, "CPU time of the framework.")),
      sim::required(
          sim::field("launch", &P::launch, "Costs of kernel launches, in the driver and the front end of the device.")),
      sim::required(sim::field("copies", &P::copies, "Copies between host and device.")),
      sim::field("migration", &P::migration, "Managed memory, whose pages migrate on a fault."),
  };
  return table;
}

}  // namespace orrery::hw
