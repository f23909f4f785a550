#include "experiments/fidelity/fit.hpp"

#include <Eigen/Dense>
#include <algorithm>
#include <cmath>

#include "sim/base/math.hpp"

namespace orrery::experiments {
namespace {

constexpr double kFarthest = 8;  // of a free number: nearer to a bound than a constant has digits

/// Bounded constants as free numbers: value = min + (max - min) / (1 + e^-x), on a log scale where the bounds allow.
class Scale {
 public:
  explicit Scale(const FitConstant& c) : log_(c.min > 0 && c.max / c.min > 4), min_(to(c.min)), max_(to(c.max)) {}
  double value(double x) const { return from(min_ + (max_ - min_) / (1 + sim::det_exp(-x))); }
  double free(double value) const {
    const double share = std::clamp((to(value) - min_) / (max_ - min_), 0.02, 0.98);
    return sim::det_log(share / (1 - share));
  }
  bool at_bound(double value) const {
    const double share = (to(value) - min_) / (max_ - min_);
    return share < 0.01 || share > 0.99;
  }

 private:
  double to(double v) const { return log_ ? sim::det_log(v) : v; }
  double from(double v) const { return log_ ? sim::det_exp(v) : v; }
  bool log_;
  double min_, max_;
};

class Problem {
 public:
  Problem(std::span<const FitConstant> constants, std::span<const double> measured, const FitModel& model,
          const FitOptions& options)
      : measured_(measured), model_(model), options_(options), predicted_(measured.size()) {
    for (const FitConstant& c : constants) scales_.emplace_back(c);
    start_.resize(static_cast<Eigen::Index>(constants.size()));
    for (std::size_t i = 0; i < constants.size(); ++i)
      start_[static_cast<Eigen::Index>(i)] = scales_[i].free(constants[i].start);
  }

  std::vector<double> values(const Eigen::VectorXd& x) const {
    std::vector<double> out(scales_.size());
    for (std::size_t i = 0; i < out.size(); ++i) out[i] = scales_[i].value(x[static_cast<Eigen::Index>(i)]);
    return out;
  }

  /// Log residuals at x, and what the prior makes of each constant.
  Eigen::VectorXd residuals(const Eigen::VectorXd& x) {
    model_(values(x), predicted_);
    const auto rows = static_cast<Eigen::Index>(measured_.size());
    Eigen::VectorXd r = Eigen::VectorXd::Zero(rows + (options_.prior > 0 ? x.size() : 0));
    if (options_.prior > 0) r.tail(x.size()) = options_.prior * (x - start_);
    for (std::size_t i = 0; i < measured_.size(); ++i) {
      const double ratio = predicted_[i] / measured_[i];
      r[static_cast<Eigen::Index>(i)] = ratio > 0 && std::isfinite(ratio) ? sim::det_log(ratio) : 1.0;
    }
    return r;
  }

  double loss(const Eigen::VectorXd& r) const {
    const double h = options_.huber;
    double sum = 0;
    for (const double v : r) {
      const double a = std::abs(v);
      sum += a <= h ? 0.5 * a * a : h * (a - 0.5 * h);
    }
    return sum / static_cast<double>(r.size());
  }

  Eigen::MatrixXd jacobian(const Eigen::VectorXd& x) {
    constexpr double kStep = 0.02;
    Eigen::MatrixXd j(static_cast<Eigen::Index>(measured_.size()) + (options_.prior > 0 ? x.size() : 0), x.size());
    for (Eigen::Index i = 0; i < x.size(); ++i) {
      Eigen::VectorXd up = x, down = x;
      up[i] += kStep;
      down[i] -= kStep;
      j.col(i) = (residuals(up) - residuals(down)) / (2 * kStep);
    }
    return j;
  }

  /// Levenberg-Marquardt from x; returns the rounds it took.
  int descend(Eigen::VectorXd& x, int rounds) {
    Eigen::VectorXd r = residuals(x);
    double best = loss(r), damping = 1e-2;
    for (int round = 0; round < rounds; ++round) {
      const Eigen::MatrixXd j = jacobian(x);
      Eigen::VectorXd weight(r.size());
      for (Eigen::Index i = 0; i < r.size(); ++i)
        weight[i] = std::abs(r[i]) <= options_.huber ? 1.0 : options_.huber / std::abs(r[i]);
      const Eigen::MatrixXd normal = j.transpose() * weight.asDiagonal() * j;
      const Eigen::VectorXd gradient = j.transpose() * weight.asDiagonal() * r;
      double gain = 0;
      for (int attempt = 0; attempt < 8 && gain == 0; ++attempt) {
        Eigen::MatrixXd damped = normal;
        damped.diagonal() += damping * normal.diagonal() + Eigen::VectorXd::Constant(x.size(), 1e-9);
        const Eigen::VectorXd step = damped.colPivHouseholderQr().solve(-gradient).cwiseMax(-1.5).cwiseMin(1.5);
        const Eigen::VectorXd tried = (x + step).cwiseMax(-kFarthest).cwiseMin(kFarthest);
        const Eigen::VectorXd tried_r = residuals(tried);
        const double tried_loss = loss(tried_r);
        if (tried_loss < best) {
          gain = (best - tried_loss) / best;
          x = tried;
          r = tried_r;
          best = tried_loss;
          damping = std::max(1e-6, damping / 5);
        } else {
          damping *= 4;
        }
      }
      if (gain <= options_.tolerance) return round + 1;
    }
    return rounds;
  }

  /// Steps along one constant at a time, ever shorter: gets on where a model that chooses among plans has kinks.
  void search(Eigen::VectorXd& x) {
    double best = loss(residuals(x));
    for (const double length : {0.6, 0.2, 0.06}) {
      for (Eigen::Index i = 0; i < x.size(); ++i) {
        for (const double sign : {1.0, -1.0}) {
          Eigen::VectorXd tried = x;
          while (true) {
            tried[i] = std::clamp(tried[i] + sign * length, -kFarthest, kFarthest);
            const double tried_loss = loss(residuals(tried));
            if (!(tried_loss < best)) break;
            best = tried_loss;
            x = tried;
          }
        }
      }
    }
  }

  const std::vector<Scale>& scales() const { return scales_; }

 private:
  std::span<const double> measured_;
  const FitModel& model_;
  FitOptions options_;
  std::vector<Scale> scales_;
  std::vector<double> predicted_;
  Eigen::VectorXd start_;  // free numbers that constants start from
};

}  // namespace

FitResult fit(std::span<const FitConstant> constants, std::span<const double> measured, const FitModel& model,
              const FitOptions& options) {
  Problem problem(constants, measured, model, options);
  Eigen::VectorXd x(static_cast<Eigen::Index>(constants.size()));
  for (std::size_t i = 0; i < constants.size(); ++i)
    x[static_cast<Eigen::Index>(i)] = problem.scales()[i].free(constants[i].start);
  FitResult result;
  if (!measured.empty() && !constants.empty()) {
    double before = problem.loss(problem.residuals(x));
    while (result.rounds < options.rounds) {
      result.rounds += problem.descend(x, options.rounds - result.rounds);
      problem.search(x);
      const double after = problem.loss(problem.residuals(x));
      if (!(after < before * (1 - 100 * options.tolerance))) break;
      before = after;
    }
  }
  const Eigen::VectorXd r = problem.residuals(x);
  result.values = problem.values(x);
  result.loss = r.size() > 0 ? problem.loss(r) : 0;
  for (std::size_t i = 0; i < constants.size(); ++i)
    result.at_bound.push_back(problem.scales()[i].at_bound(result.values[i]));
  const auto rows = static_cast<Eigen::Index>(measured.size());  // behind them stand the prior's
  for (const double v : r.head(rows)) result.mape += std::abs(sim::det_exp(v) - 1);
  if (rows > 0) result.mape /= static_cast<double>(rows);
  return result;
}

}  // namespace orrery::experiments
