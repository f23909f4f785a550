// `torus`: hosts on an n-dimensional grid, each cabled to the next along every dimension; a dimension that does not
// wrap is a mesh's. The first dimension varies fastest: host x + X (y + Y z).
//
//   hosts N = product of extents; cables: N along a dimension that wraps, N - N/k along one of extent k that does not.
//   A dimension of extent 2 has one cable, not two side by side, whether it wraps or not.
//   Bisection: cut the dimension with the least cut, N/k times bandwidth, twice that where it wraps (k > 2).
//   Diameter: sum of floor(k/2) where it wraps, k - 1 where not.
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <vector>

#include "hw/network/topology_build.hpp"

namespace orrery::hw {
namespace {

struct DimensionParams {
  std::int64_t extent = 1;
  bool wrap = true;
  double bandwidth = 0;
  double latency_s = 0;
  static constexpr auto fields() {
    using sim::Unit;
    return sim::FieldTable{
        sim::required(sim::field("extent", &DimensionParams::extent, Unit::count, sim::at_least(1),
                                 "Number of hosts along the dimension.")),
        sim::field("wrap", &DimensionParams::wrap,
                   "Whether the dimension closes to a ring; otherwise it is open, as in a mesh."),
        sim::required(sim::field("bandwidth", &DimensionParams::bandwidth, Unit::bytes_per_s, sim::positive(),
                                 "Bandwidth of a cable along the dimension, each way.")),
        sim::required(sim::field("latency", &DimensionParams::latency_s, Unit::seconds, sim::between(0, 1),
                                 "Latency of a cable along the dimension, including what its end adds.")),
    };
  }
};

struct TorusParams {
  std::vector<DimensionParams> dimensions;
  static constexpr auto fields() {
    return sim::FieldTable{sim::required(
        sim::field("dimensions", &TorusParams::dimensions, "Dimensions of the grid, the fastest varying first."))};
  }
};

TopologyShape shape_of(const std::vector<DimensionParams>& axes, double hosts) {
  TopologyShape shape;
  double cut = std::numeric_limits<double>::infinity();
  shape.diameter = 0;
  shape.longest_latency_s = 0;
  for (const DimensionParams& axis : axes) {
    const double extent = static_cast<double>(axis.extent);
    const bool ring = axis.wrap && axis.extent > 2;
    if (axis.extent > 1) cut = std::min(cut, hosts / extent * (ring ? 2 : 1) * axis.bandwidth);
    const std::int64_t far = axis.wrap ? axis.extent / 2 : axis.extent - 1;
    *shape.diameter += far;
    *shape.longest_latency_s += static_cast<double>(far) * axis.latency_s;
    shape.extents.push_back(axis.extent);
    shape.wraps.push_back(axis.wrap);
  }
  shape.bisection_bytes_per_s = cut;
  return shape;
}

/// "h1.0.2": coordinates in the order of the extents.
std::string name_at(const std::vector<std::int64_t>& at) {
  std::string name = "h";
  for (std::size_t d = 0; d < at.size(); ++d) name += fmt::format("{}{}", d == 0 ? "" : ".", at[d]);
  return name;
}

std::unique_ptr<Topology> build_torus(const TorusParams& params, const sim::Origin& where, sim::Faults& faults) {
  auto topology = std::make_unique<Topology>();
  topology->kind = "torus";
  const std::vector<DimensionParams>& axes = params.dimensions;
  if (axes.empty()) {
    faults.add(below(where, "dimensions"), "expected at least one dimension, got none");
    return nullptr;
  }
  double hosts = 1;
  for (const DimensionParams& axis : axes) hosts *= static_cast<double>(axis.extent);
  if (hosts < 2) {
    faults.add(below(where, "dimensions"), "expected at least two hosts, got one");
    return nullptr;
  }
  if (!fits(*topology, {hosts, 0, hosts * static_cast<double>(axes.size())}, where, faults)) return nullptr;
  topology->hosts = static_cast<std::int64_t>(hosts);
  std::vector<std::int64_t> at(axes.size(), 0);
  for (std::int64_t h = 0; h < topology->hosts; ++h) {
    add_node(*topology, name_at(at));
    for (std::size_t d = 0; d < at.size() && ++at[d] == axes[d].extent; ++d) at[d] = 0;
  }
  std::int64_t stride = 1;
  for (const DimensionParams& axis : axes) {
    for (std::int64_t h = 0; h < topology->hosts; ++h) {
      const std::int64_t x = h / stride % axis.extent;
      const bool last = x == axis.extent - 1;
      if (last && (!axis.wrap || axis.extent <= 2)) continue;
      const std::int64_t next = last ? h - x * stride : h + stride;
      add_cable(*topology, static_cast<NodeIndex>(h), static_cast<NodeIndex>(next), {axis.bandwidth, axis.latency_s});
    }
    stride *= axis.extent;
  }
  topology->hosts_forward = true;
  topology->shape = shape_of(axes, hosts);
  return topology;
}

}  // namespace

void register_torus(TopologyRegistry& registry) {
  registry.add<TorusParams>(
      "torus", "An n-dimensional grid, each dimension of which wraps round (torus) or not (mesh).", build_torus);
}

}  // namespace orrery::hw
