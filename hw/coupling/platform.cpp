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

}  // namespace orrery::hw
