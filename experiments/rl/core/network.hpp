// Small multi-layer perceptrons, their gradients, and Adam.
//
// A network's parameters are one flat vector (layer after layer: weights column by column, then biases), so that
// optimisers, target networks, gradient checks and checkpoints see numbers and no layers. Samples are columns. The
// values between layers are kept on a tape by the caller, so that one network can be unrolled over itself.
//
// Bits: double precision, det_tanh, no fused multiply-add; Eigen's products take block sizes that are fixed here and
// not those of the host's caches. So a build gives the same numbers on every x86-64 host.
#pragma once

#include <Eigen/Core>
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "experiments/rl/core/archive.hpp"
#include "sim/base/params.hpp"
#include "sim/base/random.hpp"

namespace orrery::experiments::rl {

using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;

enum class Activation : std::uint8_t { tanh, relu };
constexpr auto enum_names(Activation) {
  using enum Activation;
  return sim::names<Activation>({{"tanh", tanh}, {"relu", relu}});
}

/// What the networks of a learner look like; a nested block of its parameters.
struct NetworkParams {
  std::vector<std::int64_t> hidden{64, 64};
  Activation activation = Activation::tanh;

  static constexpr auto fields() {
    using P = NetworkParams;
    return sim::FieldTable{
        sim::field("hidden", &P::hidden, sim::Unit::count, sim::between(1, 65536), "Units of each hidden layer."),
        sim::field("activation", &P::activation, "Activation function of the hidden layers."),
    };
  }
};

class Mlp {
 public:
  /// Inputs of all layers, then the outputs.
  struct Tape {
    std::vector<MatrixXd> values;
    const MatrixXd& out() const { return values.back(); }
  };

  Mlp() = default;
  /// Weights are normal with variance gain / inputs (2 before a relu, 1 before tanh); those of the last layer are
  /// scaled by `last`; biases are 0.
  Mlp(Index inputs, const NetworkParams& shape, Index outputs, sim::RandomStream random, double last = 1);

  Index inputs() const { return sizes_.front(); }
  Index outputs() const { return sizes_.back(); }
  /// Outputs for each column; keeps on the tape what backward() needs.
  const MatrixXd& forward(const MatrixXd& in, Tape& tape) const;
  MatrixXd forward(const MatrixXd& in) const;
  /// Adds to `gradient` that of a loss whose derivatives by the outputs are `d_out` (a column a sample); returns those
  /// by the inputs.
  MatrixXd backward(const Tape& tape, const MatrixXd& d_out, VectorXd& gradient) const;

  VectorXd& parameters() { return parameters_; }
  const VectorXd& parameters() const { return parameters_; }
  /// A gradient of 0.
  VectorXd zero() const { return VectorXd::Zero(parameters_.size()); }
  /// Takes the share `tau` of another network of the same shape.
  void blend(const Mlp& other, double tau) {
    parameters_ = tau == 1 ? other.parameters_ : VectorXd((1 - tau) * parameters_ + tau * other.parameters_);
  }
  void state(Archive& archive) { archive(parameters_); }

 private:
  std::vector<Index> sizes_;
  std::vector<Index> places_;  ///< where each layer's parameters begin
  Activation activation_ = Activation::tanh;
  VectorXd parameters_;
};

/// Adam (Kingma and Ba, ICLR 2015) with beta 0.9 and 0.999.
class Adam {
 public:
  Adam() = default;
  explicit Adam(Index size) : mean_(VectorXd::Zero(size)), square_(VectorXd::Zero(size)) {}
  /// Scales the gradient down to a norm of `most` (0: not at all), then takes a step down it.
  void step(VectorXd& parameters, VectorXd gradient, double rate, double most = 0);
  void state(Archive& archive) { archive(mean_, square_, beta1_, beta2_); }

 private:
  VectorXd mean_, square_;
  double beta1_ = 1, beta2_ = 1;  ///< powers so far
};

/// Mean and variance of what it has seen, number by number; scales to mean 0 and variance 1.
class Normaliser {
 public:
  Normaliser() = default;
  explicit Normaliser(Index size) : mean_(VectorXd::Zero(size)), square_(VectorXd::Zero(size)) {}
  void add(const MatrixXd& columns);
  /// Within ±10; as it is before anything was seen.
  MatrixXd apply(const MatrixXd& columns) const;
  /// Of a number; 0 and 1 before anything was seen.
  double mean(Index i) const { return mean_[i]; }
  double deviation(Index i) const { return count_ < 2 ? 1 : std::sqrt(std::max(square_[i] / count_, 1e-8)); }
  void state(Archive& archive) { archive(count_, mean_, square_); }

 private:
  double count_ = 0;
  VectorXd mean_, square_;  ///< square_: sum of squared differences from the mean
};

}  // namespace orrery::experiments::rl
