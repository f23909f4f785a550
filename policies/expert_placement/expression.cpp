// EPLB with an expression for what a replica of an expert bears. The expert whose replica bears most gets the next one;
// then replicas go, the one that bears most first, to the GPU that bears least. `load / replicas` is eplb. A share that
// has no value (NaN) is the least there is. Names: replica_share.hpp, `orrery describe expression`.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "policies/expert_placement/eplb.hpp"
#include "policies/expert_placement/replica_share.hpp"

namespace orrery::policies {
namespace {

constexpr double kMostShare = 1e290;  // sums of them are finite

struct PlacementExpressionParams {
  ReplicaShareScore share{"load / replicas"};
  static constexpr auto fields() {
    return sim::FieldTable{
        sim::field("share", &PlacementExpressionParams::share, "Load that a replica of an expert is assumed to bear.")};
  }
};

class PlacementExpression final : public ExpertPlacement {
 public:
  explicit PlacementExpression(const PlacementExpressionParams& params) : share_(params.share) {}

  std::vector<LayerPlacement> place(const ExpertPlacementView& view) const override {
    ReplicaShareFacts facts{.experts = static_cast<double>(view.experts()),
                            .gpus = static_cast<double>(view.gpus),
                            .slots = static_cast<double>(view.slots)};
    const ReplicaShare share = [&](double load, double replicas) {
      facts.load = load;
      facts.replicas = replicas;
      const double value = share_(facts);
      return std::isnan(value) ? -kMostShare : std::clamp(value, -kMostShare, kMostShare);
    };
    const EplbMachine machine{.slots = view.slots, .gpus = view.gpus, .nodes = view.nodes, .groups = view.groups};
    std::vector<LayerPlacement> out;
    for (const std::vector<double>& loads : view.loads) {
      facts.mean = std::accumulate(loads.begin(), loads.end(), 0.0) / facts.experts;
      out.push_back(even_slots(eplb_slots(loads, machine, share), view.gpus));
    }
    return out;
  }

 private:
  ReplicaShareScore share_;
};

}  // namespace

void add_expression_expert_placement(ExpertPlacementRegistry& registry) {
  registry.add<PlacementExpressionParams>(
      "expression", "EPLB with an expression for the load that a replica bears.",
      [](const PlacementExpressionParams& params) { return std::make_unique<PlacementExpression>(params); });
}

}  // namespace orrery::policies
