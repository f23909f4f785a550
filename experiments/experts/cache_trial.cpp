#include "experiments/experts/cache_trial.hpp"

#include <algorithm>

namespace orrery::experiments {

policies::ExpertCounts play_layer(const traces::RouterTrace& trace, std::size_t layer,
                                  const policies::ExpertCacheRegistry::Choice& policy, const CacheTrial& trial) {
  const traces::RouterLayer& played = trace.layers[layer];
  const policies::ExpertCacheSetup setup{.experts = trace.experts,
                                         .slots = std::min(trial.slots, trace.experts),
                                         .top_k = trace.top_k,
                                         .future = played.choices,
                                         .scores = !played.scores.empty()};
  policies::ExpertResidency cache(policy.make(setup), setup);
  const std::span<const traces::ExpertId> choices = played.choices;
  const std::span<const std::uint16_t> scores = played.scores;
  const auto top_k = static_cast<std::size_t>(trace.top_k), experts = static_cast<std::size_t>(trace.experts);
  const std::size_t together = trial.look_up == LookUp::request ? 1 : top_k * static_cast<std::size_t>(trial.batch);
  for (std::size_t first = 0; first < choices.size(); first += together) {
    const std::size_t count = std::min(together, choices.size() - first);
    policies::ExpertRequest request{
        .first = static_cast<std::int64_t>(first), .experts = choices.subspan(first, count), .scores = {}};
    // Scores come with a token: with the first of its experts, where these are looked up one by one.
    if (setup.scores && first % top_k == 0)
      request.scores = scores.subspan(first / top_k * experts, (count + top_k - 1) / top_k * experts);
    cache.use(request);
  }
  return cache.counts();
}

policies::ExpertCounts play_trace(const traces::RouterTrace& trace, const policies::ExpertCacheRegistry::Choice& policy,
                                  const CacheTrial& trial) {
  policies::ExpertCounts sum;
  for (std::size_t layer = 0; layer < trace.layers.size(); ++layer) sum += play_layer(trace, layer, policy, trial);
  return sum;
}

}  // namespace orrery::experiments
