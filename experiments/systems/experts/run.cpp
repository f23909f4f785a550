#include "experiments/systems/experts/run.hpp"

#include <algorithm>
#include <cmath>
#include <optional>

#include "experiments/experts/cache_trial.hpp"
#include "sim/base/random.hpp"

namespace orrery::experiments::experts {
namespace {

using policies::ExpertPlace;
using traces::ExpertId;

/// A layer's cache, where its GPUs have any slot.
struct LayerState {
  std::optional<policies::ExpertResidency> cache;
  std::vector<std::int64_t> arrives_ps;  ///< by expert: when its copy is there
  std::vector<bool> foretold;            ///< by expert: copied ahead and not yet used
};

class Player {
 public:
  Player(const Config& config, const Prices& prices, const std::vector<std::int64_t>& slots)
      : config_(config),
        prices_(prices),
        schedule_(config.sections.policies.schedule.make()),
        trace_(config.trace),
        foretell_(static_cast<std::uint64_t>(config.sections.policies.prefetch.seed), "experts/prefetch"),
        layers_(slots.size()),
        tokens_(static_cast<std::size_t>(config.trace.experts)) {
    for (std::size_t l = 0; l < slots.size(); ++l) {
      LayerState& layer = layers_[l];
      layer.arrives_ps.assign(tokens_.size(), 0);
      layer.foretold.assign(tokens_.size(), false);
      if (slots[l] == 0) continue;
      const traces::RouterLayer& routed = trace_.layers[l % trace_.layers.size()];
      const policies::ExpertCacheSetup setup{.experts = trace_.experts,
                                             .slots = slots[l],
                                             .top_k = trace_.top_k,
                                             .future = routed.choices,
                                             .scores = !routed.scores.empty()};
      layer.cache.emplace(config.sections.policies.cache.make(setup), setup);
    }
    layer_dense_ps_ = prices.dense_ps() / static_cast<std::int64_t>(config.model.layers);
  }

  RunTotals play() {
    const WorkloadParams& w = config_.sections.workload;
    const std::int64_t a_step = w.batch * w.chunk;
    std::int64_t steps = trace_.tokens() / a_step;
    if (w.steps) steps = std::min(steps, w.skip + *w.steps);
    std::vector<policies::ExpertCounts> before;
    for (std::int64_t step = 0; step < steps; ++step) {
      if (step == w.skip) {
        totals_ = {};
        before = counts();
        begin_ps_ = now_ps_;
      }
      play_step(step * a_step, a_step);
      ++totals_.steps;
    }
    totals_.time_ps = now_ps_ - begin_ps_;
    const std::vector<policies::ExpertCounts> after = counts();
    for (std::size_t l = 0; l < after.size(); ++l) {
      const policies::ExpertCounts layer{after[l].requests - before[l].requests, after[l].misses - before[l].misses,
                                         after[l].evictions - before[l].evictions};
      totals_.counts += layer;
      totals_.layer_hit_rate.push_back(layer.hit_rate());
    }
    return std::move(totals_);
  }

 private:
  std::vector<policies::ExpertCounts> counts() const {
    std::vector<policies::ExpertCounts> out;
    for (std::size_t l = 0; l < layers_.size(); ++l)
      out.push_back(layers_[l].cache ? layers_[l].cache->counts()
                                     : policies::ExpertCounts{uncached_[l], uncached_[l], 0});
    return out;
  }

  void play_step(std::int64_t token, std::int64_t count) {
    const std::int64_t edges = prices_.dense_ps() - layer_dense_ps_ * static_cast<std::int64_t>(layers_.size());
    now_ps_ += edges + std::llround(config_.sections.machine.step_gap_s * 1e12);
    totals_.dense_ps += prices_.dense_ps();
    for (std::size_t l = 0; l < layers_.size(); ++l) play_layer(l, token, count);
  }

  std::span<const ExpertId> choices(std::size_t layer, std::int64_t token, std::int64_t count) const {
    return trace_.choices(layer % trace_.layers.size(), token, token + count);
  }

  /// The activated experts of a layer, as its cache has them.
  void gather(std::size_t l, std::int64_t token, std::int64_t count) {
    LayerState& layer = layers_[l];
    const std::span<const ExpertId> chosen = choices(l, token, count);
    work_.clear();
    for (const ExpertId e : chosen)
      if (tokens_[e]++ == 0) work_.push_back({.expert = e});
    for (policies::ExpertWork& work : work_) {
      work.tokens = std::exchange(tokens_[work.expert], 0);
      work.here = layer.cache && layer.cache->holds(work.expert);
      work.ready_ps = work.here ? std::max<std::int64_t>(0, layer.arrives_ps[work.expert] - now_ps_) : 0;
      if (work.here && layer.foretold[work.expert]) {
        layer.foretold[work.expert] = false;
        ++totals_.prefetched_used;
      }
    }
    if (!layer.cache) {
      uncached_[l] += static_cast<std::int64_t>(work_.size());
      return;
    }
    policies::ExpertRequest request{.first = token * trace_.top_k, .experts = chosen, .scores = {}};
    const traces::RouterLayer& routed = trace_.layers[l % trace_.layers.size()];
    if (!routed.scores.empty())
      request.scores = std::span(routed.scores)
                           .subspan(static_cast<std::size_t>(token * trace_.experts),
                                    static_cast<std::size_t>(count * trace_.experts));
    layer.cache->look_up(request);
  }

  void play_layer(std::size_t l, std::int64_t token, std::int64_t count) {
    now_ps_ += layer_dense_ps_;
    gather(l, token, count);
    LayerState& layer = layers_[l];
    const std::int64_t link_busy = std::max<std::int64_t>(0, link_free_ps_ - now_ps_);
    const std::vector<ExpertPlace> places = schedule_->place(
        {.work = work_, .prices = prices_, .link_busy_ps = link_busy, .host_computes = config_.host.has_value()});
    gpu_rows_.clear();
    host_rows_.clear();
    late_.clear();
    std::int64_t link_free = now_ps_ + link_busy;
    for (std::size_t i = 0; i < work_.size(); ++i) {
      const policies::ExpertWork& work = work_[i];
      if (places[i] == ExpertPlace::host) {
        host_rows_.push_back(work.tokens);
        ++totals_.on_host;
      } else if (work.here) {
        ++totals_.on_gpu;
        if (work.ready_ps == 0)
          gpu_rows_.push_back(work.tokens);
        else
          late_.push_back({now_ps_ + work.ready_ps, work.tokens});
      } else {
        ++totals_.fetched;
        link_free += prices_.copy_ps();
        totals_.link_ps += prices_.copy_ps();
        late_.push_back({link_free, work.tokens});
        if (layer.cache) {
          layer.cache->load(work.expert);
          layer.arrives_ps[work.expert] = link_free;
          layer.foretold[work.expert] = false;
        }
      }
    }
    link_free_ps_ = std::max(link_free_ps_, link_free);
    finish(l, token, count);
  }

  /// Runs what was placed, and copies ahead while the layer lasts.
  void finish(std::size_t l, std::int64_t token, std::int64_t count) {
    std::int64_t gpu = now_ps_ + prices_.gpu_ps(gpu_rows_);
    std::int64_t busy = gpu - now_ps_;
    std::ranges::sort(late_);
    for (const auto& [arrives, rows] : late_) {
      const std::int64_t time = prices_.gpu_ps(rows);
      gpu = std::max(gpu, arrives) + time;
      busy += time;
    }
    std::int64_t host = now_ps_;
    if (!host_rows_.empty()) {
      const std::int64_t time = prices_.host_ps(host_rows_);
      totals_.host_ps += time;
      host += time + std::llround(config_.sections.machine.host.layer_gap_s * 1e12);
    }
    const std::int64_t end = std::max(gpu, host);
    totals_.gpu_experts_ps += busy;
    totals_.waited_ps += end - now_ps_ - busy;
    const std::int64_t begin = std::exchange(now_ps_, end);
    if (config_.sections.policies.prefetch.accuracy > 0 && l + 1 < layers_.size()) prefetch(l + 1, token, count, begin);
  }

  /// Copies ahead what is foretold of layer `l`, as long as a copy begins before the one before it has ended.
  void prefetch(std::size_t l, std::int64_t token, std::int64_t count, std::int64_t begin) {
    LayerState& next = layers_[l];
    if (!next.cache) return;
    next.cache->release();
    for (const ExpertId chosen : choices(l, token, count)) {
      const bool right = foretell_.bernoulli(config_.sections.policies.prefetch.accuracy);
      const ExpertId e = right ? chosen : static_cast<ExpertId>(foretell_.below(tokens_.size()));
      if (next.cache->holds(e)) continue;
      const std::int64_t start = std::max(link_free_ps_, begin);
      if (start >= now_ps_) return;
      next.cache->load(e);
      if (!next.cache->holds(e)) continue;  // a policy that keeps a fixed set
      link_free_ps_ = start + prices_.copy_ps();
      next.arrives_ps[e] = link_free_ps_;
      next.foretold[e] = true;
      totals_.link_ps += prices_.copy_ps();
      ++totals_.prefetched;
    }
  }

  const Config& config_;
  const Prices& prices_;
  std::unique_ptr<policies::ExpertSchedule> schedule_;
  const traces::RouterTrace& trace_;
  sim::RandomStream foretell_;
  std::vector<LayerState> layers_;
  std::vector<std::int64_t> uncached_ = std::vector<std::int64_t>(layers_.size(), 0);
  std::vector<std::int64_t> tokens_;  // by expert, of the layer at work
  std::vector<policies::ExpertWork> work_;
  std::vector<std::int64_t> gpu_rows_, host_rows_;
  std::vector<std::pair<std::int64_t, std::int64_t>> late_;  // when a copy is there, and its tokens
  std::int64_t layer_dense_ps_ = 0, now_ps_ = 0, begin_ps_ = 0, link_free_ps_ = 0;
  RunTotals totals_;
};

}  // namespace

std::vector<std::int64_t> layer_slots(std::int64_t layers, std::int64_t experts, double share, SlotSpread spread) {
  const auto all = std::llround(share * static_cast<double>(layers * experts));
  std::vector<std::int64_t> out;
  for (std::int64_t l = 0; l < layers; ++l)
    out.push_back(spread == SlotSpread::front ? std::clamp<std::int64_t>(all - l * experts, 0, experts)
                                              : all * (l + 1) / layers - all * l / layers);
  return out;
}

policies::ExpertCounts one_by_one(const Config& config, const std::vector<std::int64_t>& slots) {
  const traces::RouterTrace& trace = config.trace;
  policies::ExpertCounts sum;
  for (std::size_t l = 0; l < slots.size(); ++l) {
    if (slots[l] == 0) continue;
    sum += play_layer(trace, l % trace.layers.size(), config.sections.policies.cache,
                      {.slots = slots[l], .look_up = LookUp::request});
  }
  return sum;
}

RunTotals play(const Config& config, const Prices& prices, const std::vector<std::int64_t>& slots) {
  return Player(config, prices, slots).play();
}

}  // namespace orrery::experiments::experts
