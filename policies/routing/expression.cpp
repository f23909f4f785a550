// A router by an expression: the replica with the least value, the first of equals; one without a value (NaN) comes
// last. Names and units: replica_score.hpp, `orrery describe expression`. `requests / weight` is least_loaded by
// requests.
#include "policies/routing/replica_score.hpp"

namespace orrery::policies {
namespace {

struct ExpressionRouterParams {
  ReplicaScore score{"requests / weight"};

  static constexpr auto fields() {
    return sim::FieldTable{
        sim::field("score", &ExpressionRouterParams::score, "The replica with the least is chosen.")};
  }
};

class ExpressionRouter final : public Router {
 public:
  explicit ExpressionRouter(const ExpressionRouterParams& params) : score_(params.score) {}
  std::size_t route(const RouteView& view) override {
    std::size_t best = 0;
    std::int64_t least = score_key(score_({view, view.replicas[0]}));
    for (std::size_t i = 1; i < view.replicas.size(); ++i) {
      const std::int64_t key = score_key(score_({view, view.replicas[i]}));
      if (key >= least) continue;
      least = key;
      best = i;
    }
    return best;
  }
  bool reads_live() const override { return score_.reads_live(); }

 private:
  ReplicaScore score_;
};

}  // namespace

void add_expression_router(RouterRegistry& registry) {
  registry.add<ExpressionRouterParams>("expression", "The replica with the least value of an expression.",
                                       [](const ExpressionRouterParams& params, sim::RandomStream) {
                                         return std::make_unique<ExpressionRouter>(params);
                                       });
}

}  // namespace orrery::policies
