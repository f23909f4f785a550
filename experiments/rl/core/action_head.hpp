// From the outputs of a network to a distribution of actions, for any action space.
//
// Choices: a softmax over the allowed ones of each part, parts independent given the observation. Box: a normal for
// each part, whose mean and logarithm of the deviation are outputs; its unit is half the box's width around its middle,
// and what leaves the box is clipped on the way to the environment. A "raw" action is the draw before that.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "experiments/rl/core/env.hpp"
#include "experiments/rl/core/network.hpp"
#include "sim/base/random.hpp"

namespace orrery::experiments::rl {

class ActionHead {
 public:
  explicit ActionHead(ActionSpace space) : space_(std::move(space)) {}
  const ActionSpace& space() const { return space_; }
  /// Outputs that it needs of a network.
  Index outputs() const;

  void sample(const double* out, const std::uint8_t* mask, sim::RandomStream& random, double* raw) const;
  /// The most likely action; ties go to the lower index.
  void mode(const double* out, const std::uint8_t* mask, double* raw) const;
  /// What the environment gets for a raw action.
  void to_action(const double* raw, double* action) const;

  struct Score {
    double log_probability = 0, entropy = 0;
  };
  Score score(const double* out, const std::uint8_t* mask, const double* raw) const;
  /// Adds to `d` the derivatives by the outputs of likelihood * log_probability + spread * entropy.
  void add_gradient(const double* out, const std::uint8_t* mask, const double* raw, double likelihood, double spread,
                    double* d) const;

 private:
  ActionSpace space_;
};

/// Probabilities of a softmax over the allowed of n choices; 0 for the others. `mask` may be null. Returns the entropy.
double masked_softmax(const double* out, const std::uint8_t* mask, std::size_t n, double* probabilities);
/// The allowed choice of the largest number; ties go to the lower index. Throws std::domain_error for one that is NaN:
/// the network that gave it has diverged.
std::size_t masked_argmax(const double* numbers, const std::uint8_t* mask, std::size_t n);
/// An index by its probability.
std::size_t draw_index(const double* probabilities, std::size_t n, sim::RandomStream& random);

}  // namespace orrery::experiments::rl
