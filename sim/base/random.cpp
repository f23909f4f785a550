#include "sim/base/random.hpp"

#include <cmath>

#include "sim/base/document.hpp"
#include "sim/base/math.hpp"

namespace orrery::sim {
namespace {

/// One output of splitmix64 for state x.
std::uint64_t mix(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15ULL;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

pcg64 make_generator(std::uint64_t seed, std::string_view name) {
  using Wide = pcg64::state_type;
  const std::uint64_t h = hash_text(name);
  const Wide state = (static_cast<Wide>(mix(seed)) << 64) | mix(seed ^ h);
  const Wide stream = (static_cast<Wide>(mix(h)) << 64) | mix(h + 1);
  return pcg64(state, stream);
}

}  // namespace

RandomStream::RandomStream(std::uint64_t seed, std::string_view name) : generator_(make_generator(seed, name)) {}

std::uint64_t RandomStream::below(std::uint64_t n) {
  const std::uint64_t threshold = (0 - n) % n;  // draws below it would favour small results
  while (true) {
    const std::uint64_t x = bits();
    if (x >= threshold) return x % n;
  }
}

double RandomStream::exponential(double mean) {
  return -mean * det_log(1.0 - uniform());
}

double RandomStream::normal() {
  while (true) {
    const double x = 2 * uniform() - 1;
    const double y = 2 * uniform() - 1;
    const double s = x * x + y * y;
    if (s > 0 && s < 1) return x * std::sqrt(-2 * det_log(s) / s);
  }
}

double RandomStream::gamma(double shape, double scale) {
  if (shape < 1) {  // boost: Gamma(shape) = Gamma(shape + 1) * U^(1/shape)
    const double u = 1.0 - uniform();
    return gamma(shape + 1, scale) * det_pow(u, 1 / shape);
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

double RandomStream::log_normal(double log_mean, double log_sigma) {
  return det_exp(log_mean + log_sigma * normal());
}

}  // namespace orrery::sim
