#include "models/transformer/router.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "sim/base/math.hpp"

namespace orrery::models {
namespace {

double d(std::int64_t value) {
  return static_cast<double>(value);
}

/// Chance that an expert of this rate is not picked by any of `tokens` tokens that share their tastes.
double log_unused(double rate, double tokens, double correlation) {
  if (correlation < 1e-9) return -rate * tokens;
  return -sim::det_log1p(correlation * rate * tokens) / correlation;
}

std::vector<double> popularities(double skew, std::int64_t experts) {
  std::vector<double> w(static_cast<std::size_t>(experts));
  for (std::size_t i = 0; i < w.size(); ++i) w[i] = skew == 0 ? 1.0 : sim::det_pow(static_cast<double>(i + 1), -skew);
  return w;
}

}  // namespace

Router::Router(const RouterParams& params, std::int64_t experts, std::int64_t top_k, std::int64_t ranks)
    : params_(params), experts_(experts), top_k_(top_k), ranks_(ranks) {
  if (top_k < 1 || top_k > experts) throw std::invalid_argument("router: expected top_k from 1 to the experts");
  if (ranks < 1 || experts % ranks != 0) throw std::invalid_argument("router: expected ranks that divide the experts");
  const std::vector<double> w = popularities(params.skew, experts);
  for (const double x : w) weight_sum_ += x;
  const auto choices = [&](double tau) {
    double sum = 0;
    for (const double x : w) sum += 1 - sim::det_exp(log_unused(x / weight_sum_ * tau, 1, params.correlation));
    return sum;
  };
  // choices(tau) grows from 0 to the number of experts. Halving in the exponent reaches full precision soon.
  double low = 0, high = 1;
  const double wanted = top_k == experts ? d(experts) - 1e-6 : d(top_k);
  while (choices(high) < wanted && high < 1e30) low = high, high *= 2;
  for (int i = 0; i < 60; ++i) {
    const double middle = (low + high) / 2;
    (choices(middle) < wanted ? low : high) = middle;
  }
  tau_ = high;
  for (std::int64_t first = 0; first < experts / ranks;) {
    const std::int64_t size = std::min(experts / ranks - first, std::max<std::int64_t>(1, first / 8));
    Class c{d(size), 0};
    for (std::int64_t i = first; i < first + size; ++i)
      c.rate += w[static_cast<std::size_t>(i * ranks)] / weight_sum_ * tau_ / d(size);
    classes_.push_back(c);
    first += size;
  }
}

double Router::chance(std::int64_t expert) const {
  const double w = params_.skew == 0 ? 1.0 : sim::det_pow(d(expert + 1), -params_.skew);
  return 1 - sim::det_exp(log_unused(w / weight_sum_ * tau_, 1, params_.correlation));
}

double Router::unused(double rate, const TokenMix& mix) const {
  double log = d(mix.decode) * log_unused(rate, 1, params_.correlation);
  if (mix.prompt > 0) {
    const double prompts = d(std::clamp<std::int64_t>(mix.prompts, 1, mix.prompt));
    log += prompts * log_unused(rate, d(mix.prompt) / prompts, params_.correlation);
  }
  return sim::det_exp(log);
}

double Router::coverage(const TokenMix& mix) const {
  double sum = 0;
  for (const Class& c : classes_) sum += c.size * (1 - unused(c.rate, mix));
  return sum;
}

RoutedRows Router::route(const TokenMix& mix) const {
  RoutedRows out;
  if (mix.tokens() <= 0 || classes_.empty()) return out;
  double experts = 0, rows = 0;
  std::array<double, hw::kGroupTiles.size()> tiles{};
  for (const Class& c : classes_) {
    const double active = c.size * (1 - unused(c.rate, mix));
    const double got = c.size * d(mix.tokens()) * (1 - sim::det_exp(log_unused(c.rate, 1, params_.correlation)));
    experts += active;
    rows += got;
    if (active <= 0) continue;
    const double each = got / active;
    out.max_rows = std::max(out.max_rows, static_cast<std::int64_t>(std::ceil(each)));
    // Rows scatter about their mean: a tile is half empty on average, and the first is never missing.
    for (std::size_t t = 0; t < tiles.size(); ++t) {
      const double height = d(hw::kGroupTiles[t]);
      tiles[t] += active * (1 + std::max(0.0, each - height / 2) / height);
    }
  }
  // All choices of the batch when the rank has all experts, whatever rounding of tau did.
  out.rows = ranks_ == 1 ? mix.tokens() * top_k_ : std::max<std::int64_t>(1, std::llround(rows));
  out.experts = std::clamp<std::int64_t>(std::llround(experts), 1, std::min(experts_ / ranks_, out.rows));
  out.max_rows = std::clamp<std::int64_t>(out.max_rows, 1, out.rows);
  for (std::size_t t = 0; t < tiles.size(); ++t)
    out.row_tiles[t] = std::max(out.experts, static_cast<std::int64_t>(std::ceil(tiles[t])));
  return out;
}

}  // namespace orrery::models
