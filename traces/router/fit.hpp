// A router generator fitted to a trace of one layer.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "traces/router/generator.hpp"

namespace orrery::traces {

/// Whether the fitted generator has the trace's own popularity, expert by expert, or draws one as skewed.
enum class FittedPopularity : std::uint8_t { drawn, own };
constexpr auto enum_names(FittedPopularity) {
  using enum FittedPopularity;
  return sim::names<FittedPopularity>({{"drawn", drawn}, {"own", own}});
}

/// What a fit looks at, all in points (hundredths): SRP of 4, 16 and 64 tokens, reuse at lags 1 and 32, unions of 32
/// and 128 consecutive tokens. Hit rates of caches are not among them: they are what a fit predicts.
std::vector<double> fitted_figures(const RouterTrace& trace, std::size_t layer);

struct RouterFit {
  RouterGenerator generator;
  double error = 0;  ///< root mean square of the figures' errors, points
};

/// `previous`, `earlier`, `window`, `common` and `concentration` by a pattern search over the figures of drawn traces
/// as long as this one; for a drawn popularity `spread` first, from unions of 32 and 128 random tokens. Deterministic.
RouterFit fit_router(const RouterTrace& trace, std::size_t layer, FittedPopularity popularity);

/// From SRP of 16 tokens alone (0 to 1): `previous`, experts all alike, no other reuse. What is known of a model whose
/// traces are not public; on real traces its hit rates are 18 to 30 points off.
RouterFit fit_router_to_srp(double srp, std::int64_t experts, std::int64_t top_k);

}  // namespace orrery::traces
