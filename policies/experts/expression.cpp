// A cache by an expression: of the experts that may go, the one with the least value makes room, of equals the lowest
// number; one without a value (NaN) counts as the greatest. Names: expert_score.hpp, `orrery describe expression`.
// `-age` is lru, `times` is lfu.
#include "policies/experts/expert_score.hpp"

namespace orrery::policies {
namespace {

struct ExpertExpressionParams {
  ExpertScore score{"-age"};
  double horizon = 256;

  static constexpr auto fields() {
    using P = ExpertExpressionParams;
    using sim::Unit;
    return sim::FieldTable{
        sim::field("score", &P::score, "Of the experts that may go, the one with the lowest value is evicted."),
        sim::field("horizon", &P::horizon, Unit::requests, sim::between(1, 1e9),
                   "How far back `recent` and `recent_score` look. Every expert of a token is one request."),
    };
  }
};

class ExpertExpression final : public ExpertCache {
 public:
  ExpertExpression(const ExpertExpressionParams& params, const ExpertCacheSetup& setup)
      : score_(params.score),
        history_(setup, params.horizon, params.score.reads("score") || params.score.reads("recent_score")),
        experts_(static_cast<double>(setup.experts)),
        slots_(static_cast<double>(setup.slots)) {}

  void ask(const ExpertRequest& request) override { history_.ask(request); }
  void loaded(std::uint16_t expert) override { history_.loaded(expert); }
  std::uint16_t evict(std::span<const std::uint16_t> experts) override {
    return least_worthy(experts, [&](std::uint16_t e) { return score_key(score_({history_, e, experts_, slots_})); });
  }

 private:
  ExpertScore score_;
  ExpertHistory history_;
  double experts_, slots_;
};

}  // namespace

void add_expression_expert_cache(ExpertCacheRegistry& registry) {
  registry.add<ExpertExpressionParams>("expression", "The expert with the lowest value of an expression is evicted.",
                                       [](const ExpertExpressionParams& params, const ExpertCacheSetup& setup) {
                                         return std::make_unique<ExpertExpression>(params, setup);
                                       });
}

}  // namespace orrery::policies
