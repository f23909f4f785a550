// Deterministic functions over a grid of every magnitude, and all distributions.
#include <array>
#include <cstddef>
#include <span>
#include <vector>

#include "sim/base/distributions.hpp"
#include "sim/base/math.hpp"
#include "sim/base/random.hpp"
#include "tests/determinism/digest.hpp"

namespace orrery::determinism {
namespace {

using sim::RandomStream;

/// Values of both signs: a fine grid about zero, then every magnitude, subnormals and infinities included.
template <class F>
void over_grid(Digest& digest, F f) {
  for (int i = -4000; i <= 4000; ++i) digest.add(f(i * 0.0123));
  RandomStream random(1, "grid");
  for (int i = 0; i < 20'000; ++i) digest.add(f(std::bit_cast<double>(random.bits())));
}

template <class Draw>
void draws(Digest& digest, Draw draw) {
  RandomStream random(5, "draws");
  for (int i = 0; i < 5000; ++i) digest.add(draw(random));
}

}  // namespace

void exponentials(Digest& digest) {
  for (double (*f)(double) : {sim::det_exp, sim::det_exp2, sim::det_expm1, sim::det_log, sim::det_log2, sim::det_log10,
                              sim::det_log1p, sim::det_cbrt})
    over_grid(digest, f);
}

void circular(Digest& digest) {
  for (double (*f)(double) : {sim::det_sin, sim::det_cos, sim::det_tan, sim::det_atan}) over_grid(digest, f);
  RandomStream random(2, "points");
  for (int i = 0; i < 20'000; ++i) {
    const double y = std::bit_cast<double>(random.bits());
    digest.add(sim::det_atan2(y, std::bit_cast<double>(random.bits())));
    digest.add(sim::det_atan2(random.uniform() - 0.5, random.uniform() - 0.5));
  }
}

void special(Digest& digest) {
  for (double (*f)(double) : {sim::det_tanh, sim::det_erf, sim::det_erfc, sim::det_lgamma}) over_grid(digest, f);
}

void powers(Digest& digest) {
  RandomStream random(3, "powers");
  for (int i = 0; i < 20'000; ++i) {
    const double x = std::bit_cast<double>(random.bits());
    digest.add(sim::det_pow(x, std::bit_cast<double>(random.bits())));
    digest.add(sim::det_pow(20 * random.uniform(), 40 * random.uniform() - 20));
    digest.add(sim::det_pow(20 * random.uniform() - 10, static_cast<double>(random.integer(-20, 20))));
  }
}

void streams(Digest& digest) {
  for (std::uint64_t seed = 0; seed < 20; ++seed)
    for (const char* name : {"", "arrivals", "lengths/prompt"}) {
      RandomStream stream(seed, name);
      for (int i = 0; i < 10; ++i) digest.add(stream.bits());
      for (std::uint64_t i = 0; i < 10; ++i) digest.add(stream.child(i).child("x").bits());
    }
}

void continuous_draws(Digest& digest) {
  draws(digest, [](RandomStream& r) { return r.uniform(); });
  draws(digest, [](RandomStream& r) { return r.uniform(-3, 7); });
  draws(digest, [](RandomStream& r) { return r.exponential(2.5); });
  draws(digest, [](RandomStream& r) { return r.hyper_exponential(2.5, 3); });
  draws(digest, [](RandomStream& r) { return r.normal(); });
  draws(digest, [](RandomStream& r) { return r.normal(1, 3); });
  draws(digest, [](RandomStream& r) { return r.truncated_normal(0, 1, -0.5, 4); });
  draws(digest, [](RandomStream& r) { return r.truncated_normal(0, 1, 2, 9); });
  draws(digest, [](RandomStream& r) { return r.truncated_normal(0, 1, -0.5, 0.25); });
  draws(digest, [](RandomStream& r) { return r.log_normal(6, 1.5); });
  draws(digest, [](RandomStream& r) { return r.gamma(0.3, 2); });
  draws(digest, [](RandomStream& r) { return r.gamma(7, 2); });
  draws(digest, [](RandomStream& r) { return r.weibull(0.6, 100); });
  draws(digest, [](RandomStream& r) { return r.pareto(4, 1.2); });
  draws(digest, [](RandomStream& r) { return r.lomax(4, 1.2); });
  draws(digest, [](RandomStream& r) { return r.triangular(-1, 0, 5); });
}

void discrete_draws(Digest& digest) {
  for (const double mean : {0.1, 5.0, 10.0, 77.7, 1e5, 1e14})
    draws(digest, [&](RandomStream& r) { return r.poisson(mean); });
  for (const double p : {0.9, 0.01, 1e-9}) draws(digest, [&](RandomStream& r) { return r.geometric(p); });
  draws(digest, [](RandomStream& r) { return r.bernoulli(0.3) ? 1 : 0; });
  draws(digest, [](RandomStream& r) { return r.integer(-1000, 12345); });
  draws(digest, [](RandomStream& r) { return r.below(3); });
  for (const double exponent : {0.0, 0.8, 1.0, 2.5}) {
    const sim::Zipf zipf(1'000'000'000, exponent);
    draws(digest, [&](RandomStream& r) { return zipf(r); });
  }
  std::vector<double> weights;
  for (int i = 0; i < 1000; ++i) weights.push_back(1.0 / (1 + i % 37));
  const sim::Discrete discrete(weights);
  draws(digest, [&](RandomStream& r) { return discrete(r); });
  RandomStream random(6, "shuffle");
  std::array<int, 100> order{};
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int>(i);
  for (int round = 0; round < 20; ++round) {
    random.shuffle(std::span<int>(order));
    for (const int i : order) digest.add(i);
  }
}

}  // namespace orrery::determinism
