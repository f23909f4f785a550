// How often over how long ago, or how often of late, whichever is less: min(times / age, recent). Bred by
// `orrery evolve experiments/studies/evolve_cache.json`; what it gains over lru and lfu: docs/explain/experts.md.
#include "policies/experts/expert_history.hpp"

namespace orrery::policies {
namespace {

struct FrequentRecentParams {
  double horizon = 256;
  static constexpr auto fields() {
    return sim::FieldTable{sim::field("horizon", &FrequentRecentParams::horizon, sim::Unit::requests,
                                      sim::between(1, 1e9),
                                      "How far back recent requests count. Every expert of a token is one request.")};
  }
};

class FrequentRecent final : public ExpertCache {
 public:
  FrequentRecent(const FrequentRecentParams& params, const ExpertCacheSetup& setup)
      : history_(setup, params.horizon, false) {}

  void ask(const ExpertRequest& request) override { history_.ask(request); }
  void loaded(std::uint16_t expert) override { history_.loaded(expert); }
  std::uint16_t evict(std::span<const std::uint16_t> experts) override {
    return least_worthy(experts, [&](std::uint16_t e) {
      const double recent = history_.recent(e), age = history_.age(e);
      return age > 0 ? std::min(history_.times(e) / age, recent) : recent;
    });
  }

 private:
  ExpertHistory history_;
};

}  // namespace

void add_frequent_recent_expert_cache(ExpertCacheRegistry& registry) {
  registry.add<FrequentRecentParams>("frequent_recent",
                                     "Evicts the expert with the lowest score: the smaller of its requests over the "
                                     "time since the last one, and its recent requests.",
                                     [](const FrequentRecentParams& params, const ExpertCacheSetup& setup) {
                                       return std::make_unique<FrequentRecent>(params, setup);
                                     });
}

}  // namespace orrery::policies
