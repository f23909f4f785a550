// The experts of a model layer by layer over GPU, host, link and drive: what is there, what is copied, who waits.
//
//   a layer:  [ dense part on the GPU ] router chooses at t
//             GPU    experts that are there, in one launch; then each that arrives, in the order of its arrival
//             host   its experts in one call, from t on; `host_gap` more if it has any
//             link   fetched experts one after the other, from t on; then those foretold of coming layers, the
//                    nearest first, as long as a copy begins before the next layer's router chooses
//             drive  those that the host's memory has not, one after the other, before they are copied or computed
//   the layer ends when GPU and host are done
// A copy into memory is whole before its product begins; both directions of the link and the host's memory under copies
// are free (docs/explain/expert-offload.md has what is left out). Who asks says which tokens share a step and how long
// the dense part takes: the experts system of a router trace, a serving run of its requests.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "experiments/experts/expert_times.hpp"
#include "experiments/experts/memory_params.hpp"
#include "policies/experts/residency.hpp"
#include "sim/base/random.hpp"
#include "traces/router/router_trace.hpp"

namespace orrery::experiments {

/// Experts that the tokens of a step choose, token after token.
class StepChoices {
 public:
  virtual ~StepChoices() = default;
  /// Of a layer, in the step `ahead` steps after this one; nothing where that is not known.
  virtual std::optional<std::span<const traces::ExpertId>> of(std::size_t layer, std::int64_t ahead) const = 0;
  /// What the router gave all experts of a layer, in this step; empty where it is not known.
  virtual std::span<const std::uint16_t> scores(std::size_t layer) const = 0;
};

/// What came before a run, or will come in it, of a cache: of one layer, or of all with experts numbered over them.
struct KnownRequests {
  std::span<const traces::ExpertId> future;  ///< all of the run, in order; empty where nobody knows them
  std::span<const traces::ExpertId> past;    ///< of other tokens, to know what is popular; empty: none
};

struct ExpertLayersSetup {
  std::int64_t experts = 1, top_k = 1;  ///< of a layer; of a token
  std::vector<std::int64_t> slots;      ///< of each layer with experts, on the GPUs
  std::int64_t host_slots = 0;          ///< with a drive: experts of all layers that the host's memory keeps
  std::vector<KnownRequests> known;     ///< by layer; of one cache for all layers (`pooled`) one
  bool filled = false;                  ///< caches begin with what was most popular (KnownRequests::past)
  bool scores = false;                  ///< of the router, come with choices
};

/// Times in ps, sums over all layers that were played.
struct ExpertTotals {
  std::int64_t host_ps = 0, link_ps = 0, drive_ps = 0;
  std::int64_t waited_ps = 0;                         ///< of the GPU, for copies or the host
  std::int64_t on_gpu = 0, fetched = 0, on_host = 0;  ///< experts, by where they were computed
  std::int64_t read = 0;                              ///< experts, from the drive
  std::int64_t prefetched = 0, prefetched_used = 0;
  Priced products;      ///< on the GPUs: dynamic energy beside time
  double host_j = 0;    ///< dynamic, of the experts' products there
  double copies_j = 0;  ///< of copies and of reads from the drive
  /// Of the experts' products: FLOPs, bytes of weights that they read, and how many products of one expert (of one
  /// level of it) for all of its tokens; rows that they have.
  double flops = 0, weight_bytes = 0;
  std::int64_t groups = 0, rows = 0;
  double host_flops = 0;  ///< of `flops`: by the host
  policies::ExpertCounts counts;
};

class ExpertLayers {
 public:
  /// `params` and `times` must outlive it.
  ExpertLayers(const ExpertMemoryPolicies& params, const ExpertTimes& times, ExpertLayersSetup setup);

  /// Time passes beside the layers.
  void pass(std::int64_t ps) { now_ps_ += ps; }
  /// Nothing runs for so long; copies and reads that are under way go on to their ends.
  void idle(std::int64_t ps);
  /// A layer whose dense part takes `dense_ps`; layers come in order, and begin again after the last.
  void play(std::size_t layer, const StepChoices& choices, std::int64_t dense_ps);
  std::int64_t now_ps() const { return now_ps_; }
  std::size_t layers() const { return layers_.size(); }
  const ExpertTotals& totals() const { return totals_; }
  const policies::ExpertCounts& counts(std::size_t layer) const { return layers_[layer].counts; }
  /// Counts from here on.
  void forget();

 private:
  /// A layer's experts. They share a cache of their own, or, numbered from `first` on, one with all other layers.
  struct LayerState {
    std::shared_ptr<policies::ExpertResidency> cache;  ///< none: no slots
    traces::ExpertId first = 0, number = 0;            ///< of the layer's first expert in its cache; over all layers
    std::int64_t asked = 0;                            ///< of its own cache
    policies::ExpertCounts counts;                     ///< of this layer
    std::vector<std::int64_t> arrives_ps;              ///< by expert: when its copy is there
    std::vector<bool> ahead;                           ///< by expert: copied ahead and not yet used
    bool holds(traces::ExpertId e) const { return cache && cache->holds(static_cast<traces::ExpertId>(first + e)); }
  };
  /// What a predictor says of a layer of a step.
  struct Foretold {
    std::int64_t layer = 0;  ///< counted over all steps
    std::vector<traces::ExpertId> experts;
  };

  policies::ExpertCacheSetup numbered_setup(std::int64_t slots) const;
  void give_caches(const ExpertLayersSetup& setup);
  void gather(std::size_t l, const StepChoices& choices);
  void look_up(LayerState& layer, std::span<const traces::ExpertId> chosen, std::span<const std::uint16_t> scores);
  void put_in_order();
  std::size_t kind_of(traces::ExpertId e) const { return unlike() ? e : 0; }
  /// Modules of unlike sizes, which are all there from the beginning.
  bool unlike() const { return gpu_rows_.size() > 1; }
  void note_work(std::size_t kind, std::int64_t tokens, bool on_host);
  void add_products(const Priced& priced, std::int64_t& gpu_ps);
  std::vector<traces::ExpertId> most_popular(const std::vector<KnownRequests>& known) const;
  static void load(policies::ExpertResidency& cache, const std::vector<traces::ExpertId>& popular, std::size_t slots);
  void bring_to_host(std::size_t l, const std::vector<policies::ExpertPlace>& places);
  void finish();
  void foretell(std::size_t l, const StepChoices& choices);
  bool in_host(const LayerState& layer, traces::ExpertId e) const;
  void prefetch(std::size_t l, const StepChoices& choices, std::int64_t begin, std::int64_t dense_ps);

  const ExpertMemoryPolicies& params_;
  const ExpertTimes& times_;
  std::int64_t experts_, top_k_;
  std::unique_ptr<policies::ExpertSchedule> schedule_;
  std::unique_ptr<policies::ExpertOrder> order_;
  sim::RandomStream foretell_;
  std::vector<LayerState> layers_;
  std::int64_t pooled_asked_ = 0;                  // of the cache that layers share
  std::optional<policies::ExpertResidency> host_;  // experts of all layers in the host's memory, where there is a drive
  std::vector<std::int64_t> in_host_ps_;           // by work_: when it is in the host's memory
  std::deque<Foretold> foretold_;                  // of the layers that come next, none left out
  std::int64_t played_ = 0;                        // layers
  std::vector<std::int64_t> tokens_;               // by expert, of the layer at work
  std::vector<policies::ExpertWork> work_;
  std::vector<std::vector<std::int64_t>> gpu_rows_;  // by kind
  std::vector<std::int64_t> host_rows_;
  std::vector<traces::ExpertId> wanted_;  // of the host or of a cache for all layers, by the layer at work
  std::int64_t host_begin_ps_ = 0;
  std::vector<std::pair<std::int64_t, std::int64_t>> late_;  // when a copy is there, and its tokens
  std::int64_t now_ps_ = 0, link_free_ps_ = 0, drive_free_ps_ = 0;
  ExpertTotals totals_;
};

}  // namespace orrery::experiments
