// PLEC, the predictive cache of ExpertFlow (arXiv 2410.17954): slots go to the experts that are predicted for the
// nearest layers. An expert that was used is free unless it is predicted again; a copy ahead never drives out what is
// needed sooner. What the predictor got wrong is loaded on demand, over experts that nobody needs or those that are
// needed last. With a predictor that is always right and far-sighted it is Belady's rule with copies ahead.
#include <deque>

#include "policies/experts/expert_cache.hpp"
#include "sim/base/fault.hpp"

namespace orrery::policies {
namespace {

struct PlecParams {
  static constexpr auto fields() { return sim::FieldTable<PlecParams, 0>(); }
};

class Plec final : public ExpertCache {
 public:
  explicit Plec(const ExpertCacheSetup& setup) : needed_(static_cast<std::size_t>(setup.experts)) {}
  void ask(const ExpertRequest&) override { ++now_; }
  void foretell(std::uint16_t expert, std::int64_t ahead) override {
    std::deque<std::int64_t>& needed = needed_[expert];
    if (needed.empty() || needed.back() < now_ + ahead) needed.push_back(now_ + ahead);
  }
  std::uint16_t evict(std::span<const std::uint16_t> experts) override {
    std::uint16_t last = experts.front();
    std::int64_t latest = -1;
    for (const std::uint16_t e : experts) {
      const std::int64_t when = next(e);
      if (when > latest || (when == latest && e < last)) last = e, latest = when;
    }
    return last;
  }
  bool refuses_ahead() const override { return true; }

 private:
  /// The request that an expert is predicted for next.
  std::int64_t next(std::uint16_t expert) {
    std::deque<std::int64_t>& needed = needed_[expert];
    while (!needed.empty() && needed.front() <= now_) needed.pop_front();
    return needed.empty() ? kNever : needed.front();
  }

  std::int64_t now_ = 0;
  std::vector<std::deque<std::int64_t>> needed_;  // by expert: requests that it was predicted for, in order
};

}  // namespace

void add_plec_expert_cache(ExpertCacheRegistry& registry) {
  registry.add<PlecParams>(
      "plec", "ExpertFlow: the experts that a predictor names for the nearest layers stay.",
      [](const PlecParams&, const ExpertCacheSetup& setup) {
        if (!setup.foretold)
          sim::throw_fault({"plec", ""}, "expert cache plec needs predicted experts: a run with prefetch");
        return std::make_unique<Plec>(setup);
      });
}

}  // namespace orrery::policies
