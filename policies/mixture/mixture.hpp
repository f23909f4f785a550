// Mixture: the share that each domain of the data has in a round of training.
//
// Asked before each round. Contract: shares of the domains, none below 0, that add up to 1. An object decides one
// training and may remember its own rounds; it draws nothing.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sim/base/registry.hpp"

namespace orrery::policies {

/// What a round before has left. Vectors over domains, tasks or parameters.
struct MixtureView {
  std::int64_t round = 0;                        ///< from 0
  std::span<const double> shares;                ///< of the round before; the first: even
  std::span<const std::vector<double>> domains;  ///< gradients, means over samples
  std::span<const std::vector<double>> tasks;    ///< the same of the tasks that count
  std::span<const double> fisher;                ///< mean squares of samples' gradients, by parameter
  std::span<const double> domain_losses, reference_losses;
  std::span<const std::vector<double>> task_losses;  ///< of each task, one a round so far, this one's last
};

class Mixture {
 public:
  virtual ~Mixture() = default;
  virtual std::vector<double> shares(const MixtureView& view) = 0;
  /// Whether it reads gradients, which take samples to find.
  virtual bool wants_gradients() const { return true; }
};

using MixtureRegistry = sim::Registry<Mixture>;

/// Adds every policy of this folder (register.cpp: one line a policy).
void register_mixtures(MixtureRegistry& registry);

/// `values` over their sum; even shares where that is not above 0.
std::vector<double> normalised(std::vector<double> values);
/// Multiplies shares by exp(rate x score), scores less their largest, and mixes in `floor` of even ones.
std::vector<double> exponentiated(std::span<const double> shares, std::span<const double> scores, double rate,
                                  double floor);
double dot(std::span<const double> a, std::span<const double> b);

/// a exp(-b t) + c through losses at t = 0, 1 …, by least squares over a and c for each b of a grid; the value at t.
double fitted_decay(std::span<const double> losses, double t);

}  // namespace orrery::policies
