// A router by an expression: the replica with the least value, the first of equals; one without a value (NaN) comes
// last. Names and units: replica_score.hpp, `orrery describe expression`. `requests / weight` is least_loaded by
// requests.
#include "policies/routing/replica_score.hpp"
#include "policies/routing/request_times.hpp"

namespace orrery::policies {
namespace {

struct ExpressionRouterParams {
  ReplicaScore score{"requests / weight"};

  static constexpr auto fields() {
    return sim::FieldTable{
        sim::field("score", &ExpressionRouterParams::score, "The replica with the lowest value is chosen.")};
  }
};

class ExpressionRouter final : public Router {
 public:
  explicit ExpressionRouter(const ExpressionRouterParams& params)
      : score_(params.score), timed_(reads_times(params.score)) {}
  std::size_t route(const RouteView& view) override {
    if (timed_) alone_s_ = times_.alone_s(view);
    std::size_t best = 0;
    std::int64_t least = key(view, 0);
    for (std::size_t i = 1; i < view.replicas.size(); ++i) {
      const std::int64_t other = key(view, i);
      if (other >= least) continue;
      least = other;
      best = i;
    }
    if (timed_) times_.sent(view, best);
    return best;
  }
  void sent_elsewhere(const RouteView& view, std::size_t place) override {
    if (!timed_) return;
    times_.left(view.request.id);
    times_.sent(view, place);
  }
  void left(std::int64_t request) override {
    if (timed_) times_.left(request);
  }
  bool reads_live() const override { return score_.reads_live(); }

 private:
  std::int64_t key(const RouteView& view, std::size_t place) const {
    const ReplicaFacts& replica = view.replicas[place];
    if (!timed_) return score_key(score_({view, replica}));
    return score_key(score_({view, replica, alone_s_[place], times_.ahead_s(replica)}));
  }

  ReplicaScore score_;
  bool timed_;
  RequestTimes times_;
  std::span<const double> alone_s_;
};

}  // namespace

void add_expression_router(RouterRegistry& registry) {
  registry.add<ExpressionRouterParams>("expression", "The replica with the lowest value of an expression.",
                                       [](const ExpressionRouterParams& params, sim::RandomStream) {
                                         return std::make_unique<ExpressionRouter>(params);
                                       });
}

}  // namespace orrery::policies
