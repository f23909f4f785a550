// A fixed set: some experts stay, the others pass through. Which, says `rule`: those that are most frequent in a
// profile, which is the first tokens of the run itself, or other tokens where what comes is not known; every n-th; a
// draw.
#include <algorithm>
#include <stdexcept>

#include "policies/experts/expert_cache.hpp"
#include "sim/base/random.hpp"

namespace orrery::policies {
namespace {

enum class StaticRule : std::uint8_t { frequency, uniform, random };
constexpr auto enum_names(StaticRule) {
  using enum StaticRule;
  return sim::names<StaticRule>({{"frequency", frequency}, {"uniform", uniform}, {"random", random}});
}

struct StaticParams {
  StaticRule rule = StaticRule::frequency;
  std::int64_t profile = 1600, seed = 1;
  static constexpr auto fields() {
    using P = StaticParams;
    return sim::FieldTable{
        sim::field(
            "rule", &P::rule,
            "Which experts stay: the most frequent ones (frequency), every n-th (uniform), or a random set (random)."),
        sim::field("profile", &P::profile, sim::Unit::tokens, sim::at_least(1),
                   "Number of tokens at the start of the run whose most frequent experts stay; where what comes is not "
                   "known, of tokens that were seen before."),
        sim::field("seed", &P::seed, sim::Unit::none, sim::at_least(0), "Seed of `random`.")};
  }
};

/// As many experts as there are slots.
std::vector<std::uint16_t> chosen(const StaticParams& params, const ExpertCacheSetup& setup) {
  std::vector<std::uint16_t> set;
  if (params.rule == StaticRule::frequency) {
    if (setup.past.empty()) need_future(setup, "static");
    const std::span<const std::uint16_t> known = setup.past.empty() ? setup.future : setup.past;
    const auto profile = static_cast<std::size_t>(params.profile * setup.top_k);
    set = by_frequency(known.first(std::min(known.size(), profile)), setup.experts);
  } else {
    for (std::int64_t e = 0; e < setup.experts; ++e) set.push_back(static_cast<std::uint16_t>(e));
    sim::RandomStream random(static_cast<std::uint64_t>(params.seed), "expert_cache/static");
    if (params.rule == StaticRule::random) random.shuffle(std::span(set));
    for (std::int64_t i = 0; params.rule == StaticRule::uniform && i < setup.slots; ++i)
      set[static_cast<std::size_t>(i)] = static_cast<std::uint16_t>(i * setup.experts / setup.slots);
  }
  set.resize(static_cast<std::size_t>(setup.slots));
  return set;
}

class Static final : public ExpertCache {
 public:
  Static(const StaticParams& params, const ExpertCacheSetup& setup) : set_(chosen(params, setup)) {}
  void ask(const ExpertRequest&) override {}
  std::uint16_t evict(std::span<const std::uint16_t>) override {
    throw std::logic_error("a fixed set of experts evicts nobody");
  }
  std::vector<std::uint16_t> initial() const override { return set_; }
  bool admits(std::uint16_t) const override { return false; }

 private:
  std::vector<std::uint16_t> set_;
};

}  // namespace

void add_static_expert_cache(ExpertCacheRegistry& registry) {
  registry.add<StaticParams>(
      "static", "A fixed set stays: the most frequent experts of the first tokens, every n-th expert, or a random set.",
      [](const StaticParams& params, const ExpertCacheSetup& setup) {
        return std::make_unique<Static>(params, setup);
      });
}

}  // namespace orrery::policies
