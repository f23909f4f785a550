// Rate: the learning rate of each step of a training.
//
// Asked once, before a training runs. Contract: a pure function of the view; multiples of the peak rate at the steps
// t = 1 … T, none below 0 or above 1.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sim/base/registry.hpp"

namespace orrery::policies {

struct RateView {
  std::int64_t steps = 1;         ///< T
  std::span<const double> norms;  ///< of gradients in a training before this one, as many as steps; or none
};

class RateSchedule {
 public:
  virtual ~RateSchedule() = default;
  virtual std::vector<double> rates(const RateView& view) const = 0;
  /// Whether it reads norms, which take a training to find.
  virtual bool wants_norms() const { return false; }
};

using RateRegistry = sim::Registry<RateSchedule>;

/// Adds every policy of this folder (register.cpp: one line a policy).
void register_rates(RateRegistry& registry);

/// shape(z) at z = t / T.
template <class Shape>
std::vector<double> rates_of(std::int64_t steps, Shape shape) {
  std::vector<double> rates;
  rates.reserve(static_cast<std::size_t>(steps));
  for (std::int64_t t = 1; t <= steps; ++t) rates.push_back(shape(static_cast<double>(t) / static_cast<double>(steps)));
  return rates;
}

/// z in [0, 1]. REX (Chen et al., MLSys 2022): (1 - z) / (1 - z/2).
double rex_rate(double z);
/// UBA: 2 (1 + cos pi z) / (2 phi + (2 - phi)(1 + cos pi z)); phi = 2 is cosine, phi towards 0 is constant.
double uba_rate(double z, double phi);
double cosine_rate(double z);

}  // namespace orrery::policies
