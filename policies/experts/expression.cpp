// A cache by an expression: of the experts that may go, the one with the least value makes room, of equals the lowest
// number; one without a value (NaN) counts as the greatest. Names: expert_score.hpp, `orrery describe expression`.
// `-age` is lru, `times` is lfu.
#include <algorithm>
#include <cmath>

#include "policies/experts/expert_cache.hpp"
#include "policies/experts/expert_score.hpp"
#include "sim/base/math.hpp"

namespace orrery::policies {
namespace {

struct ExpertExpressionParams {
  ExpertScore score{"-age"};
  double horizon = 256;

  static constexpr auto fields() {
    using P = ExpertExpressionParams;
    using sim::Unit;
    return sim::FieldTable{
        sim::field("score", &P::score, "Of the experts that may go, the one with the least makes room."),
        sim::field("horizon", &P::horizon, Unit::requests, sim::between(1, 1e9),
                   "How far back `recent` and `recent_score` look; every expert of a token is a request."),
    };
  }
};

/// A sum whose terms lose the share 1 - 1/e every `horizon` requests.
struct Decayed {
  double value = 0, at = 0;
  double now(double request, double horizon) const {
    return value == 0 ? 0 : value * sim::det_exp((at - request) / horizon);
  }
  void add(double more, double request, double horizon) {
    value = now(request, horizon) + more;
    at = request;
  }
};

class ExpertExpression final : public ExpertCache {
 public:
  ExpertExpression(const ExpertExpressionParams& params, const ExpertCacheSetup& setup)
      : score_(params.score),
        horizon_(params.horizon),
        reads_scores_(params.score.reads("score") || params.score.reads("recent_score")),
        all_(static_cast<std::size_t>(setup.experts)),
        facts_{.experts = static_cast<double>(setup.experts), .slots = static_cast<double>(setup.slots)} {}

  void ask(const ExpertRequest& request) override {
    now_ = static_cast<double>(request.first + 1);
    for (const std::uint16_t e : request.experts) {
      Known& known = all_[e];
      if (known.times > 0) known.gap = now_ - known.asked;
      known.used = known.asked = now_;
      ++known.times;
      known.recent.add(1, now_, horizon_);
    }
    if (!reads_scores_) return;
    for (std::size_t i = 0; i < request.scores.size(); ++i) {  // token after token, all experts of each
      Known& known = all_[i % all_.size()];
      known.score = request.scores[i] / 65535.0;
      known.recent_score.add(known.score, now_, horizon_);
    }
  }
  /// What is loaded ahead of its use counts as used.
  void loaded(std::uint16_t expert) override { all_[expert].used = now_; }

  std::uint16_t evict(std::span<const std::uint16_t> experts) override {
    std::uint16_t least = experts.front();
    std::int64_t key = score_key(value(least));
    for (const std::uint16_t e : experts.subspan(1)) {
      const std::int64_t other = score_key(value(e));
      if (other > key || (other == key && e > least)) continue;
      least = e;
      key = other;
    }
    return least;
  }

 private:
  struct Known {
    double used = 0, asked = 0, gap = 0, times = 0, score = 0;
    Decayed recent, recent_score;
  };

  double value(std::uint16_t expert) {
    const Known& known = all_[expert];
    facts_.now = now_;
    facts_.expert = expert;
    facts_.age = now_ - known.used;
    facts_.gap = known.gap > 0 ? known.gap : now_;
    facts_.times = known.times;
    facts_.recent = known.recent.now(now_, horizon_);
    facts_.score = known.score;
    facts_.recent_score = known.recent_score.now(now_, horizon_);
    return score_(facts_);
  }

  ExpertScore score_;
  double horizon_;
  bool reads_scores_;
  std::vector<Known> all_;
  ExpertScoreFacts facts_;
  double now_ = 0;
};

}  // namespace

void add_expression_expert_cache(ExpertCacheRegistry& registry) {
  registry.add<ExpertExpressionParams>("expression", "The one with the least value of an expression makes room.",
                                       [](const ExpertExpressionParams& params, const ExpertCacheSetup& setup) {
                                         return std::make_unique<ExpertExpression>(params, setup);
                                       });
}

}  // namespace orrery::policies
