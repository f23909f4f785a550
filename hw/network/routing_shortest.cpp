// `shortest`: a path of fewest links; at every node the hash of (from, to, label) chooses among all links that lead on
// over such paths, cables side by side included (equal-cost multi-path, RFC 2992, without its table of flows).
// On a dragonfly a path of fewest links between groups is taken first of all, as minimal routing is defined there (Kim
// et al., ISCA 2008, section 4.1); `fewest_global` off counts links alike.
#include <memory>
#include <optional>

#include "hw/network/cheapest_paths.hpp"
#include "hw/network/routing.hpp"

namespace orrery::hw {
namespace {

struct ShortestParams {
  std::optional<bool> hosts_forward;
  bool fewest_global = true;
  static constexpr auto fields() {
    return sim::FieldTable{sim::field("hosts_forward", &ShortestParams::hosts_forward,
                                      "Whether paths may lead through hosts; null: as the topology says."),
                           sim::field("fewest_global", &ShortestParams::fewest_global,
                                      "Whether a dragonfly's paths have fewest links between groups, then fewest "
                                      "links; otherwise only fewest links counts.")};
  }
};

}  // namespace

void register_shortest(RoutingRegistry& registry) {
  registry.add<ShortestParams>("shortest", "The path with the fewest links; ties are broken by hash.",
                               [](const ShortestParams& params, const Topology& topology) -> std::unique_ptr<Routing> {
                                 if (params.fewest_global && !topology.shape.groups.empty())
                                   return std::make_unique<CheapestRouting<GroupHops>>(topology, params.hosts_forward);
                                 return std::make_unique<CheapestRouting<Hops>>(topology, params.hosts_forward);
                               });
}

}  // namespace orrery::hw
