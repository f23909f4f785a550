// EPLB (github.com/deepseek-ai/EPLB; DeepSeek-V3, arXiv 2412.19437, section 3.4): hierarchical where groups of experts
// share out over the nodes, global elsewhere. Three steps: (1) groups to nodes, (2) inside each node replicas, one at a
// time to the expert of the largest load a replica, (3) replicas to GPUs. Steps 1 and 3 are pack_evenly().
#include "policies/expert_placement/eplb.hpp"

#include <algorithm>

namespace orrery::policies {
namespace {

struct EplbParams {
  static constexpr auto fields() { return sim::FieldTable<EplbParams, 0>(); }
};

class Eplb final : public ExpertPlacement {
 public:
  std::vector<LayerPlacement> place(const ExpertPlacementView& view) const override {
    std::vector<LayerPlacement> out;
    for (const std::vector<double>& loads : view.loads)
      out.push_back(even_slots(
          eplb_slots(loads, {.slots = view.slots, .gpus = view.gpus, .nodes = view.nodes, .groups = view.groups}),
          view.gpus));
    return out;
  }
};

/// Which of `loads` each of so many replicas is of: each once, in order, then one at a time. `shares`: what a replica
/// of each bears in the end.
std::vector<std::size_t> replicate(const std::vector<double>& loads, std::size_t replicas, const ReplicaShare& share,
                                   std::vector<double>& shares) {
  std::vector<double> count(loads.size(), 1);
  std::vector<std::size_t> of;
  shares.clear();
  for (std::size_t i = 0; i < loads.size(); ++i) {
    of.push_back(i);
    shares.push_back(share(loads[i], 1));
  }
  while (of.size() < replicas) {
    const auto most = static_cast<std::size_t>(std::ranges::max_element(shares) - shares.begin());
    of.push_back(most);
    shares[most] = share(loads[most], ++count[most]);
  }
  return of;
}

}  // namespace

std::vector<std::int64_t> eplb_slots(const std::vector<double>& loads, EplbMachine machine, const ReplicaShare& share) {
  if (machine.groups % machine.nodes != 0 || machine.slots % machine.nodes != 0) machine.groups = machine.nodes = 1;
  const auto nodes = static_cast<std::size_t>(machine.nodes), groups = static_cast<std::size_t>(machine.groups);
  const std::size_t group = loads.size() / groups;
  std::vector<double> of_group(groups, 0);
  for (std::size_t e = 0; e < loads.size(); ++e) of_group[e / group] += loads[e];
  const Packed on_node = pack_evenly(of_group, machine.nodes);
  // The experts of a node, its groups in the order of their arrival.
  std::vector<std::vector<std::int64_t>> members(nodes, std::vector<std::int64_t>(loads.size() / nodes));
  for (std::size_t e = 0; e < loads.size(); ++e) {
    const std::size_t g = e / group;
    const std::size_t at = static_cast<std::size_t>(on_node.place[g]) * group + e % group;
    members[static_cast<std::size_t>(on_node.pack[g])][at] = static_cast<std::int64_t>(e);
  }
  const std::size_t slots = static_cast<std::size_t>(machine.slots) / nodes;
  const std::int64_t gpus = machine.gpus / machine.nodes;
  const std::size_t a_gpu = slots / static_cast<std::size_t>(gpus);
  std::vector<std::int64_t> out;
  for (const std::vector<std::int64_t>& node : members) {
    std::vector<double> own, shares, weights;
    for (const std::int64_t e : node) own.push_back(loads[static_cast<std::size_t>(e)]);
    const std::vector<std::size_t> of = replicate(own, slots, share, shares);
    for (const std::size_t i : of) weights.push_back(shares[i]);
    const Packed on_gpu = pack_evenly(weights, gpus);
    const std::size_t begin = out.size();
    out.resize(begin + slots);
    for (std::size_t i = 0; i < slots; ++i)
      out[begin + static_cast<std::size_t>(on_gpu.pack[i]) * a_gpu + static_cast<std::size_t>(on_gpu.place[i])] =
          node[of[i]];
  }
  return out;
}

void add_eplb_expert_placement(ExpertPlacementRegistry& registry) {
  registry.add<EplbParams>(
      "eplb", "DeepSeek's EPLB: assigns expert groups to nodes, replicates busy experts and assigns replicas to GPUs.",
      [](const EplbParams&) { return std::make_unique<Eplb>(); });
}

}  // namespace orrery::policies
