// `shortest`: a path of fewest links; at every node the hash of (from, to, label) chooses among all links that lead on
// over such paths, cables side by side included (equal-cost multi-path, RFC 2992, without its table of flows).
#include <memory>
#include <optional>
#include <tuple>

#include "hw/network/cheapest_paths.hpp"
#include "hw/network/routing.hpp"

namespace orrery::hw {
namespace {

struct ShortestParams {
  std::optional<bool> hosts_forward;
  static constexpr auto fields() {
    return std::tuple{sim::field("hosts_forward", &ShortestParams::hosts_forward,
                                 "Whether paths may lead through hosts; null: as the topology has it.")};
  }
};

class Shortest final : public Routing {
 public:
  Shortest(const ShortestParams& params, const Topology& topology)
      : paths_(topology, params.hosts_forward.value_or(topology.hosts_forward)) {}

  bool route(NodeIndex from, NodeIndex to, std::uint64_t label, std::vector<LinkIndex>& path) override {
    return paths_.append(from, to, route_hash(from, to, label), path);
  }
  void links_changed(const std::vector<bool>& up) override { paths_.links_changed(up); }

 private:
  CheapestPaths<Hops> paths_;
};

}  // namespace

void register_shortest(RoutingRegistry& registry) {
  registry.add<ShortestParams>("shortest", "Fewest links; equally good paths by hash.",
                               [](const ShortestParams& params, const Topology& topology) -> std::unique_ptr<Routing> {
                                 return std::make_unique<Shortest>(params, topology);
                               });
}

}  // namespace orrery::hw
