#include "traces/router/fit.hpp"

#include <algorithm>
#include <cmath>
#include <functional>

#include "traces/router/profile.hpp"

namespace orrery::traces {
namespace {

constexpr std::uint64_t kSeeds[] = {1, 2};

/// A number of the generator that a fit may change: where it lies, how far a step goes, and whether steps multiply.
struct Knob {
  double RouterGenerator::*value;
  double low, high, step;
  bool multiplies;
};

double rms(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += (a[i] - b[i]) * (a[i] - b[i]);
  return std::sqrt(sum / static_cast<double>(a.size()));
}

/// Mean of the figures of drawn traces: the same draws for every generator, so that differences are its own.
std::vector<double> drawn_figures(const RouterGenerator& generator) {
  std::vector<double> mean;
  for (const std::uint64_t seed : kSeeds) {
    const std::vector<double> one = fitted_figures(generate_router_trace(generator, seed), 0);
    mean.resize(one.size(), 0);
    for (std::size_t i = 0; i < one.size(); ++i) mean[i] += one[i] / std::size(kSeeds);
  }
  return mean;
}

double moved(double value, const Knob& knob, double sign, double scale) {
  const double to = knob.multiplies ? value * std::pow(knob.step, sign * scale) : value + sign * knob.step * scale;
  return std::clamp(to, knob.low, knob.high);
}

/// Tries a step up and down for each knob in turn; halves the steps once none helps.
double search(RouterGenerator& best, const std::vector<Knob>& knobs, const std::vector<std::int64_t>& windows,
              const std::function<double(const RouterGenerator&)>& error_of) {
  double error = error_of(best);
  const auto better = [&](const RouterGenerator& tried) {
    if (tried.previous + tried.earlier > 0.98) return false;
    const double e = error_of(tried);
    if (e >= error) return false;
    error = e;
    best = tried;
    return true;
  };
  for (double scale = 1; scale >= 0.2;) {
    bool helped = false;
    for (const Knob& knob : knobs)
      for (const double sign : {1.0, -1.0}) {
        RouterGenerator tried = best;
        tried.*knob.value = moved(best.*knob.value, knob, sign, scale);
        if (tried.*knob.value != best.*knob.value && better(tried)) {
          helped = true;
          break;
        }
      }
    const auto at = std::ranges::find(windows, best.window);
    for (const std::ptrdiff_t by : {1, -1}) {
      if (at == windows.end() || (by < 0 && at == windows.begin()) || (by > 0 && at + 1 == windows.end())) continue;
      RouterGenerator tried = best;
      tried.window = *(at + by);
      if (better(tried)) {
        helped = true;
        break;
      }
    }
    if (!helped) scale /= 2;
  }
  return error;
}

/// Share of experts that random tokens of a popularity touch, each drawing without replacement: exp(-p_e tau n) misses
/// e.
double union_of(const std::vector<double>& popularity, std::int64_t top_k, std::int64_t tokens) {
  // tau such that sum 1 - exp(-p tau) = k: drawing without replacement, as by exponential clocks.
  double low = 0, high = 1;
  const auto chosen = [&](double tau) {
    double sum = 0;
    for (const double p : popularity) sum += 1 - std::exp(-p * tau);
    return sum;
  };
  const double wanted = std::min(static_cast<double>(top_k), static_cast<double>(popularity.size()) - 1e-6);
  while (chosen(high) < wanted && high < 1e12) high *= 2;
  for (int i = 0; i < 60; ++i) {
    const double middle = (low + high) / 2;
    (chosen(middle) < wanted ? low : high) = middle;
  }
  double sum = 0;
  for (const double p : popularity) sum += 1 - std::exp(-p * high * static_cast<double>(tokens));
  return sum / static_cast<double>(popularity.size());
}

/// The spread of a drawn popularity whose unions of random tokens are the trace's.
double fitted_spread(const RouterTrace& trace, std::size_t layer) {
  double best = 0.45, least = 1e300;
  for (double alpha = 0.1; alpha < 20; alpha *= 1.06) {
    const std::vector<double> popularity = sorted_popularity(trace.experts, alpha);
    double error = 0;
    for (const std::int64_t tokens : {32, 128}) {
      const double off = union_of(popularity, trace.top_k, tokens) - union_of_random(trace, layer, tokens);
      error += off * off;
    }
    if (error < least) least = error, best = alpha;
  }
  return best;
}

}  // namespace

std::vector<double> fitted_figures(const RouterTrace& trace, std::size_t layer) {
  std::vector<double> out;
  for (const std::int64_t m : {4, 16, 64}) out.push_back(100 * segment_predictability(trace, layer, m));
  for (const std::int64_t lag : {1, 32}) out.push_back(100 * reuse(trace, layer, lag));
  for (const std::int64_t tokens : {32, 128}) {
    out.push_back(100 * union_of_consecutive(trace, layer, tokens));
    out.push_back(100 * union_of_random(trace, layer, tokens));
  }
  return out;
}

RouterFit fit_router(const RouterTrace& trace, std::size_t layer, FittedPopularity popularity) {
  using G = RouterGenerator;
  RouterFit fit;
  G& g = fit.generator;
  g.experts = trace.experts;
  g.top_k = trace.top_k;
  g.tokens = trace.tokens();
  g.context = trace.context;
  std::vector<Knob> knobs{{&G::previous, 0, 0.9, 0.08, false},
                          {&G::earlier, 0, 0.9, 0.08, false},
                          {&G::common, 0, 1, 0.16, false},
                          {&G::concentration, 0.5, 500, 1.6, true}};
  if (popularity == FittedPopularity::own) {
    for (const std::int64_t n : expert_loads(trace, layer, 0, trace.tokens()))
      g.popularity.push_back(static_cast<double>(n) / static_cast<double>(trace.tokens() * trace.top_k));
  } else {
    g.spread = fitted_spread(trace, layer);
    knobs.push_back({&G::spread, 0.05, 50, 1.25, true});
  }
  const std::vector<double> wanted = fitted_figures(trace, layer);
  fit.error = search(g, knobs, {8, 16, 24, 32, 48, 64, 96, 128},
                     [&](const G& tried) { return rms(drawn_figures(tried), wanted); });
  return fit;
}

RouterFit fit_router_to_srp(double srp, std::int64_t experts, std::int64_t top_k) {
  RouterFit fit;
  RouterGenerator& g = fit.generator;
  g.experts = experts;
  g.top_k = top_k;
  g.earlier = 0;
  g.common = 1;
  g.popularity.assign(static_cast<std::size_t>(experts), 1 / static_cast<double>(experts));
  fit.error = search(g, {{&RouterGenerator::previous, 0, 0.97, 0.16, false}}, {}, [&](const RouterGenerator& tried) {
    double mean = 0;
    for (const std::uint64_t seed : kSeeds)
      mean += segment_predictability(generate_router_trace(tried, seed), 0, 16) / std::size(kSeeds);
    return 100 * std::abs(mean - srp);
  });
  return fit;
}

}  // namespace orrery::traces
