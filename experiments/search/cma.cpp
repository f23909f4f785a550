#include "experiments/search/cma.hpp"

#include <algorithm>
#include <cmath>

#include "sim/base/math.hpp"

namespace orrery::experiments::search {

CmaDistribution::CmaDistribution(Eigen::VectorXd mean, double sigma, std::size_t lambda)
    : lambda_(std::max<std::size_t>(2, lambda)), mean_(std::move(mean)), sigma_(sigma) {
  const auto n = static_cast<double>(mean_.size());
  const std::size_t mu = lambda_ / 2;
  double sum = 0, squares = 0;
  for (std::size_t i = 0; i < mu; ++i) {
    weights_.push_back(sim::det_log((static_cast<double>(lambda_) + 1) / 2) - sim::det_log(static_cast<double>(i + 1)));
    sum += weights_.back();
  }
  for (double& w : weights_) {
    w /= sum;
    squares += w * w;
  }
  mu_eff_ = 1 / squares;
  c_sigma_ = (mu_eff_ + 2) / (n + mu_eff_ + 5);
  d_sigma_ = 1 + 2 * std::max(0.0, std::sqrt((mu_eff_ - 1) / (n + 1)) - 1) + c_sigma_;
  c_c_ = (4 + mu_eff_ / n) / (n + 4 + 2 * mu_eff_ / n);
  c_1_ = 2 / ((n + 1.3) * (n + 1.3) + mu_eff_);
  c_mu_ = std::min(1 - c_1_, 2 * (mu_eff_ - 2 + 1 / mu_eff_) / ((n + 2) * (n + 2) + mu_eff_));
  chi_ = std::sqrt(n) * (1 - 1 / (4 * n) + 1 / (21 * n * n));
  c_ = basis_ = Eigen::MatrixXd::Identity(mean_.size(), mean_.size());
  axes_ = Eigen::VectorXd::Ones(mean_.size());
  path_c_ = path_sigma_ = Eigen::VectorXd::Zero(mean_.size());
}

Eigen::VectorXd CmaDistribution::draw(sim::RandomStream& random) const {
  Eigen::VectorXd z(mean_.size());
  for (Eigen::Index i = 0; i < z.size(); ++i) z[i] = random.normal() * axes_[i];
  return basis_ * z;
}

void CmaDistribution::learn(const std::vector<Eigen::VectorXd>& best_first, const Eigen::VectorXd& stretch) {
  ++generation_;
  Eigen::VectorXd step = Eigen::VectorXd::Zero(mean_.size());
  const std::size_t mu = std::min(weights_.size(), best_first.size());
  for (std::size_t i = 0; i < mu; ++i) step += weights_[i] * best_first[i];
  mean_ += sigma_ * step.cwiseProduct(stretch);

  const Eigen::VectorXd white = basis_ * (basis_.transpose() * step).cwiseQuotient(axes_);
  path_sigma_ = (1 - c_sigma_) * path_sigma_ + std::sqrt(c_sigma_ * (2 - c_sigma_) * mu_eff_) * white;
  const auto n = static_cast<double>(mean_.size());
  const double length = path_sigma_.norm();
  const double settled = 1 - sim::det_pow(1 - c_sigma_, 2 * static_cast<double>(generation_));
  const bool stall = length / std::sqrt(settled) >= (1.4 + 2 / (n + 1)) * chi_;
  path_c_ = (1 - c_c_) * path_c_;
  if (!stall) path_c_ += std::sqrt(c_c_ * (2 - c_c_) * mu_eff_) * step;

  const double kept = 1 - c_1_ - c_mu_ + (stall ? c_1_ * c_c_ * (2 - c_c_) : 0);
  c_ = kept * c_ + c_1_ * path_c_ * path_c_.transpose();
  for (std::size_t i = 0; i < mu; ++i) c_ += c_mu_ * weights_[i] * best_first[i] * best_first[i].transpose();
  sigma_ *= sim::det_exp(std::min(1.0, c_sigma_ / d_sigma_ * (length / chi_ - 1)));
  // The axes may lag a few generations: a decomposition costs n^3.
  if (static_cast<double>(generation_ - decomposed_) >= 1 / ((c_1_ + c_mu_) * n * 10)) decompose();
}

void CmaDistribution::decompose() {
  decomposed_ = generation_;
  c_ = (c_ + c_.transpose()).eval() / 2;
  const Eigen::SelfAdjointEigenSolver<Eigen::MatrixXd> solver(c_);
  basis_ = solver.eigenvectors();
  axes_ = solver.eigenvalues().cwiseMax(1e-30).cwiseSqrt();
}

}  // namespace orrery::experiments::search
