// Belady's rule: whose next request is farthest makes room; no policy that keeps what it loads misses less (Belady
// 1966). With `bypass` that may be the expert that was just asked for, and no policy at all misses less. It knows the
// trace. With `ahead` it knows so many tokens only, as a router that runs before the layers does
// (Read-ME, arXiv 2410.19123: the queue of tokens is routed before it is computed); requests beyond count as none, and
// of experts without any the lowest number makes room.
#include <algorithm>

#include "policies/experts/expert_cache.hpp"

namespace orrery::policies {
namespace {

struct BeladyParams {
  std::int64_t ahead = 0;
  bool bypass = false;
  static constexpr auto fields() {
    using P = BeladyParams;
    return sim::FieldTable{sim::field("ahead", &P::ahead, sim::Unit::tokens, sim::at_least(0),
                                      "Tokens after the present ones whose experts are known; 0: all."),
                           sim::field("bypass", &P::bypass, "Whether an expert may be used without being kept.")};
  }
};

class Belady final : public RankedExpertCache {
 public:
  Belady(const BeladyParams& params, const ExpertCacheSetup& setup)
      : RankedExpertCache(setup), next_(next_requests(setup.future, setup.experts)), bypass_(params.bypass) {
    if (params.ahead == 0) return;
    for (std::size_t i = 0; i < next_.size(); ++i) {
      const std::int64_t known = (static_cast<std::int64_t>(i) / setup.top_k + params.ahead + 1) * setup.top_k;
      if (next_[i] >= known) next_[i] = kNever;
    }
  }
  bool bypasses() const override { return bypass_; }
  void ask(const ExpertRequest& request) override {
    const auto first = static_cast<std::size_t>(request.first);
    for (std::size_t i = 0; i < request.experts.size(); ++i)
      worth_[request.experts[i]] = -static_cast<double>(next_[first + i]);
  }

 private:
  std::vector<std::int64_t> next_;  // by request
  bool bypass_;
};

}  // namespace

void add_belady_expert_cache(ExpertCacheRegistry& registry) {
  registry.add<BeladyParams>("belady", "Belady's rule: whose next request is farthest makes room. Knows the trace.",
                             [](const BeladyParams& params, const ExpertCacheSetup& setup) {
                               need_future(setup, "belady");
                               return std::make_unique<Belady>(params, setup);
                             });
}

}  // namespace orrery::policies
