// A router trace played step by step and layer by layer over GPU, host and link.
//
//   a layer:  [ dense part on the GPU ] router chooses at t
//             GPU    experts that are there, in one launch; then each that arrives, in the order of its arrival
//             host   its experts in one call, from t on; `layer_gap` more if it has any
//             link   fetched experts one after the other, from t on; then those foretold of coming layers, the
//                    nearest first, as long as a copy begins before the next layer's router chooses
//             drive  those that the host's memory has not, one after the other, before they are copied or computed
//   the layer ends when GPU and host are done
// Dense time is the same in each layer. A copy into memory is whole before its product begins; both directions of the
// link and the host's memory under copies are free (docs/explain/expert-offload.md has what is left out).
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "experiments/systems/experts/config.hpp"
#include "experiments/systems/experts/prices.hpp"
#include "policies/experts/residency.hpp"
#include "sim/statistics.hpp"

namespace orrery::experiments::experts {

/// Times in ps, sums over all steps that count.
struct RunTotals {
  std::int64_t steps = 0, time_ps = 0, dense_ps = 0, gpu_experts_ps = 0, host_ps = 0, link_ps = 0, drive_ps = 0;
  std::int64_t waited_ps = 0;                         ///< of the GPU, for copies or the host
  std::int64_t on_gpu = 0, fetched = 0, on_host = 0;  ///< experts, by where they were computed
  std::int64_t read = 0;                              ///< experts, from the drive
  std::int64_t prefetched = 0, prefetched_used = 0;
  double experts_j = 0, host_j = 0;  ///< dynamic, of the experts' products
  double copies_j = 0;               ///< of copies and of reads from the drive
  /// Of the experts' products: FLOPs, bytes of weights that they read, and how many products of one expert (of one
  /// level of it) for all of its tokens; rows that they have.
  double flops = 0, weight_bytes = 0;
  std::int64_t groups = 0, rows = 0;
  sim::SampleStats token_gap = sim::SampleStats();  ///< ps between two tokens of a text, the ends of their steps
  policies::ExpertCounts counts;
  std::vector<double> layer_hit_rate;
};

/// Experts of each layer with a slot on the GPUs, for a share of all.
std::vector<std::int64_t> layer_slots(std::int64_t layers, std::int64_t experts, double share, SlotSpread spread);

/// Hits as published figures of caches count them: every expert by itself, loaded at once whoever computes it. Over all
/// layers with slots, from empty caches; no machine has a part in it. Nothing where experts are copied ahead or all
/// layers share a cache.
std::optional<policies::ExpertCounts> one_by_one(const Config& config, const std::vector<std::int64_t>& slots);

/// When tokens of the same text are done.
class TokenGaps {
 public:
  explicit TokenGaps(const Config& config)
      : texts_(config.texts), last_ps_(static_cast<std::size_t>(config.texts_underway()), -1) {}
  /// Tokens [first, first + count) are done at a time.
  void done(std::int64_t first, std::int64_t count, std::int64_t now_ps, sim::SampleStats& gaps);

 private:
  const std::vector<std::int64_t>& texts_;  ///< by token; empty: texts take turns
  std::vector<std::int64_t> last_ps_;       ///< by text; -1: none yet
};

/// `host_slots`: experts of all layers that the host's memory keeps, where there is a drive.
RunTotals play(const Config& config, const Prices& prices, const std::vector<std::int64_t>& slots,
               std::int64_t host_slots = 0);

}  // namespace orrery::experiments::experts
