// What a router trace looks like: how far tokens reuse experts, and how evenly these are loaded.
//
// All figures take a trace as one run of tokens: windows go over the ends of its texts.
//
// SRP (segment routing predictability, "Not All Models Suit Expert Offloading", arXiv 2505.16056): windows of m tokens
// are said to use an expert if they choose it at least `threshold` times; with f the times that it is chosen,
// TP sums f and FP sums m - f over windows said to use an expert, FN sums f over the others; SRP is the F1 score
// 2 TP / (2 TP + FP + FN) at the best threshold. All experts of a layer share the threshold.
#pragma once

#include <cstdint>
#include <vector>

#include "traces/router/router_trace.hpp"

namespace orrery::traces {

/// Share of a token's choices that the token `lag` later makes too, over the whole trace. Needs more than `lag` tokens.
double reuse(const RouterTrace& trace, std::size_t layer, std::int64_t lag);

/// What `reuse` would be if tokens chose by popularity alone: sum p^2 / sum p, p the share of tokens with an expert.
double reuse_by_chance(const RouterTrace& trace, std::size_t layer);

/// SRP of windows of `m` tokens, from 0 to 1.
double segment_predictability(const RouterTrace& trace, std::size_t layer, std::int64_t m);

/// Times that each expert is chosen by tokens [first, last).
std::vector<std::int64_t> expert_loads(const RouterTrace& trace, std::size_t layer, std::int64_t first,
                                       std::int64_t last);

/// Experts of the largest loads that have at least this share of all.
std::int64_t experts_for_share(const std::vector<std::int64_t>& loads, double share);

/// Share of the experts that `tokens` consecutive ones choose, mean over the whole pieces of the trace.
double union_of_consecutive(const RouterTrace& trace, std::size_t layer, std::int64_t tokens);

/// The same of tokens drawn at random from the trace, in expectation: an expert that n of N tokens choose is missed
/// with probability C(N - n, tokens) / C(N, tokens).
double union_of_random(const RouterTrace& trace, std::size_t layer, std::int64_t tokens);

/// (most - mean) / mean of what ranks get; 0 where nobody gets anything.
double imbalance(const std::vector<double>& loads);

/// A layer in short.
struct RouterProfile {
  std::int64_t layer = 0;
  double reuse_1 = 0, reuse_4 = 0, reuse_8 = 0, reuse_32 = 0, by_chance = 0;
  double srp_4 = 0, srp_16 = 0, srp_64 = 0;
  double union_8 = 0, union_32 = 0, union_128 = 0;
  double random_8 = 0, random_32 = 0, random_128 = 0;
  double busiest = 0;  ///< load of the busiest expert over the mean
  std::int64_t for_95 = 0, for_99 = 0;
};

/// Figures that a trace is too short for are 0.
RouterProfile profile_router(const RouterTrace& trace, std::size_t layer);

}  // namespace orrery::traces
