// Random replacement: any of the experts that may make room, all alike.
#include "sim/base/random.hpp"
#include "policies/experts/expert_cache.hpp"

namespace orrery::policies {
namespace {

struct RandomParams {
  std::int64_t seed = 1;
  static constexpr auto fields() {
    return sim::FieldTable{
        sim::field("seed", &RandomParams::seed, sim::Unit::none, sim::at_least(0), "Seed of the draws.")};
  }
};

class Random final : public ExpertCache {
 public:
  explicit Random(const RandomParams& params)
      : draws_(static_cast<std::uint64_t>(params.seed), "expert_cache/random") {}
  void ask(const ExpertRequest&) override {}
  std::uint16_t evict(std::span<const std::uint16_t> experts) override { return experts[draws_.below(experts.size())]; }

 private:
  sim::RandomStream draws_;
};

}  // namespace

void add_random_expert_cache(ExpertCacheRegistry& registry) {
  registry.add<RandomParams>(
      "random", "A random expert is evicted, all with equal probability.",
      [](const RandomParams& params, const ExpertCacheSetup&) { return std::make_unique<Random>(params); });
}

}  // namespace orrery::policies
