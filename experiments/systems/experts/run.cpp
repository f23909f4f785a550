#include "experiments/systems/experts/run.hpp"

#include <algorithm>
#include <cmath>

#include "experiments/experts/cache_trial.hpp"

namespace orrery::experiments::experts {
namespace {

using traces::ExpertId;

/// The tokens of a trace, so many a step.
class TraceSteps final : public StepChoices {
 public:
  explicit TraceSteps(const Config& config) : trace_(config.trace), a_step_(config.step_tokens()) {}
  void begin(std::int64_t step) { token_ = step * a_step_; }
  std::optional<std::span<const ExpertId>> of(std::size_t layer, std::int64_t ahead) const override {
    const std::int64_t first = token_ + ahead * a_step_;
    if (first + a_step_ > trace_.tokens()) return std::nullopt;
    return trace_.choices(layer % trace_.layers.size(), first, first + a_step_);
  }
  std::span<const std::uint16_t> scores(std::size_t layer) const override {
    const traces::RouterLayer& routed = trace_.layers[layer % trace_.layers.size()];
    if (routed.scores.empty()) return {};
    return std::span(routed.scores)
        .subspan(static_cast<std::size_t>(token_ * trace_.experts), static_cast<std::size_t>(a_step_ * trace_.experts));
  }

 private:
  const traces::RouterTrace& trace_;
  std::int64_t a_step_, token_ = 0;
};

/// Every request of the run, layer after layer, experts numbered over all layers.
std::vector<ExpertId> numbered_requests(const Config& config, std::size_t layers) {
  std::vector<ExpertId> all;
  TraceSteps steps(config);
  for (std::int64_t step = 0; steps.begin(step), steps.of(0, 0).has_value(); ++step)
    for (std::size_t l = 0; l < layers; ++l) {
      const std::span<const ExpertId> chosen = steps.of(l, 0).value();
      for (const ExpertId e : chosen)
        all.push_back(static_cast<ExpertId>(static_cast<std::int64_t>(l) * config.trace.experts + e));
    }
  return all;
}

/// `requests`: of a cache that all layers share.
ExpertLayersSetup layers_setup(const Config& config, const std::vector<std::int64_t>& slots, std::int64_t host_slots,
                               const std::vector<ExpertId>& requests) {
  const traces::RouterTrace& trace = config.trace;
  ExpertLayersSetup setup{.experts = trace.experts, .top_k = trace.top_k, .slots = slots, .host_slots = host_slots};
  setup.scores = !trace.layers.front().scores.empty();
  if (config.sections.policies.spread == SlotSpread::pooled) {
    setup.known.push_back({.future = requests});
  } else {
    for (std::size_t l = 0; l < slots.size(); ++l)
      setup.known.push_back({.future = trace.layers[l % trace.layers.size()].choices});
  }
  return setup;
}

}  // namespace

std::optional<policies::ExpertCounts> one_by_one(const Config& config, const std::vector<std::int64_t>& slots) {
  const PolicyParams& policies = config.sections.policies;
  if (policies.spread == SlotSpread::pooled || policies.prefetch.accuracy > 0) return std::nullopt;
  const traces::RouterTrace& trace = config.trace;
  policies::ExpertCounts sum;
  for (std::size_t l = 0; l < slots.size(); ++l) {
    if (slots[l] == 0) continue;
    sum += play_layer(trace, l % trace.layers.size(), config.sections.policies.cache,
                      {.slots = slots[l], .look_up = LookUp::request});
  }
  return sum;
}

void TokenGaps::done(std::int64_t first, std::int64_t count, std::int64_t now_ps, sim::SampleStats& gaps) {
  for (std::int64_t token = first; token < first + count; ++token) {
    const auto texts = static_cast<std::int64_t>(last_ps_.size());
    std::int64_t& last =
        last_ps_[static_cast<std::size_t>(texts_.empty() ? token % texts : texts_[static_cast<std::size_t>(token)])];
    // Tokens of one chunk are done at once.
    if (last >= 0 && last < now_ps) gaps.add(now_ps - last);
    last = now_ps;
  }
}

RunTotals play(const Config& config, const Prices& prices, const std::vector<std::int64_t>& slots,
               std::int64_t host_slots) {
  const bool pooled = config.sections.policies.spread == SlotSpread::pooled;
  const std::vector<ExpertId> requests = pooled ? numbered_requests(config, slots.size()) : std::vector<ExpertId>{};
  ExpertLayers layers(config.sections.policies, prices, layers_setup(config, slots, host_slots, requests));
  TraceSteps choices(config);
  TokenGaps gaps(config);
  RunTotals totals;
  const std::int64_t a_step = config.step_tokens(), dense_ps = prices.dense_ps() / config.model.layers;
  const std::int64_t edges_ps = prices.dense_ps() - dense_ps * static_cast<std::int64_t>(layers.layers()) +
                                std::llround(config.sections.machine.step_gap_s * 1e12);
  std::int64_t begin_ps = 0;
  for (std::int64_t step = 0; step < config.steps(); ++step) {
    if (step == config.sections.workload.skip) {
      totals = {};
      layers.forget();
      begin_ps = layers.now_ps();
    }
    choices.begin(step);
    layers.pass(edges_ps);
    totals.dense_ps += prices.dense_ps();
    for (std::size_t l = 0; l < layers.layers(); ++l) layers.play(l, choices, dense_ps);
    gaps.done(step * a_step, a_step, layers.now_ps(), totals.token_gap);
    ++totals.steps;
  }
  static_cast<ExpertTotals&>(totals) = layers.totals();
  totals.time_ps = layers.now_ps() - begin_ps;
  for (std::size_t l = 0; l < layers.layers(); ++l) totals.layer_hit_rate.push_back(layers.counts(l).hit_rate());
  return totals;
}

}  // namespace orrery::experiments::experts
