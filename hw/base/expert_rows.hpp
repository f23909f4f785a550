// Rows that a router sends to each expert: what condenses to a GroupedGemm.
//
// balanced: choice i of token t goes to expert (t + i s) mod E with s = ceil(E / k); batches of fewer tokens than s
//   spread out evenly. Every expert gets tokens * k / E rows, give or take one.
// power law with exponent a: the popularities of the experts are the expected quantiles of the density p(x) ~ x^-a,
//   x(u) = ((b^(1-a) - c^(1-a)) u + c^(1-a))^(1/(1-a)),  u = (i + 1/2) / E,
//   between c = 1 and b = 0.8 tokens (c = 0.01, b = 2 where there are fewer rows than experts), scaled to tokens * k
//   rows, none above `tokens`, rounded so that the sum is exact. This is the family of loads that aiconfigurator's
//   collector draws at random for its fused-MoE tables (ai-dynamo/aiconfigurator, collector); quantiles in place of
//   draws make it deterministic.
// Expert-parallel ranks hold E / ranks experts each. The rank that counts is the slowest: the one with most rows. Which
// experts share it is chance; experts are dealt to ranks by fifteen fixed shuffles, and of the fifteen heaviest ranks
// the one in the middle is taken.
//
// Left out: correlation between the choices of a token, and of the tokens of a sequence.
#pragma once

#include <cstdint>
#include <vector>

namespace orrery::hw {

/// How unevenly experts are chosen.
struct ExpertLoad {
  double exponent = 0;  ///< of the power law; 0: balanced
};

/// Rows of each expert of the rank with the most rows (of the first rank where the load is balanced), `experts / ranks`
/// numbers. Deterministic. Throws std::invalid_argument unless 1 <= top_k <= experts, 1 <= ranks <= experts and
/// tokens >= 0.
std::vector<std::int64_t> expert_rows(std::int64_t tokens, std::int64_t top_k, std::int64_t experts, std::int64_t ranks,
                                      ExpertLoad load);

}  // namespace orrery::hw
