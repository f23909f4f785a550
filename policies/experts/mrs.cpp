// Minus Recent Score (HybriMoE, arXiv 2504.05897, section IV-D): S <- alpha TopP(s) + (1 - alpha) S for every token, s
// the router's scores of which only the `top` best count; who has the least S makes room. An expert that nearly was
// chosen is kept, which a cache of choices alone cannot do.
#include <fmt/format.h>

#include <algorithm>

#include "policies/experts/expert_cache.hpp"
#include "sim/base/fault.hpp"

namespace orrery::policies {
namespace {

struct MrsParams {
  double alpha = 0.5;
  std::int64_t top = 0;
  static constexpr auto fields() {
    using P = MrsParams;
    return sim::FieldTable{
        sim::field("alpha", &P::alpha, sim::Unit::ratio, sim::between(0, 1),
                   "Weight of the present token's router scores in the running score."),
        sim::field("top", &P::top, sim::Unit::count, sim::at_least(0),
                   "Number of a token's best router scores that count; 0: twice the experts that a token chooses.")};
  }
};

class Mrs final : public RankedExpertCache {
 public:
  Mrs(const MrsParams& params, const ExpertCacheSetup& setup)
      : RankedExpertCache(setup),
        alpha_(params.alpha),
        experts_(static_cast<std::size_t>(setup.experts)),
        top_(static_cast<std::size_t>(std::min(params.top > 0 ? params.top : 2 * setup.top_k, setup.experts))) {}
  bool reads_scores() const override { return true; }
  void ask(const ExpertRequest& request) override {
    for (std::size_t token = 0; token + experts_ <= request.scores.size(); token += experts_)
      add(request.scores.subspan(token, experts_));
  }

 private:
  void add(std::span<const std::uint16_t> scores) {
    sorted_.assign(scores.begin(), scores.end());
    std::ranges::nth_element(sorted_, sorted_.begin() + static_cast<std::ptrdiff_t>(top_ - 1), std::greater{});
    const std::uint16_t least = sorted_[top_ - 1];
    for (std::size_t e = 0; e < experts_; ++e)
      worth_[e] = (1 - alpha_) * worth_[e] + (scores[e] >= least ? alpha_ * scores[e] / 65535.0 : 0);
  }

  double alpha_;
  std::size_t experts_, top_;
  std::vector<std::uint16_t> sorted_;
};

}  // namespace

void add_mrs_expert_cache(ExpertCacheRegistry& registry) {
  registry.add<MrsParams>(
      "mrs", "HybriMoE: the expert with the lowest recent router scores is evicted. Needs the router's scores.",
      [](const MrsParams& params, const ExpertCacheSetup& setup) {
        if (!setup.scores)
          sim::throw_fault({"mrs", ""}, "expert cache mrs needs the router's scores, which the trace has not",
                           "a trace that `orrery trace generate` drew has them");
        return std::make_unique<Mrs>(params, setup);
      });
}

}  // namespace orrery::policies
