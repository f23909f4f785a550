// Router traces that are drawn: who uses which experts, and how soon again.
//
// Token t of a text chooses top_k experts without replacement, expert e with weight
//
//   w_e = q1 [e in t-1] / k  +  q2 mean over t' = t-window .. t-2 of [e in t'] / k  +  x [e follows in this layer] / k
//         + (1 - q1 - q2 - x) (common P_e + (1 - common) T_e)
//
// P is the domain's popularity and T ~ Dirichlet(concentration P) the text's own; terms that a token has no past for
// (a text's first tokens, the first layer) are left out. "Follows": each expert has one in the next layer that is as
// popular, and tokens that chose the one choose the other. Two scales of reuse, since one cannot give both the hit
// rates of caches and the unions of batches (`systems/moe_router_generator_check.csv` of the measured data).
//
// Choices are the top_k earliest of exponential clocks of rates w_e, which is drawing without replacement; a score is
// the square root of a clock's rate as it came out, so experts that nearly were chosen have good ones.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sim/base/params.hpp"
#include "traces/router/router_trace.hpp"

namespace orrery::traces {

/// What a score says of experts that are not chosen: how near they came, or nothing.
enum class RouterScores : std::uint8_t { none, informed, blind };
constexpr auto enum_names(RouterScores) {
  using enum RouterScores;
  return sim::names<RouterScores>({{"none", none}, {"informed", informed}, {"blind", blind}});
}

struct RouterGenerator {
  std::int64_t experts = 128, top_k = 8, tokens = 8000, layers = 1, context = 512;
  double previous = 0.3;      ///< q1
  double earlier = 0.1;       ///< q2
  std::int64_t window = 32;   ///< tokens back that `earlier` reaches
  double follow = 0;          ///< x
  double common = 0.45;       ///< share of the domain's popularity, the rest is the text's
  double concentration = 10;  ///< of texts about their domain: the larger, the more alike
  double spread = 0.45;       ///< of a drawn popularity: alpha of a symmetric Dirichlet; the smaller, the more skewed
  std::vector<double> popularity;  ///< by expert; empty: drawn
  bool every_layer = false;        ///< `popularity` is that of every layer, else other experts have it in others
  std::int64_t domains = 1;        ///< whose texts take turns
  double alike = 0;                ///< share of popularity that domains have in common
  RouterScores scores = RouterScores::none;
  static sim::FieldRows<RouterGenerator> fields();
};

/// What the field table does not say: shares above 1, a popularity of unlike many experts, a trace that is too large.
void check_router_generator(const sim::Node& node, const RouterGenerator& params, sim::Faults& faults);

/// The trace that a generator draws with `seed`.
RouterTrace generate_router_trace(const RouterGenerator& params, std::uint64_t seed);

/// The mean of the sorted shares that symmetric Dirichlet draws of this alpha have, the most popular first.
std::vector<double> sorted_popularity(std::int64_t experts, double alpha);

}  // namespace orrery::traces
