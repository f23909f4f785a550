#include "experiments/experts/expert_layers.hpp"

#include <algorithm>
#include <numeric>

namespace orrery::experiments {

using policies::ExpertPlace;
using traces::ExpertId;

namespace {

/// Clocks beyond this are set back: an eighth of what 64 bits hold.
constexpr std::int64_t kLatest = std::int64_t{1} << 60;

}  // namespace

ExpertLayers::ExpertLayers(const ExpertMemoryPolicies& params, const ExpertTimes& times, ExpertLayersSetup setup)
    : params_(params),
      times_(times),
      experts_(setup.experts),
      top_k_(setup.top_k),
      schedule_(params.schedule.make()),
      order_(params.order.make()),
      foretell_(static_cast<std::uint64_t>(params.prefetch.seed), "experts/prefetch"),
      layers_(setup.slots.size()),
      tokens_(static_cast<std::size_t>(setup.experts)),
      gpu_rows_(times.kinds()) {
  for (std::size_t l = 0; l < layers_.size(); ++l) {
    layers_[l].arrives_ps.assign(tokens_.size(), 0);
    layers_[l].ahead.assign(tokens_.size(), false);
    layers_[l].number = static_cast<ExpertId>(static_cast<std::int64_t>(l) * experts_);
  }
  give_caches(setup);
}

/// Of experts numbered over all layers.
policies::ExpertCacheSetup ExpertLayers::numbered_setup(std::int64_t slots) const {
  const auto layers = static_cast<std::int64_t>(layers_.size());
  return {.experts = layers * experts_, .slots = slots, .top_k = layers * top_k_, .layer_experts = experts_};
}

void ExpertLayers::give_caches(const ExpertLayersSetup& setup) {
  const bool foretold = params_.prefetch.accuracy > 0;
  if (times_.has_storage() && setup.host_slots > 0) {
    const policies::ExpertCacheSetup own = numbered_setup(setup.host_slots);  // what GPUs will miss is not known
    host_.emplace(params_.host_cache.make(own), own);
    if (setup.filled) load(*host_, most_popular(setup.known), static_cast<std::size_t>(setup.host_slots));
  }
  if (params_.spread == SlotSpread::pooled) {
    const std::int64_t all = std::accumulate(setup.slots.begin(), setup.slots.end(), std::int64_t{0});
    if (all == 0) return;
    policies::ExpertCacheSetup own = numbered_setup(all);
    own.future = setup.known.front().future;
    own.past = setup.known.front().past;
    own.foretold = foretold;
    const auto cache = std::make_shared<policies::ExpertResidency>(params_.cache.make(own), own);
    if (setup.filled) load(*cache, policies::by_frequency(own.past, own.experts), static_cast<std::size_t>(all));
    for (LayerState& layer : layers_) {
      layer.cache = cache;
      layer.first = layer.number;
    }
    return;
  }
  for (std::size_t l = 0; l < layers_.size(); ++l) {
    if (setup.slots[l] == 0) continue;
    const policies::ExpertCacheSetup own{.experts = experts_,
                                         .slots = setup.slots[l],
                                         .top_k = top_k_,
                                         .future = setup.known[l].future,
                                         .past = setup.known[l].past,
                                         .scores = setup.scores,
                                         .foretold = foretold};
    layers_[l].cache = std::make_shared<policies::ExpertResidency>(params_.cache.make(own), own);
    if (setup.filled)
      load(*layers_[l].cache, policies::by_frequency(own.past, experts_), static_cast<std::size_t>(own.slots));
  }
}

/// Of all layers, numbered.
std::vector<ExpertId> ExpertLayers::most_popular(const std::vector<KnownRequests>& known) const {
  std::vector<ExpertId> all;
  for (std::size_t l = 0; l < known.size(); ++l)
    for (const ExpertId e : known[l].past) all.push_back(static_cast<ExpertId>(layers_[l].number + e));
  return policies::by_frequency(all, static_cast<std::int64_t>(layers_.size()) * experts_);
}

/// The first of `popular`, the last of them first, so that a cache that goes by age keeps the most popular longest.
void ExpertLayers::load(policies::ExpertResidency& cache, const std::vector<ExpertId>& popular, std::size_t slots) {
  for (std::size_t i = std::min(slots, popular.size()); i-- > 0;)
    if (!cache.holds(popular[i])) cache.load(popular[i]);
}

void ExpertLayers::idle(std::int64_t ps) {
  const std::int64_t busy = std::max<std::int64_t>(0, std::max(link_free_ps_, drive_free_ps_) - now_ps_);
  now_ps_ += std::min(ps, busy);  // after that nothing is under way, however long it lasts
  if (now_ps_ < kLatest) return;
  for (std::int64_t* clock : {&link_free_ps_, &drive_free_ps_}) *clock -= now_ps_;
  for (LayerState& layer : layers_)
    for (std::int64_t& arrives : layer.arrives_ps) arrives -= now_ps_;
  now_ps_ = 0;
}

void ExpertLayers::forget() {
  totals_ = {};
  for (LayerState& layer : layers_) layer.counts = {};
}

/// The activated experts of a layer, as its cache has them.
void ExpertLayers::gather(std::size_t l, const StepChoices& choices) {
  LayerState& layer = layers_[l];
  const std::span<const ExpertId> chosen = choices.of(l, 0).value();
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
    for (policies::ExpertCounts* counts : {&layer.counts, &totals_.counts}) {
      ++counts->requests;
      counts->misses += work.here ? 0 : 1;
    }
  }
  put_in_order();
  if (layer.cache) look_up(layer, chosen, choices.scores(l));
}

void ExpertLayers::look_up(LayerState& layer, std::span<const ExpertId> chosen, std::span<const std::uint16_t> scores) {
  const auto count = static_cast<std::int64_t>(chosen.size());
  if (params_.spread != SlotSpread::pooled) {
    layer.cache->look_up({.first = layer.asked, .experts = chosen, .scores = scores});
    layer.asked += count;
    return;
  }
  wanted_.clear();
  for (const ExpertId e : chosen) wanted_.push_back(static_cast<ExpertId>(layer.first + e));
  layer.cache->look_up({.first = pooled_asked_, .experts = wanted_, .scores = {}});
  pooled_asked_ += count;
}

/// The missing experts of a layer in the order in which they are to come; the others keep their places.
void ExpertLayers::put_in_order() {
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

void ExpertLayers::play(std::size_t l, const StepChoices& choices, std::int64_t dense_ps) {
  now_ps_ += dense_ps;
  gather(l, choices);
  LayerState& layer = layers_[l];
  const std::int64_t link_busy = std::max<std::int64_t>(0, link_free_ps_ - now_ps_);
  const std::vector<ExpertPlace> places = schedule_->place(
      {.work = work_, .prices = times_, .link_busy_ps = link_busy, .host_computes = times_.host_computes()});
  bring_to_host(l, places);
  for (auto& rows : gpu_rows_) rows.clear();
  host_rows_.clear();
  late_.clear();
  host_begin_ps_ = now_ps_;
  std::int64_t link_free = now_ps_ + link_busy;
  for (std::size_t i = 0; i < work_.size(); ++i) {
    const policies::ExpertWork& work = work_[i];
    note_work(kind_of(work.expert), work.tokens, places[i] == ExpertPlace::host);
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
      link_free = std::max(link_free, in_host_ps_[i]) + times_.copy_ps();
      totals_.link_ps += times_.copy_ps();
      totals_.copies_j += times_.whole().copy_j;
      late_.push_back({link_free, work.tokens});
      if (layer.cache) {
        layer.cache->load(static_cast<ExpertId>(layer.first + work.expert));
        layer.arrives_ps[work.expert] = link_free;
        layer.ahead[work.expert] = false;
      }
    }
  }
  link_free_ps_ = std::max(link_free_ps_, link_free);
  const std::int64_t begin = now_ps_;
  finish();
  if (params_.prefetch.accuracy > 0) prefetch(l, choices, begin, dense_ps);
  ++played_;
}

void ExpertLayers::note_work(std::size_t kind, std::int64_t tokens, bool on_host) {
  const double flops = times_.flops(kind);
  if (flops == 0) return;  // a module that skips the layer
  totals_.flops += flops * static_cast<double>(tokens);
  if (on_host) totals_.host_flops += flops * static_cast<double>(tokens);
  totals_.weight_bytes += static_cast<double>(times_.weight_bytes(kind));
  totals_.rows += tokens;
  ++totals_.groups;
}

/// When each expert that the host computes or sends is in its memory; what is not there is read from the drive.
void ExpertLayers::bring_to_host(std::size_t l, const std::vector<ExpertPlace>& places) {
  in_host_ps_.assign(work_.size(), now_ps_);
  if (!times_.has_storage()) return;
  const auto read = [&] {
    drive_free_ps_ = std::max(drive_free_ps_, now_ps_) + times_.whole().read_ps;
    totals_.drive_ps += times_.whole().read_ps;
    totals_.copies_j += times_.whole().read_j;
    ++totals_.read;
    return drive_free_ps_;
  };
  wanted_.clear();
  for (std::size_t i = 0; i < work_.size(); ++i)
    if (places[i] == ExpertPlace::host || (places[i] == ExpertPlace::fetched && !work_[i].here))
      wanted_.push_back(static_cast<ExpertId>(layers_[l].number + work_[i].expert));
  if (host_) host_->look_up({.first = host_->counts().requests, .experts = wanted_});
  for (std::size_t i = 0; i < work_.size(); ++i) {
    const auto expert = static_cast<ExpertId>(layers_[l].number + work_[i].expert);
    const bool needed = places[i] == ExpertPlace::host || (places[i] == ExpertPlace::fetched && !work_[i].here);
    if (!needed || (host_ && host_->holds(expert))) continue;
    in_host_ps_[i] = read();
    if (host_) host_->load(expert);
  }
}

/// Products on the GPUs, the next of which may begin at `gpu_ps`.
void ExpertLayers::add_products(const Priced& priced, std::int64_t& gpu_ps) {
  gpu_ps += priced.time_ps;
  totals_.products.add(priced);
}

/// Runs what was placed.
void ExpertLayers::finish() {
  std::int64_t gpu = now_ps_;
  const std::int64_t busy_before = totals_.products.time_ps;
  if (!params_.as_they_come)
    for (const auto& [arrives, rows] : late_) gpu = std::max(gpu, arrives);
  for (std::size_t kind = 0; kind < gpu_rows_.size(); ++kind) add_products(times_.gpu(gpu_rows_[kind], kind), gpu);
  std::ranges::sort(late_);
  for (const auto& [arrives, rows] : late_) {
    gpu = std::max(gpu, arrives);
    add_products(times_.gpu(std::span(&rows, 1)), gpu);
  }
  std::int64_t host = host_begin_ps_;
  if (!host_rows_.empty()) {
    const Priced own = times_.host(host_rows_);
    totals_.host_ps += own.time_ps;
    totals_.host_j += own.energy_j;
    host += own.time_ps + times_.host_gap_ps();
  }
  const std::int64_t end = std::max(gpu, host);
  totals_.waited_ps += end - now_ps_ - (totals_.products.time_ps - busy_before);
  now_ps_ = end;
}

/// Draws what the predictor says of layers that have come into its view, and tells the caches.
void ExpertLayers::foretell(std::size_t l, const StepChoices& choices) {
  while (!foretold_.empty() && foretold_.front().layer <= played_) foretold_.pop_front();
  const ExpertPrefetchParams& params = params_.prefetch;
  for (auto ahead = static_cast<std::int64_t>(foretold_.size()) + 1; ahead <= params.layers; ++ahead) {
    const std::size_t at = l + static_cast<std::size_t>(ahead);
    const auto steps = static_cast<std::int64_t>(at / layers_.size());
    if (steps > 0 && !params.across) return;
    const auto coming = choices.of(at % layers_.size(), steps);
    if (!coming) return;
    Foretold next{.layer = played_ + ahead, .experts = {}};
    for (const ExpertId chosen : *coming) {
      const bool right = foretell_.bernoulli(params.accuracy);
      next.experts.push_back(right ? chosen : static_cast<ExpertId>(foretell_.below(tokens_.size())));
    }
    LayerState& state = layers_[at % layers_.size()];
    // A layer's own cache is asked once a step.
    const std::int64_t requests =
        params_.spread == SlotSpread::pooled ? ahead : (ahead - 1) / static_cast<std::int64_t>(layers_.size()) + 1;
    if (state.cache)
      for (const ExpertId e : next.experts) state.cache->foretell(static_cast<ExpertId>(state.first + e), requests);
    foretold_.push_back(std::move(next));
  }
}

/// Only what the host's memory has is copied ahead.
bool ExpertLayers::in_host(const LayerState& layer, ExpertId e) const {
  return !times_.has_storage() || (host_ && host_->holds(static_cast<ExpertId>(layer.number + e)));
}

/// Copies ahead what is foretold of coming layers, as long as a copy begins before the next layer's router chooses. The
/// layer's experts began at `begin`.
void ExpertLayers::prefetch(std::size_t l, const StepChoices& choices, std::int64_t begin, std::int64_t dense_ps) {
  foretell(l, choices);
  const bool pooled = params_.spread == SlotSpread::pooled;
  for (std::size_t i = 0; i < foretold_.size(); ++i) {
    LayerState& next = layers_[(l + 1 + i) % layers_.size()];
    if (!next.cache) continue;
    if (!pooled) next.cache->release();
    for (const ExpertId e : foretold_[i].experts) {
      if (next.holds(e) || !in_host(next, e)) continue;
      const std::int64_t start = std::max(link_free_ps_, begin);
      if (start >= now_ps_ + dense_ps) return;
      next.cache->load_ahead(static_cast<ExpertId>(next.first + e));
      if (!next.holds(e)) {  // no slot for it: a fixed set, or others are needed sooner than this and what follows
        if (next.cache->refuses_ahead() && pooled) return;
        continue;
      }
      link_free_ps_ = start + times_.copy_ps();
      next.arrives_ps[e] = link_free_ps_;
      next.ahead[e] = true;
      totals_.link_ps += times_.copy_ps();
      totals_.copies_j += times_.whole().copy_j;
      ++totals_.prefetched;
    }
  }
}

}  // namespace orrery::experiments
