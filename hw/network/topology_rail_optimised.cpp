// `rail_optimised`: machines of G GPUs behind an NVSwitch; the NIC of GPU i of every machine of a pod goes to the pod's
// rail switch i; spines, if any, join all rail switches (NVIDIA DGX SuperPOD reference architecture, "rail-optimized").
//
//   m machines, pods of p machines: hosts m G, switches m + ceil(m/p) G + spines, cables 2 m G + rail switches spines
//   cables. Without spines GPUs pass on for each other (hosts_forward): that is the only way between rails.
//   NVLink's switches are one node: a message is spread over all of them by hardware, while a path takes one.
//   Bisection (machines even; one pod, or the halves are whole pods): the NICs of half the GPUs, or the spine cables of
//   half the rail switches where the halves are pods and that is less.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>

#include "hw/network/topology_build.hpp"

namespace orrery::hw {
namespace {

struct RailParams {
  std::int64_t machines = 2;
  std::int64_t gpus = 8;
  double nvlink_bandwidth = 0;
  double nvlink_latency_s = 0;
  double nic_bandwidth = 0;
  double nic_latency_s = 0;
  std::optional<std::int64_t> pod_machines;
  std::int64_t spines = 0;
  std::int64_t spine_cables = 1;
  std::optional<double> spine_bandwidth;
  std::optional<double> spine_latency_s;
  static constexpr auto fields() {
    using sim::Unit;
    return sim::FieldTable{
        sim::required(
            sim::field("machines", &RailParams::machines, Unit::count, sim::at_least(1), "Number of machines.")),
        sim::required(sim::field("gpus", &RailParams::gpus, Unit::count, sim::at_least(1),
                                 "Number of GPUs per machine, each with its own NIC, and so of rails.")),
        sim::required(sim::field("nvlink_bandwidth", &RailParams::nvlink_bandwidth, Unit::bytes_per_s, sim::positive(),
                                 "Bandwidth of a GPU into its NVSwitch, each way, over all its links.")),
        sim::required(sim::field("nvlink_latency", &RailParams::nvlink_latency_s, Unit::seconds, sim::between(0, 1),
                                 "Latency of one link; a message from GPU to GPU crosses two.")),
        sim::required(sim::field("nic_bandwidth", &RailParams::nic_bandwidth, Unit::bytes_per_s, sim::positive(),
                                 "Bandwidth of a NIC, each way.")),
        sim::required(sim::field("nic_latency", &RailParams::nic_latency_s, Unit::seconds, sim::between(0, 1),
                                 "Latency from a GPU through its NIC to the rail switch.")),
        sim::field("pod_machines", &RailParams::pod_machines, Unit::count, sim::at_least(1),
                   "Number of machines that share rail switches; null: all."),
        sim::field("spines", &RailParams::spines, Unit::count, sim::at_least(0),
                   "Number of spine switches above the rail switches."),
        sim::field("spine_cables", &RailParams::spine_cables, Unit::count, sim::at_least(1),
                   "Number of parallel cables from each rail switch to each spine."),
        sim::field("spine_bandwidth", &RailParams::spine_bandwidth, Unit::bytes_per_s, sim::positive(),
                   "Bandwidth of one spine cable, each way; must be given with spines."),
        sim::field("spine_latency", &RailParams::spine_latency_s, Unit::seconds, sim::between(0, 1),
                   "Latency of one link to a spine; must be given with spines."),
    };
  }
};

bool consistent(const RailParams& params, std::int64_t pods, const sim::Origin& where, sim::Faults& faults) {
  const std::size_t before = faults.size();
  (void)has_bandwidth(params.nvlink_bandwidth, "nvlink_bandwidth", where, faults);
  (void)has_bandwidth(params.nic_bandwidth, "nic_bandwidth", where, faults);
  if (params.machines * params.gpus < 2) faults.add(below(where, "machines"), "expected at least two GPUs, got one");
  if (params.spines > 0) {
    if (!params.spine_bandwidth)
      faults.add(below(where, "spine_bandwidth"), "missing: spines need the bandwidth of their cables");
    if (!params.spine_latency_s)
      faults.add(below(where, "spine_latency"), "missing: spines need the latency of their cables");
  } else if (pods > 1) {
    faults.add(below(where, "spines"),
               fmt::format("expected at least 1: nothing joins {} pods of {} machines", pods, *params.pod_machines));
  }
  return faults.size() == before;
}

TopologyShape shape_of(const RailParams& params, std::int64_t pods) {
  TopologyShape shape;
  shape.rails = params.gpus;
  const double half_gpus = static_cast<double>(params.machines / 2 * params.gpus);
  const double nics = half_gpus * params.nic_bandwidth;
  const double uplink = static_cast<double>(params.spines * params.spine_cables) * params.spine_bandwidth.value_or(0);
  if (params.machines % 2 == 0 && pods == 1) shape.bisection_bytes_per_s = nics;
  // Halves that are whole pods of equal size: all that crosses goes over spines, rail by rail.
  if (pods > 1 && pods % 2 == 0 && params.machines % pods == 0)
    shape.bisection_bytes_per_s = std::min(nics, static_cast<double>(pods / 2 * params.gpus) * uplink);
  const bool spines = params.spines > 0;
  const bool rails = params.gpus > 1;
  const double same_rail_s = 2 * params.nic_latency_s;
  const double inside_s = 2 * params.nvlink_latency_s;
  const double across_s = spines ? same_rail_s + 2 * *params.spine_latency_s : same_rail_s + inside_s;
  const bool across = params.machines > 1 && (rails || pods > 1);
  shape.diameter = across ? 4 : 2;
  double longest_s = rails ? inside_s : 0;
  if (params.machines > 1) longest_s = std::max(longest_s, same_rail_s);
  shape.longest_latency_s = across ? std::max(longest_s, across_s) : longest_s;
  return shape;
}

std::unique_ptr<Topology> build_rail_optimised(const RailParams& params, const sim::Origin& where,
                                               sim::Faults& faults) {
  auto topology = std::make_unique<Topology>();
  topology->kind = "rail_optimised";
  const std::int64_t per_pod = std::min(params.pod_machines.value_or(params.machines), params.machines);
  const std::int64_t pods = (params.machines + per_pod - 1) / per_pod;
  const auto real = [](std::int64_t n) { return static_cast<double>(n); };
  const double gpus = real(params.machines) * real(params.gpus);
  const double rail_switches = real(pods) * real(params.gpus);
  const NetworkSize size{gpus, real(params.machines) + rail_switches + real(params.spines),
                         2 * gpus + rail_switches * real(params.spines) * real(params.spine_cables)};
  if (!fits(*topology, size, where, faults) || !consistent(params, pods, where, faults)) return nullptr;
  topology->hosts = params.machines * params.gpus;
  for (std::int64_t h = 0; h < topology->hosts; ++h)
    add_node(*topology, fmt::format("m{}.g{}", h / params.gpus, h % params.gpus));
  for (std::int64_t m = 0; m < params.machines; ++m) add_node(*topology, fmt::format("m{}.nvswitch", m));
  for (std::int64_t r = 0; r < pods * params.gpus; ++r)
    add_node(*topology, fmt::format("p{}.rail{}", r / params.gpus, r % params.gpus));
  for (std::int64_t s = 0; s < params.spines; ++s) add_node(*topology, fmt::format("spine{}", s));
  const auto nvswitch = [&](std::int64_t m) { return static_cast<NodeIndex>(topology->hosts + m); };
  const auto rail = [&](std::int64_t pod, std::int64_t i) { return nvswitch(params.machines + pod * params.gpus + i); };
  const auto spine = [&](std::int64_t s) { return rail(pods, s); };
  for (std::int64_t h = 0; h < topology->hosts; ++h) {
    const std::int64_t machine = h / params.gpus;
    const NodeIndex gpu = static_cast<NodeIndex>(h);
    add_cable(*topology, gpu, nvswitch(machine), {params.nvlink_bandwidth, params.nvlink_latency_s});
    add_cable(*topology, gpu, rail(machine / per_pod, h % params.gpus), {params.nic_bandwidth, params.nic_latency_s});
  }
  for (std::int64_t r = 0; r < pods * params.gpus; ++r)
    for (std::int64_t s = 0; s < params.spines; ++s)
      for (std::int64_t c = 0; c < params.spine_cables; ++c)
        add_cable(*topology, rail(0, r), spine(s), {*params.spine_bandwidth, *params.spine_latency_s});
  topology->hosts_forward = params.spines == 0;
  topology->shape = shape_of(params, pods);
  return topology;
}

}  // namespace

void register_rail_optimised(TopologyRegistry& registry) {
  registry.add<RailParams>(
      "rail_optimised",
      "Machines of GPUs behind NVSwitches, with GPU i of every machine on rail switch i, and spines above.",
      build_rail_optimised);
}

}  // namespace orrery::hw
