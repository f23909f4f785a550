// A router trace played over ranks that share the experts (expert parallelism).
//
//   a layer:  each rank does the dense part of its texts
//             rows go to the ranks of their experts: the fullest way sets the time (hw/network/node_collective)
//             each rank does its experts in one launch a product; all wait for the slowest
//             with `rows: home` the results go back
// The replicas of an expert take its rows in turns. All ranks are in lock step, and nothing overlaps but for
// `in_turns`: then each rank's texts (a lone text's tokens) make two halves, and a layer takes what
// hw::layer_in_turns() says of the slower one.
#pragma once

#include <cstdint>

#include "experiments/systems/experts/config.hpp"
#include "experiments/systems/experts/prices.hpp"
#include "sim/statistics.hpp"

namespace orrery::experiments::experts {

/// Times in ps, sums over the steps that count.
struct RankTotals {
  std::int64_t steps = 0, time_ps = 0;
  std::int64_t dense_ps = 0, experts_ps = 0, exchange_ps = 0;  ///< alone; together the time where nothing overlaps
  double experts_j = 0, exchange_j = 0;                        ///< dynamic, of all ranks
  sim::SampleStats layer_experts, layer_exchange;  ///< ps of each layer and step: the slowest rank, the exchange
  double imbalance = 0;                            ///< (most - mean) / mean of the ranks' rows, mean over both
};

RankTotals play_ranks(const Config& config, const Prices& prices);

/// Slots of all layers on the rank that holds most.
std::int64_t most_slots(const Config& config);

}  // namespace orrery::experiments::experts
