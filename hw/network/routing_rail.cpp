// `rail`: on rail_optimised, a message to another machine moves over NVLink to its machine's GPU on the rail of the
// destination, then over that rail's switch (PXN, NVIDIA "Doubling all2all performance with NCCL 2.12", 2022): two
// links more than nothing, none of them a spine's inside a pod. Inside a machine, and where NVLink or the relay's NIC
// is down, shortest paths; at last shortest paths through any GPU, as libraries use another NIC when one fails.
#include <memory>

#include "hw/network/cheapest_paths.hpp"
#include "hw/network/routing.hpp"

namespace orrery::hw {
namespace {

class Rail final : public Routing {
 public:
  explicit Rail(const Topology& topology)
      : topology_(topology), paths_(topology, topology.hosts_forward), through_gpus_(topology, true) {}

  bool route(NodeIndex from, NodeIndex to, std::uint64_t label, std::vector<LinkIndex>& path) override {
    const std::uint64_t hash = route_hash(from, to, label);
    return over_relay(from, to, hash, path) || paths_.append(from, to, hash, path) ||
           through_gpus_.append(from, to, hash, path);
  }

  void links_changed(const std::vector<bool>& up) override {
    paths_.links_changed(up);
    through_gpus_.links_changed(up);
  }

 private:
  bool over_relay(NodeIndex from, NodeIndex to, std::uint64_t hash, std::vector<LinkIndex>& path) {
    if (from >= topology_.hosts || to >= topology_.hosts) return false;
    const auto rails = static_cast<NodeIndex>(topology_.shape.rails);
    if (from / rails == to / rails || from % rails == to % rails) return false;
    const NodeIndex relay = from / rails * rails + to % rails;
    const std::size_t before = path.size();
    // Two links are NVLink's; a longer way to the relay would leave the machine and has no use for it. From the relay
    // there must be a way by its own NIC.
    const bool reached = paths_.append(from, relay, hash, path) && path.size() == before + 2;
    const NodeIndex nvswitch = reached ? topology_.links[path[before]].to : 0;
    const bool done =
        reached && paths_.append(relay, to, hash, path) && topology_.links[path[before + 2]].to != nvswitch;
    if (!done) path.resize(before);
    return done;
  }

  const Topology& topology_;
  CheapestPaths<Hops> paths_;
  CheapestPaths<Hops> through_gpus_;
};

}  // namespace

void register_rail(RoutingRegistry& registry) {
  registry.add<sim::NoParams>(
      "rail", "On rail_optimised: over NVLink to the GPU on the destination's rail, then along that rail.",
      [](const sim::NoParams&, const Topology& topology) -> std::unique_ptr<Routing> {
        if (topology.shape.rails == 0)
          sim::throw_fault({}, "rail needs a rail_optimised topology, got a " + topology.kind + " topology");
        return std::make_unique<Rail>(topology);
      });
}

}  // namespace orrery::hw
