#include "experiments/systems/experts/run.hpp"

#include <algorithm>
#include <cmath>
#include <deque>
#include <memory>
#include <numeric>
#include <optional>

#include "experiments/experts/cache_trial.hpp"
#include "sim/base/random.hpp"

namespace orrery::experiments::experts {
namespace {

using policies::ExpertPlace;
using traces::ExpertId;

/// A layer's experts. They share a cache of their own, or, numbered from `first` on, one with all other layers.
struct LayerState {
  std::shared_ptr<policies::ExpertResidency> cache;  ///< none: no slots
  ExpertId first = 0, number = 0;                    ///< of the layer's first expert in its cache; over all layers
  policies::ExpertCounts counts;                     ///< of this layer
  std::vector<std::int64_t> arrives_ps;              ///< by expert: when its copy is there
  std::vector<bool> ahead;                           ///< by expert: copied ahead and not yet used
  bool holds(ExpertId e) const { return cache && cache->holds(static_cast<ExpertId>(first + e)); }
};

/// What a predictor says of a layer of a step.
struct Foretold {
  std::int64_t layer = 0;  ///< counted over all steps
  std::vector<ExpertId> experts;
};

class Player {
 public:
  Player(const Config& config, const Prices& prices, const std::vector<std::int64_t>& slots, std::int64_t host_slots)
      : config_(config),
        prices_(prices),
        schedule_(config.sections.policies.schedule.make()),
        order_(config.sections.policies.order.make()),
        trace_(config.trace),
        foretell_(static_cast<std::uint64_t>(config.sections.policies.prefetch.seed), "experts/prefetch"),
        layers_(slots.size()),
        pooled_(config.sections.policies.spread == SlotSpread::pooled),
        tokens_(static_cast<std::size_t>(config.trace.experts)),
        gpu_rows_(std::max<std::size_t>(1, config.sections.model.modules.size())) {
    for (LayerState& layer : layers_) {
      layer.arrives_ps.assign(tokens_.size(), 0);
      layer.ahead.assign(tokens_.size(), false);
    }
    for (std::size_t l = 0; l < layers_.size(); ++l)
      layers_[l].number = static_cast<ExpertId>(static_cast<std::int64_t>(l) * trace_.experts);
    if (pooled_) number_requests();
    if (config.storage && host_slots > 0) {
      policies::ExpertCacheSetup own = shared_setup(host_slots, false);
      own.future = {};  // what GPUs will miss is not known
      host_.emplace(config.sections.policies.host_cache.make(own), own);
    }
    if (pooled_)
      share_cache(std::accumulate(slots.begin(), slots.end(), std::int64_t{0}));
    else
      for (std::size_t l = 0; l < slots.size(); ++l)
        if (slots[l] > 0) give_cache(l, slots[l]);
    layer_dense_ps_ = prices.dense_ps() / static_cast<std::int64_t>(config.model.layers);
  }

  RunTotals play() {
    const std::int64_t a_step = config_.step_tokens(), steps = config_.steps();
    TokenGaps gaps(config_);
    std::int64_t begin_ps = 0;
    for (std::int64_t step = 0; step < steps; ++step) {
      if (step == config_.sections.workload.skip) {
        totals_ = {};
        for (LayerState& layer : layers_) layer.counts = {};
        begin_ps = now_ps_;
      }
      play_step(step * a_step, a_step);
      gaps.done(step * a_step, a_step, now_ps_, totals_.token_gap);
      ++totals_.steps;
    }
    totals_.time_ps = now_ps_ - begin_ps;
    for (const LayerState& layer : layers_) {
      totals_.counts += layer.counts;
      totals_.layer_hit_rate.push_back(layer.counts.hit_rate());
    }
    return std::move(totals_);
  }

 private:
  policies::ExpertCacheSetup setup() const {
    return {
        .experts = trace_.experts, .top_k = trace_.top_k, .foretold = config_.sections.policies.prefetch.accuracy > 0};
  }

  void give_cache(std::size_t l, std::int64_t slots) {
    const traces::RouterLayer& routed = trace_.layers[l % trace_.layers.size()];
    policies::ExpertCacheSetup own = setup();
    own.slots = slots;
    own.future = routed.choices;
    own.scores = !routed.scores.empty();
    layers_[l].cache = std::make_shared<policies::ExpertResidency>(config_.sections.policies.cache.make(own), own);
  }

  /// Every request of the run, layer after layer, experts numbered over all layers.
  void number_requests() {
    const auto layers = static_cast<std::int64_t>(layers_.size());
    const std::int64_t a_step = config_.step_tokens();
    for (std::int64_t first = 0; first + a_step <= trace_.tokens(); first += a_step)
      for (std::int64_t l = 0; l < layers; ++l)
        for (const ExpertId e : choices(static_cast<std::size_t>(l), first, a_step))
          all_requests_.push_back(static_cast<ExpertId>(l * trace_.experts + e));
  }

  policies::ExpertCacheSetup shared_setup(std::int64_t slots, bool foretold) const {
    const auto layers = static_cast<std::int64_t>(layers_.size());
    return {.experts = layers * trace_.experts,
            .slots = slots,
            .top_k = layers * trace_.top_k,
            .future = all_requests_,
            .layer_experts = trace_.experts,
            .foretold = foretold};
  }

  /// One cache for all layers.
  void share_cache(std::int64_t slots) {
    if (slots == 0) return;
    const policies::ExpertCacheSetup own = shared_setup(slots, setup().foretold);
    const auto cache = std::make_shared<policies::ExpertResidency>(config_.sections.policies.cache.make(own), own);
    for (LayerState& layer : layers_) {
      layer.cache = cache;
      layer.first = layer.number;
    }
  }

  void play_step(std::int64_t token, std::int64_t count) {
    const std::int64_t edges = prices_.dense_ps() - layer_dense_ps_ * static_cast<std::int64_t>(layers_.size());
    now_ps_ += edges + std::llround(config_.sections.machine.step_gap_s * 1e12);
    totals_.dense_ps += prices_.dense_ps();
    for (std::size_t l = 0; l < layers_.size(); ++l, ++played_) play_layer(l, token, count);
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
      work.here = unlike() || layer.holds(work.expert);
      work.ready_ps = work.here ? std::max<std::int64_t>(0, layer.arrives_ps[work.expert] - now_ps_) : 0;
      if (work.here && layer.ahead[work.expert]) {
        layer.ahead[work.expert] = false;
        ++totals_.prefetched_used;
      }
      ++layer.counts.requests;
      if (!work.here) ++layer.counts.misses;
    }
    put_in_order();
    if (!layer.cache) return;
    policies::ExpertRequest request{.first = token * trace_.top_k, .experts = chosen, .scores = {}};
    if (pooled_) {
      request.first =
          (token * static_cast<std::int64_t>(layers_.size()) + count * static_cast<std::int64_t>(l)) * trace_.top_k;
      request.experts = std::span(all_requests_).subspan(static_cast<std::size_t>(request.first), chosen.size());
    }
    const traces::RouterLayer& routed = trace_.layers[l % trace_.layers.size()];
    if (!pooled_ && !routed.scores.empty())
      request.scores = std::span(routed.scores)
                           .subspan(static_cast<std::size_t>(token * trace_.experts),
                                    static_cast<std::size_t>(count * trace_.experts));
    layer.cache->look_up(request);
  }

  /// The missing experts of a layer in the order in which they are to come; the others keep their places.
  void put_in_order() {
    std::vector<policies::ExpertLoad> loads;
    std::vector<std::size_t> places;
    for (std::size_t i = 0; i < work_.size(); ++i)
      if (!work_[i].here) {
        loads.push_back({.expert = work_[i].expert, .tokens = work_[i].tokens});
        places.push_back(i);
      }
    if (loads.size() < 2) return;
    const std::vector<policies::ExpertWork> before = work_;
    const std::vector<std::size_t> order = order_->order(loads);
    for (std::size_t i = 0; i < order.size(); ++i) work_[places[i]] = before[places[order[i]]];
  }

  void play_layer(std::size_t l, std::int64_t token, std::int64_t count) {
    now_ps_ += layer_dense_ps_;
    gather(l, token, count);
    LayerState& layer = layers_[l];
    const std::int64_t link_busy = std::max<std::int64_t>(0, link_free_ps_ - now_ps_);
    const std::vector<ExpertPlace> places = schedule_->place(
        {.work = work_, .prices = prices_, .link_busy_ps = link_busy, .host_computes = config_.host.has_value()});
    bring_to_host(l, places);
    for (auto& rows : gpu_rows_) rows.clear();
    host_rows_.clear();
    late_.clear();
    host_begin_ps_ = now_ps_;
    std::int64_t link_free = now_ps_ + link_busy;
    for (std::size_t i = 0; i < work_.size(); ++i) {
      const policies::ExpertWork& work = work_[i];
      note_work(kind_of(work.expert), work.tokens);
      if (places[i] == ExpertPlace::host) {
        host_rows_.push_back(work.tokens);
        host_begin_ps_ = std::max(host_begin_ps_, in_host_ps_[i]);
        ++totals_.on_host;
      } else if (work.here) {
        ++totals_.on_gpu;
        if (work.ready_ps == 0)
          gpu_rows_[kind_of(work.expert)].push_back(work.tokens);
        else
          late_.push_back({now_ps_ + work.ready_ps, work.tokens});
      } else {
        ++totals_.fetched;
        link_free = std::max(link_free, in_host_ps_[i]) + prices_.copy_ps();
        totals_.link_ps += prices_.copy_ps();
        totals_.copies_j += prices_.whole().copy_j;
        late_.push_back({link_free, work.tokens});
        if (layer.cache) {
          layer.cache->load(static_cast<ExpertId>(layer.first + work.expert));
          layer.arrives_ps[work.expert] = link_free;
          layer.ahead[work.expert] = false;
        }
      }
    }
    link_free_ps_ = std::max(link_free_ps_, link_free);
    finish(l, token, count);
  }

  /// Which of the prices an expert has.
  std::size_t kind_of(ExpertId e) const { return unlike() ? e : 0; }
  /// Modules of unlike sizes, which are all there from the beginning.
  bool unlike() const { return gpu_rows_.size() > 1; }

  void note_work(std::size_t kind, std::int64_t tokens) {
    const double flops = prices_.flops(kind);
    if (flops == 0) return;  // a module that skips the layer
    totals_.flops += flops * static_cast<double>(tokens);
    totals_.weight_bytes += static_cast<double>(prices_.weight_bytes(kind));
    totals_.rows += tokens;
    ++totals_.groups;
  }

  /// When each expert that the host computes or sends is in its memory; what is not there is read from the drive.
  void bring_to_host(std::size_t l, const std::vector<ExpertPlace>& places) {
    in_host_ps_.assign(work_.size(), now_ps_);
    if (!config_.storage) return;
    const auto read = [&] {
      drive_free_ps_ = std::max(drive_free_ps_, now_ps_) + prices_.whole().read_ps;
      totals_.drive_ps += prices_.whole().read_ps;
      totals_.copies_j += prices_.whole().read_j;
      ++totals_.read;
      return drive_free_ps_;
    };
    wanted_.clear();
    for (std::size_t i = 0; i < work_.size(); ++i)
      if (places[i] != ExpertPlace::gpu && !work_[i].here)
        wanted_.push_back(static_cast<ExpertId>(layers_[l].number + work_[i].expert));
    if (host_) host_->look_up({.first = host_->counts().requests, .experts = wanted_});
    for (std::size_t i = 0; i < work_.size(); ++i) {
      const auto expert = static_cast<ExpertId>(layers_[l].number + work_[i].expert);
      if (places[i] == ExpertPlace::gpu || work_[i].here || (host_ && host_->holds(expert))) continue;
      in_host_ps_[i] = read();
      if (host_) host_->load(expert);
    }
  }

  /// Runs what was placed, and copies ahead while the layer lasts.
  void finish(std::size_t l, std::int64_t token, std::int64_t count) {
    std::int64_t gpu = now_ps_, busy = 0;
    if (!config_.sections.policies.as_they_come)
      for (const auto& [arrives, rows] : late_) gpu = std::max(gpu, arrives);
    for (std::size_t kind = 0; kind < gpu_rows_.size(); ++kind) {
      const Priced there = prices_.gpu(gpu_rows_[kind], kind);
      gpu += there.time_ps;
      busy += there.time_ps;
      totals_.experts_j += there.energy_j;
    }
    std::ranges::sort(late_);
    for (const auto& [arrives, rows] : late_) {
      const Priced one = prices_.gpu(std::span(&rows, 1));
      gpu = std::max(gpu, arrives) + one.time_ps;
      busy += one.time_ps;
      totals_.experts_j += one.energy_j;
    }
    std::int64_t host = host_begin_ps_;
    if (!host_rows_.empty()) {
      const Priced own = prices_.host(host_rows_);
      totals_.host_ps += own.time_ps;
      totals_.host_j += own.energy_j;
      host += own.time_ps + std::llround(config_.sections.machine.host.layer_gap_s * 1e12);
    }
    const std::int64_t end = std::max(gpu, host);
    totals_.gpu_experts_ps += busy;
    totals_.waited_ps += end - now_ps_ - busy;
    const std::int64_t begin = std::exchange(now_ps_, end);
    if (config_.sections.policies.prefetch.accuracy > 0) prefetch(l, token, count, begin);
  }

  /// Where the layer is that comes `ahead` layers after layer l of the step that begins with `token`.
  struct Coming {
    std::size_t layer = 0;
    std::int64_t token = 0;
    bool seen = false;  ///< by the predictor
  };
  Coming coming(std::size_t l, std::int64_t ahead, std::int64_t token, std::int64_t count) const {
    const std::size_t at = l + static_cast<std::size_t>(ahead);
    const auto steps = static_cast<std::int64_t>(at / layers_.size());
    const std::int64_t from = token + steps * count;
    return {at % layers_.size(), from,
            (steps == 0 || config_.sections.policies.prefetch.across) && from + count <= trace_.tokens()};
  }

  /// Draws what the predictor says of layers that have come into its view, and tells the caches.
  void foretell(std::size_t l, std::int64_t token, std::int64_t count) {
    while (!foretold_.empty() && foretold_.front().layer <= played_) foretold_.pop_front();
    const PrefetchParams& params = config_.sections.policies.prefetch;
    for (auto ahead = static_cast<std::int64_t>(foretold_.size()) + 1; ahead <= params.layers; ++ahead) {
      const Coming at = coming(l, ahead, token, count);
      if (!at.seen) return;
      Foretold next{.layer = played_ + ahead, .experts = {}};
      for (const ExpertId chosen : choices(at.layer, at.token, count)) {
        const bool right = foretell_.bernoulli(params.accuracy);
        next.experts.push_back(right ? chosen : static_cast<ExpertId>(foretell_.below(tokens_.size())));
      }
      LayerState& state = layers_[at.layer];
      // A layer's own cache is asked once a step.
      const std::int64_t requests = pooled_ ? ahead : (ahead - 1) / static_cast<std::int64_t>(layers_.size()) + 1;
      if (state.cache)
        for (const ExpertId e : next.experts) state.cache->foretell(static_cast<ExpertId>(state.first + e), requests);
      foretold_.push_back(std::move(next));
    }
  }

  /// Only what the host's memory has is copied ahead.
  bool in_host(const LayerState& layer, ExpertId e) const {
    return !config_.storage || (host_ && host_->holds(static_cast<ExpertId>(layer.number + e)));
  }

  /// Copies ahead what is foretold of coming layers, as long as a copy begins before the next layer's router chooses.
  void prefetch(std::size_t l, std::int64_t token, std::int64_t count, std::int64_t begin) {
    foretell(l, token, count);
    for (std::size_t i = 0; i < foretold_.size(); ++i) {
      LayerState& next = layers_[coming(l, static_cast<std::int64_t>(i) + 1, token, count).layer];
      if (!next.cache) continue;
      if (!pooled_) next.cache->release();
      for (const ExpertId e : foretold_[i].experts) {
        if (next.holds(e) || !in_host(next, e)) continue;
        const std::int64_t start = std::max(link_free_ps_, begin);
        if (start >= now_ps_ + layer_dense_ps_) return;
        next.cache->load_ahead(static_cast<ExpertId>(next.first + e));
        if (!next.holds(e)) {  // no slot for it: a fixed set, or others are needed sooner than this and what follows
          if (next.cache->refuses_ahead() && pooled_) return;
          continue;
        }
        link_free_ps_ = start + prices_.copy_ps();
        next.arrives_ps[e] = link_free_ps_;
        next.ahead[e] = true;
        totals_.link_ps += prices_.copy_ps();
        totals_.copies_j += prices_.whole().copy_j;
        ++totals_.prefetched;
      }
    }
  }

  const Config& config_;
  const Prices& prices_;
  std::unique_ptr<policies::ExpertSchedule> schedule_;
  std::unique_ptr<policies::ExpertOrder> order_;
  const traces::RouterTrace& trace_;
  sim::RandomStream foretell_;
  std::vector<LayerState> layers_;
  bool pooled_;
  std::vector<ExpertId> all_requests_;             // see number_requests()
  std::optional<policies::ExpertResidency> host_;  // experts of all layers in the host's memory, where there is a drive
  std::vector<std::int64_t> in_host_ps_;           // by work_: when it is in the host's memory
  std::int64_t drive_free_ps_ = 0;
  std::deque<Foretold> foretold_;     // of the layers that come next, none left out
  std::int64_t played_ = 0;           // layers
  std::vector<std::int64_t> tokens_;  // by expert, of the layer at work
  std::vector<policies::ExpertWork> work_;
  std::vector<std::vector<std::int64_t>> gpu_rows_;  // by kind
  std::vector<std::int64_t> host_rows_;
  std::vector<ExpertId> wanted_;  // of the host, by the layer at work
  std::int64_t host_begin_ps_ = 0;
  std::vector<std::pair<std::int64_t, std::int64_t>> late_;  // when a copy is there, and its tokens
  std::int64_t layer_dense_ps_ = 0, now_ps_ = 0, link_free_ps_ = 0;
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
  return Player(config, prices, slots, host_slots).play();
}

}  // namespace orrery::experiments::experts
