#include "sim/base/random.hpp"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <stdexcept>

#include "sim/base/document.hpp"
#include "sim/base/math.hpp"
#include "sim/base/math_kernels.hpp"
#include "sim/base/mix.hpp"

namespace orrery::sim {
namespace {

pcg64 make_generator(std::uint64_t seed, std::uint64_t key) {
  using Wide128 = pcg64::state_type;
  const Wide128 state = (static_cast<Wide128>(mix64(seed)) << 64) | mix64(seed ^ key);
  const Wide128 stream = (static_cast<Wide128>(mix64(key)) << 64) | mix64(key + 1);
  return pcg64(state, stream);
}

// Powers of uniforms are taken as exp(log / shape): det_pow is several times slower, and the digits that it saves are
// noise.

// Children by index and by name come from different places, so that child(7) is nobody's child("…").
constexpr std::uint64_t kByIndex = 0x696e646578000000ULL;
constexpr std::uint64_t kByName = 0x6e616d6500000000ULL;

[[noreturn]] void refuse(const char* what, double value) {
  throw std::invalid_argument(fmt::format("{}, got {}", what, value));
}
/// `what` names distribution, parameter and range.
void require(bool holds, const char* what, double value) {
  if (!holds || !std::isfinite(value)) [[unlikely]]
    refuse(what, value);
}

/// ln(k!) - ((k + 1/2) ln k - k + ln(2 pi)/2), k >= 10: Stirling's series to k^-9, the next term is below 1e-14.
double stirling_rest(double k) {
  constexpr std::array<double, 5> kSeries{1.0 / 12, -1.0 / 360, 1.0 / 1260, -1.0 / 1680, 1.0 / 1188};
  return polynomial(kSeries, 1 / (k * k)) / k;
}

/// k ln(k / mean) - k + mean, k > 0, without cancellation: with v = (k - mean)/(k + mean), ln(k/mean) = 2 atanh(v), and
/// 2 k v - (k - mean) = (k - mean) v.
double poisson_deviance(double k, double mean) {
  const double v = (k - mean) / (k + mean);
  if (std::fabs(v) > 0.1) return k * det_log(k / mean) - (k - mean);
  constexpr std::array<double, 8> kSeries{1.0 / 3, 1.0 / 5, 1.0 / 7, 1.0 / 9, 1.0 / 11, 1.0 / 13, 1.0 / 15, 1.0 / 17};
  const double z = v * v;
  return (k - mean) * v + 2 * k * v * (z * polynomial(kSeries, z));
}

/// ln of the Poisson probability of k.
double log_poisson(double k, double mean) {
  constexpr double kLogTwoPi = 1.8378770664093453;
  if (k < 10) return k * det_log(mean) - mean - det_lgamma(k + 1);
  return -poisson_deviance(k, mean) - 0.5 * (kLogTwoPi + det_log(k)) - stirling_rest(k);
}

}  // namespace

RandomStream::RandomStream(std::uint64_t seed, std::string_view name) : RandomStream(seed, hash_text(name), 0) {}
RandomStream::RandomStream(std::uint64_t seed, std::uint64_t key, int)
    : generator_(make_generator(seed, key)), seed_(seed), key_(key) {}

RandomStream RandomStream::child(std::uint64_t index) const {
  return {seed_, mix64(mix64(key_ ^ kByIndex) ^ index), 0};
}
RandomStream RandomStream::child(std::string_view name) const {
  return {seed_, mix64(mix64(key_ ^ kByName) ^ hash_text(name)), 0};
}

double RandomStream::uniform(double low, double high) {
  require(low <= high, "uniform: expected low <= high", low);
  require(true, "uniform: expected a finite high", high);
  const double u = uniform();
  return low * (1 - u) + high * u;
}

std::uint64_t RandomStream::below(std::uint64_t n) {
  require(n >= 1, "below: expected n >= 1", 0);
  const std::uint64_t threshold = (0 - n) % n;  // draws below it would favour small results
  while (true) {
    const std::uint64_t x = bits();
    if (x >= threshold) return x % n;
  }
}

std::int64_t RandomStream::integer(std::int64_t low, std::int64_t high) {
  require(low <= high, "integer: expected low <= high", static_cast<double>(low));
  const std::uint64_t span = static_cast<std::uint64_t>(high) - static_cast<std::uint64_t>(low) + 1;
  const std::uint64_t offset = span == 0 ? bits() : below(span);  // 0: all 2^64 values
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(low) + offset);
}

bool RandomStream::bernoulli(double p) {
  require(p >= 0 && p <= 1, "bernoulli: expected p in [0, 1]", p);
  return uniform() < p;
}

double RandomStream::exponential(double mean) {
  require(mean > 0, "exponential: expected mean > 0", mean);
  return -mean * det_log(1.0 - uniform());
}

double RandomStream::hyper_exponential(double mean, double variation) {
  require(mean > 0, "hyper_exponential: expected mean > 0", mean);
  require(variation >= 1, "hyper_exponential: expected variation >= 1", variation);
  // Phases of probability p and 1-p and means mean/(2p), mean/(2(1-p)): E[X^2] = mean^2 (1/p + 1/(1-p)) / 2, which is
  // mean^2 (1 + variation^2) for p (1-p) = 1 / (2 (1 + variation^2)).
  const double square = variation * variation;
  const double p = 0.5 * (1 + std::sqrt((square - 1) / (square + 1)));
  const double other = 1 / (2 * (1 + square) * p);  // 1 - p without cancellation
  return exponential(mean / (2 * (uniform() < other ? other : p)));
}

double RandomStream::normal() {
  while (true) {
    const double x = 2 * uniform() - 1;
    const double y = 2 * uniform() - 1;
    const double s = x * x + y * y;
    if (s > 0 && s < 1) return x * std::sqrt(-2 * det_log(s) / s);
  }
}

double RandomStream::normal(double mean, double deviation) {
  require(true, "normal: expected a finite mean", mean);
  require(deviation >= 0, "normal: expected deviation >= 0", deviation);
  return mean + deviation * normal();
}

double RandomStream::truncated_normal(double mean, double deviation, double low, double high) {
  require(true, "truncated_normal: expected a finite mean", mean);
  require(deviation > 0, "truncated_normal: expected deviation > 0", deviation);
  if (!(low < high)) refuse("truncated_normal: expected low < high", low);
  double a = (low - mean) / deviation;
  double b = (high - mean) / deviation;
  double sign = 1;
  if (b < 0) {  // the left tail is the right one mirrored
    sign = -1;
    a = -a;
    b = -b;
    std::swap(a, b);
  }
  const auto result = [&](double x) { return std::fmin(std::fmax(mean + sign * deviation * x, low), high); };
  if (a <= 0 && b - a > 2.5) {  // wide: a fifth or more of the normals fall inside
    while (true) {
      const double x = normal();
      if (x >= a && x <= b) return result(x);
    }
  }
  const double rate = 0.5 * (a + std::sqrt(a * a + 4));
  if (a > 0 && (b - a) * rate > 1) {  // tail: an exponential of the best rate above a
    while (true) {
      const double x = a + exponential(1 / rate);
      if (x <= b && det_log(1 - uniform()) <= -0.5 * (x - rate) * (x - rate)) return result(x);
    }
  }
  const double peak = a > 0 ? a : 0;  // narrow: uniform under the highest density
  while (true) {
    const double x = a + (b - a) * uniform();
    if (det_log(1 - uniform()) <= 0.5 * (peak - x) * (peak + x)) return result(x);
  }
}

double RandomStream::log_normal(double log_mean, double log_sigma) {
  require(log_sigma >= 0, "log_normal: expected log_sigma >= 0", log_sigma);
  return det_exp(log_mean + log_sigma * normal());
}

double RandomStream::gamma(double shape, double scale) {
  require(shape > 0, "gamma: expected shape > 0", shape);
  require(scale > 0, "gamma: expected scale > 0", scale);
  if (shape < 1) {  // boost: Gamma(shape) = Gamma(shape + 1) * U^(1/shape)
    const double u = 1.0 - uniform();
    return gamma(shape + 1, scale) * det_exp(det_log(u) / shape);
  }
  const double d = shape - 1.0 / 3.0;
  const double c = 1 / std::sqrt(9 * d);
  while (true) {
    const double x = normal();
    const double t = 1 + c * x;
    if (t <= 0) continue;
    const double v = t * t * t;
    const double u = 1.0 - uniform();
    if (det_log(u) < 0.5 * x * x + d - d * v + d * det_log(v)) return d * v * scale;
  }
}

double RandomStream::weibull(double shape, double scale) {
  require(shape > 0, "weibull: expected shape > 0", shape);
  require(scale > 0, "weibull: expected scale > 0", scale);
  return scale * det_exp(det_log(-det_log(1.0 - uniform())) / shape);
}

double RandomStream::pareto(double minimum, double shape) {
  require(minimum > 0, "pareto: expected minimum > 0", minimum);
  require(shape > 0, "pareto: expected shape > 0", shape);
  return minimum * det_exp(-det_log(1.0 - uniform()) / shape);
}

double RandomStream::lomax(double scale, double shape) {
  require(scale > 0, "lomax: expected scale > 0", scale);
  require(shape > 0, "lomax: expected shape > 0", shape);
  return scale * det_expm1(-det_log(1.0 - uniform()) / shape);
}

double RandomStream::triangular(double low, double mode, double high) {
  require(low <= mode, "triangular: expected low <= mode", low);
  require(mode <= high, "triangular: expected mode <= high", mode);
  require(true, "triangular: expected a finite high", high);
  const double width = high - low;
  const double u = uniform();
  if (u * width < mode - low) return low + std::sqrt(u * width * (mode - low));
  return high - std::sqrt((1 - u) * width * (high - mode));
}

std::int64_t RandomStream::poisson(double mean) {
  require(mean >= 0 && mean <= 0x1p50, "poisson: expected mean in [0, 2^50]", mean);
  if (mean < 10) {
    while (true) {
      double u = uniform();
      double p = det_exp(-mean);
      // Rounding may leave the sum of all probabilities a hair below a draw; counts past 150 have less than 1e-110.
      for (int k = 0; k < 150; p *= mean / ++k) {
        if (u < p) return k;
        u -= p;
      }
    }
  }
  // Hörmann's constants of the transformation G(u) = (2a / (1/2 - |u|) + b) u + mean + 0.43 and of the hat's area.
  const double b = 0.931 + 2.53 * std::sqrt(mean);
  const double a = -0.059 + 0.02483 * b;
  const double inverse_alpha = 1.1239 + 1.1328 / (b - 3.4);
  const double squeeze = 0.9277 - 3.6224 / (b - 2);
  while (true) {
    const double u = uniform() - 0.5;
    const double v = 1.0 - uniform();
    const double us = 0.5 - std::fabs(u);
    if (us <= 0) continue;
    const double k = std::floor((2 * a / us + b) * u + mean + 0.43);
    if (us >= 0.07 && v <= squeeze) return static_cast<std::int64_t>(k);
    if (k < 0 || (us < 0.013 && v > us)) continue;
    if (det_log(v * inverse_alpha / (a / (us * us) + b)) <= log_poisson(k, mean)) return static_cast<std::int64_t>(k);
  }
}

std::int64_t RandomStream::geometric(double p) {
  require(p >= 1e-15 && p <= 1, "geometric: expected p in [1e-15, 1]", p);
  const double u = 1.0 - uniform();
  if (p == 1) return 1;
  return 1 + static_cast<std::int64_t>(det_log(u) / det_log1p(-p));
}

}  // namespace orrery::sim
