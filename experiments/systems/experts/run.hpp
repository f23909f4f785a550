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

namespace orrery::experiments::experts {

/// Times in ps, sums over all steps that count.
struct RunTotals {
  std::int64_t steps = 0, time_ps = 0, dense_ps = 0, gpu_experts_ps = 0, host_ps = 0, link_ps = 0, drive_ps = 0;
  std::int64_t waited_ps = 0;                         ///< of the GPU, for copies or the host
  std::int64_t on_gpu = 0, fetched = 0, on_host = 0;  ///< experts, by where they were computed
  std::int64_t read = 0;                              ///< experts, from the drive
  std::int64_t prefetched = 0, prefetched_used = 0;
  double experts_j = 0, host_j = 0;  ///< dynamic, of the experts' products
  policies::ExpertCounts counts;
  std::vector<double> layer_hit_rate;
};

/// Experts of each layer with a slot on the GPUs, for a share of all.
std::vector<std::int64_t> layer_slots(std::int64_t layers, std::int64_t experts, double share, SlotSpread spread);

/// Hits as published figures of caches count them: every expert by itself, loaded at once whoever computes it. Over all
/// layers with slots, from empty caches; no machine has a part in it. Nothing where experts are copied ahead or all
/// layers share a cache.
std::optional<policies::ExpertCounts> one_by_one(const Config& config, const std::vector<std::int64_t>& slots);

/// `host_slots`: experts of all layers that the host's memory keeps, where there is a drive.
RunTotals play(const Config& config, const Prices& prices, const std::vector<std::int64_t>& slots,
               std::int64_t host_slots = 0);

}  // namespace orrery::experiments::experts
