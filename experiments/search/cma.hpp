// The distribution that CMA-ES moves: a normal one in n dimensions whose mean, step and covariance learn from ranked
// samples.
//
// Equations and constants: Hansen, "The CMA Evolution Strategy: A Tutorial" (2016), with positive weights only. Knows
// neither spaces nor drivers.
#pragma once

#include <Eigen/Dense>
#include <cstdint>
#include <vector>

#include "sim/base/random.hpp"

namespace orrery::experiments::search {

class CmaDistribution {
 public:
  /// Around `mean` with deviation `sigma` everywhere; `lambda` >= 2 samples a generation.
  CmaDistribution(Eigen::VectorXd mean, double sigma, std::size_t lambda);

  /// A draw of N(0, C) without the step; deterministic for a stream.
  Eigen::VectorXd draw(sim::RandomStream& random) const;
  /// Learns from a generation: draws y, the best first, at least lambda / 2 of them. Where a caller stretched
  /// coordinates, x = mean + sigma * stretch * y, the mean moves by what was stretched, the rest learns from y.
  void learn(const std::vector<Eigen::VectorXd>& best_first, const Eigen::VectorXd& stretch);

  const Eigen::VectorXd& mean() const { return mean_; }
  double sigma() const { return sigma_; }
  std::size_t lambda() const { return lambda_; }
  /// Deviation of a coordinate: sigma * root of C's diagonal.
  double deviation(Eigen::Index i) const { return sigma_ * std::sqrt(c_(i, i)); }
  /// Largest deviation in any direction, and longest over shortest axis.
  double largest() const { return sigma_ * axes_.maxCoeff(); }
  double elongation() const { return axes_.maxCoeff() / axes_.minCoeff(); }
  /// Whatever it goes on from, named to an archive (rl/core/archive.hpp).
  template <class Archive>
  void state(Archive& archive) {
    archive(mean_, sigma_, c_, basis_, axes_, path_c_, path_sigma_, generation_, decomposed_);
  }

 private:
  void decompose();

  std::size_t lambda_;
  std::vector<double> weights_;
  double mu_eff_, c_sigma_, d_sigma_, c_c_, c_1_, c_mu_, chi_;
  Eigen::VectorXd mean_;
  double sigma_;
  Eigen::MatrixXd c_, basis_;
  Eigen::VectorXd axes_;  ///< roots of C's eigenvalues
  Eigen::VectorXd path_c_, path_sigma_;
  std::int64_t generation_ = 0, decomposed_ = 0;
};

}  // namespace orrery::experiments::search
