// `lowest_latency`: a path of least latency, of those one of fewest links; ties by the hash of (from, to, label).
// Latencies count in whole picoseconds, so that ties are ties.
#include <memory>
#include <optional>

#include "hw/network/cheapest_paths.hpp"
#include "hw/network/routing.hpp"

namespace orrery::hw {
namespace {

struct LowestLatencyParams {
  std::optional<bool> hosts_forward;
  static constexpr auto fields() {
    return sim::FieldTable{sim::field("hosts_forward", &LowestLatencyParams::hosts_forward,
                                      "Whether paths may lead through hosts; null: as the topology says.")};
  }
};

}  // namespace

void register_lowest_latency(RoutingRegistry& registry) {
  registry.add<LowestLatencyParams>(
      "lowest_latency", "The path of least latency, of those the one with fewest links; ties are broken by hash.",
      [](const LowestLatencyParams& params, const Topology& topology) -> std::unique_ptr<Routing> {
        return std::make_unique<CheapestRouting<LatencyCost>>(topology, params.hosts_forward);
      });
}

}  // namespace orrery::hw
