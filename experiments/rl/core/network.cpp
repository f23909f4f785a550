#include "experiments/rl/core/network.hpp"

#include <algorithm>
#include <cmath>

#include "sim/base/math.hpp"

namespace orrery::experiments::rl {
namespace {

using ConstMatrix = Eigen::Map<const MatrixXd>;
using ConstVector = Eigen::Map<const VectorXd>;

/// Block sizes of products follow these and not the host's caches: sums keep their order everywhere.
void fix_block_sizes() {
  static const bool done = [] {
    Eigen::setCpuCacheSizes(32 << 10, 256 << 10, 2 << 20);
    return true;
  }();
  (void)done;
}

}  // namespace

Mlp::Mlp(Index inputs, const NetworkParams& shape, Index outputs, sim::RandomStream random, double last)
    : activation_(shape.activation) {
  fix_block_sizes();
  sizes_.push_back(inputs);
  for (const std::int64_t units : shape.hidden) sizes_.push_back(units);
  sizes_.push_back(outputs);
  Index size = 0;
  for (std::size_t layer = 0; layer + 1 < sizes_.size(); ++layer) {
    places_.push_back(size);
    size += (sizes_[layer] + 1) * sizes_[layer + 1];
  }
  parameters_ = VectorXd::Zero(size);
  for (std::size_t layer = 0; layer + 1 < sizes_.size(); ++layer) {
    const bool is_last = layer + 2 == sizes_.size();
    const double gain = is_last || activation_ == Activation::tanh ? 1 : 2;
    const double deviation = std::sqrt(gain / static_cast<double>(sizes_[layer])) * (is_last ? last : 1);
    for (Index i = 0; i < sizes_[layer] * sizes_[layer + 1]; ++i)
      parameters_[places_[layer] + i] = deviation * random.normal();
  }
}

const MatrixXd& Mlp::forward(const MatrixXd& in, Tape& tape) const {
  tape.values.resize(sizes_.size());
  tape.values[0] = in;
  for (std::size_t layer = 0; layer + 1 < sizes_.size(); ++layer) {
    const Index rows = sizes_[layer + 1], columns = sizes_[layer];
    const ConstMatrix weights(parameters_.data() + places_[layer], rows, columns);
    const ConstVector biases(parameters_.data() + places_[layer] + rows * columns, rows);
    MatrixXd& out = tape.values[layer + 1];
    out.noalias() = weights * tape.values[layer];
    out.colwise() += biases;
    if (layer + 2 == sizes_.size()) break;
    if (activation_ == Activation::relu) {
      out = out.cwiseMax(0.0);
    } else {
      std::for_each(out.data(), out.data() + out.size(), [](double& x) { x = sim::det_tanh(x); });
    }
  }
  return tape.out();
}

MatrixXd Mlp::forward(const MatrixXd& in) const {
  Tape tape;
  forward(in, tape);
  return std::move(tape.values.back());
}

MatrixXd Mlp::backward(const Tape& tape, const MatrixXd& d_out, VectorXd& gradient) const {
  MatrixXd d = d_out;
  for (std::size_t layer = places_.size(); layer-- > 0;) {
    const Index rows = sizes_[layer + 1], columns = sizes_[layer];
    if (layer + 1 < places_.size()) {  // through the activation, whose derivative follows from its value
      const auto& value = tape.values[layer + 1].array();
      if (activation_ == Activation::relu) {
        d.array() *= (value > 0).cast<double>();
      } else {
        d.array() *= 1 - value.square();
      }
    }
    Eigen::Map<MatrixXd> d_weights(gradient.data() + places_[layer], rows, columns);
    Eigen::Map<VectorXd> d_biases(gradient.data() + places_[layer] + rows * columns, rows);
    d_weights.noalias() += d * tape.values[layer].transpose();
    d_biases += d.rowwise().sum();
    const ConstMatrix weights(parameters_.data() + places_[layer], rows, columns);
    d = (weights.transpose() * d).eval();
  }
  return d;
}

void Adam::step(VectorXd& parameters, VectorXd gradient, double rate, double most) {
  constexpr double b1 = 0.9, b2 = 0.999, tiny = 1e-8;
  const double norm = gradient.norm();
  if (most > 0 && norm > most) gradient *= most / norm;
  beta1_ *= b1;
  beta2_ *= b2;
  mean_ = b1 * mean_ + (1 - b1) * gradient;
  square_ = b2 * square_ + (1 - b2) * gradient.cwiseAbs2();
  const double scale = rate / (1 - beta1_);
  parameters.array() -= scale * mean_.array() / ((square_.array() / (1 - beta2_)).sqrt() + tiny);
}

void Normaliser::add(const MatrixXd& columns) {
  for (Index column = 0; column < columns.cols(); ++column) {
    count_ += 1;
    const VectorXd off = columns.col(column) - mean_;
    mean_ += off / count_;
    square_ += off.cwiseProduct(columns.col(column) - mean_);
  }
}

MatrixXd Normaliser::apply(const MatrixXd& columns) const {
  if (count_ < 2) return columns;
  const VectorXd scale = (square_ / count_).array().max(1e-8).rsqrt();
  return ((columns.colwise() - mean_).array().colwise() * scale.array()).max(-10.0).min(10.0);
}

}  // namespace orrery::experiments::rl
