#include "experiments/search/process/gp_likelihood.hpp"

#include <Eigen/Core>
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>

#include "sim/base/also_avx.hpp"
#include "sim/base/math.hpp"

namespace orrery::experiments::search {
namespace {

// Weak priors, normal in the logarithm: lengths about half an interval (growing with the root of the number of
// parameters, as distances do), noise far below the signal; and bounds beyond which nothing changes any more.
constexpr double kLengthMiddle = -0.7, kNoiseMiddle = -9, kNoiseSpread = 3;
constexpr double kLeastLength = -3, kMostLength = 3.5, kLeastNoise = -13.8, kMostNoise = 0;
constexpr double kSignalWeight = 2;  // observations that the pull of the signal to 1 is worth

double length_middle(std::size_t parameters) {
  return kLengthMiddle + 0.5 * sim::det_log(double(std::max<std::size_t>(1, parameters)));
}

/// Observations of a fit: pairwise squares by parameter.
struct FitData {
  std::size_t count = 0, parameters = 0;
  std::vector<double> squares;  // pairs (i > j, row after row) x parameters
  std::vector<double> values;
};

/// The best fifth, and of the rest every k-th, if there are too many.
FitData fit_data(const GpInputs& inputs, const std::vector<std::vector<double>>& points,
                 const std::vector<double>& values) {
  std::vector<std::size_t> chosen(points.size());
  std::iota(chosen.begin(), chosen.end(), std::size_t{0});
  constexpr std::size_t kMost = GaussianProcess::kFitPoints;
  if (chosen.size() > kMost) {
    std::stable_sort(chosen.begin(), chosen.end(), [&](std::size_t a, std::size_t b) { return values[a] < values[b]; });
    const std::size_t best = kMost / 5, rest = kMost - best, others = chosen.size() - best;
    std::sort(chosen.begin() + std::ptrdiff_t(best), chosen.end());
    for (std::size_t k = 0; k < rest; ++k) chosen[best + k] = chosen[best + k * others / rest];
    chosen.resize(kMost);
  }
  FitData data{.count = chosen.size(), .parameters = inputs.parameters()};
  data.squares.resize(data.count * (data.count - 1) / 2 * data.parameters);
  double* out = data.squares.data();
  for (std::size_t i = 0; i < data.count; ++i) {
    data.values.push_back(values[chosen[i]]);
    for (std::size_t j = 0; j < i; ++j, out += data.parameters)
      inputs.squares(points[chosen[i]].data(), points[chosen[j]].data(), out);
  }
  return data;
}

/// Minus the logarithm of the penalised likelihood with the signal profiled out, and its gradient.
class Likelihood {
 public:
  Likelihood(const FitData& data, double length_spread) : data_(data), length_spread_(length_spread) {
    const std::size_t n = data.count;
    factor_.resize(n * (n + 1) / 2);
    slope_.resize(n * (n - 1) / 2);
    inverse_.resize(n * n);
  }

  double operator()(const std::vector<double>& theta, std::vector<double>& gradient) {
    const std::size_t n = data_.count, d = data_.parameters;
    const double noise = sim::det_exp(theta[d]);
    build(theta, noise);
    std::vector<double> whitened = data_.values;
    forward(factor_.data(), n, whitened.data());
    double log_pivots = 0;
    for (std::size_t i = 0; i < n; ++i) log_pivots += sim::det_log(factor_[i * (i + 1) / 2 + i]);
    const double signal = profiled_signal(whitened);
    double loss = 0.5 * (double(n) + kSignalWeight) * sim::det_log(signal) + log_pivots;
    std::vector<double> weights = whitened;
    backward(factor_.data(), n, weights.data());
    invert();
    gradient.assign(d + 1, 0.0);
    std::size_t pair = 0;
    for (std::size_t i = 0; i < n; ++i) {
      const double own = inverse_[i * n + i] - weights[i] * weights[i] / signal;
      gradient[d] += 0.5 * own * noise;
      for (std::size_t j = 0; j < i; ++j, ++pair) {
        const double pull = (inverse_[i * n + j] - weights[i] * weights[j] / signal) * slope_[pair];
        const double* square = data_.squares.data() + pair * d;
        for (std::size_t p = 0; p < d; ++p) gradient[p] += pull * square[p] * shrink_[p];
      }
    }
    const auto prior = [&](std::size_t p, double middle, double spread) {
      const double off = (theta[p] - middle) / spread;
      loss += 0.5 * off * off;
      gradient[p] += off / spread;
    };
    for (std::size_t p = 0; p < d; ++p) prior(p, length_middle(d), length_spread_);
    prior(d, kNoiseMiddle, kNoiseSpread);
    return loss;
  }

 private:
  /// Factor of the correlations; slope_: derivative by the logarithm of a length, but for the parameter's own square.
  void build(const std::vector<double>& theta, double noise) {
    const std::size_t n = data_.count, d = data_.parameters;
    shrink_.resize(d);
    for (std::size_t p = 0; p < d; ++p) shrink_[p] = sim::det_exp(-2 * theta[p]);
    std::size_t pair = 0;
    double* line = factor_.data();
    for (std::size_t i = 0; i < n; line += ++i) {
      for (std::size_t j = 0; j < i; ++j) {
        const double* square = data_.squares.data() + (pair + j) * d;
        double sum = 0;
        for (std::size_t p = 0; p < d; ++p) sum += square[p] * shrink_[p];
        line[j] = sum;
      }
      decays_.set(line, i);
      for (std::size_t j = 0; j < i; ++j, ++pair) {
        const double root = decays_.roots()[j];
        line[j] = (1 + root + 5.0 / 3 * line[j]) * decays_.decays()[j];
        slope_[pair] = 5.0 / 3 * (1 + root) * decays_.decays()[j];
      }
      extend_factor(factor_.data(), i, line, 1 + noise, 1e-10);
    }
  }

  void invert() {
    const std::size_t n = data_.count;
    std::vector<double> column(n);
    for (std::size_t j = 0; j < n; ++j) {
      std::fill(column.begin(), column.end(), 0.0);
      column[j] = 1;
      forward(factor_.data(), n, column.data());
      backward(factor_.data(), n, column.data());
      for (std::size_t i = j; i < n; ++i) inverse_[i * n + j] = column[i];
    }
  }

  const FitData& data_;
  double length_spread_;
  std::vector<double> factor_, slope_, inverse_, shrink_;
  MaternDecays decays_;
};

struct Climb {
  std::vector<double> theta;
  double loss = std::numeric_limits<double>::infinity();
};

Climb climb(Likelihood& likelihood, std::vector<double> theta, int steps) {
  const std::size_t d = theta.size() - 1;
  std::vector<double> width(theta.size(), 0.4), before(theta.size(), 0.0), gradient;
  Climb best;
  for (int step = 0; step < steps; ++step) {
    const double loss = likelihood(theta, gradient);
    if (loss < best.loss) best = {theta, loss};
    double moved = 0;
    for (std::size_t p = 0; p < theta.size(); ++p) {
      const double turn = gradient[p] * before[p];
      width[p] = turn > 0 ? std::min(width[p] * 1.3, 1.5) : turn < 0 ? width[p] * 0.4 : width[p];
      before[p] = turn < 0 ? 0 : gradient[p];
      const double sign = before[p] > 0 ? 1 : before[p] < 0 ? -1 : 0;
      const double next =
          std::clamp(theta[p] - sign * width[p], p < d ? kLeastLength : kLeastNoise, p < d ? kMostLength : kMostNoise);
      moved = std::max(moved, std::abs(next - theta[p]));
      theta[p] = next;
    }
    if (moved > 0 && moved < 0.01) break;
  }
  return best;
}

}  // namespace

void MaternDecays::set(const double* squares, std::size_t n) {
  using Map = Eigen::Map<Eigen::ArrayXd>;
  const auto size = static_cast<Eigen::Index>(n);
  if (roots_.size() < n) {
    roots_.resize(n);
    minus_.resize(n);
    decays_.resize(n);
  }
  Map roots(roots_.data(), size);
  roots = (5 * Eigen::Map<const Eigen::ArrayXd>(squares, size)).sqrt();
  Map(minus_.data(), size) = -roots;
  sim::det_exp_each(minus_.data(), decays_.data(), n);
}

namespace {

ORRERY_ALSO_AVX void correlations(const double* roots, const double* decays, std::size_t n, double* squares) {
  for (std::size_t i = 0; i < n; ++i) squares[i] = (1 + roots[i] + 5.0 / 3 * squares[i]) * decays[i];
}

}  // namespace

void matern52(double* squares, std::size_t n, MaternDecays& decays) {
  decays.set(squares, n);
  correlations(decays.roots(), decays.decays(), n, squares);
}

double dot(const double* a, const double* b, std::size_t n) {
  using Four = Eigen::Array<double, 4, 1>;
  Four even = Four::Zero(), odd = Four::Zero();
  std::size_t i = 0;
  for (; i + 8 <= n; i += 8) {
    even += Eigen::Map<const Four>(a + i) * Eigen::Map<const Four>(b + i);
    odd += Eigen::Map<const Four>(a + i + 4) * Eigen::Map<const Four>(b + i + 4);
  }
  double sum = ((even[0] + odd[0]) + (even[1] + odd[1])) + ((even[2] + odd[2]) + (even[3] + odd[3]));
  for (; i < n; ++i) sum += a[i] * b[i];
  return sum;
}

void forward(const double* factor, std::size_t n, double* b) {
  for (std::size_t i = 0; i < n; factor += ++i) b[i] = (b[i] - dot(factor, b, i)) / factor[i];
}

// Four rows at a time, so that each load of the lanes serves them all.
ORRERY_ALSO_AVX void forward_lanes(const double* factor, std::size_t n, double* lanes) {
  using Eight = double __attribute__((vector_size(64), aligned(8), may_alias));
  static_assert(kLanes == 8);
  Eight* solved = reinterpret_cast<Eight*>(lanes);
  const double* line = factor;
  std::size_t i = 0;
  for (; i + 4 <= n; i += 4) {
    const double *second = line + i + 1, *third = second + i + 2, *fourth = third + i + 3;
    Eight a = solved[i], b = solved[i + 1], c = solved[i + 2], d = solved[i + 3];
    for (std::size_t j = 0; j < i; ++j) {
      const Eight known = solved[j];
      a -= line[j] * known;
      b -= second[j] * known;
      c -= third[j] * known;
      d -= fourth[j] * known;
    }
    a /= line[i];
    b = (b - second[i] * a) / second[i + 1];
    c = (c - third[i] * a - third[i + 1] * b) / third[i + 2];
    d = (d - fourth[i] * a - fourth[i + 1] * b - fourth[i + 2] * c) / fourth[i + 3];
    solved[i] = a, solved[i + 1] = b, solved[i + 2] = c, solved[i + 3] = d;
    line = fourth + i + 4;
  }
  for (; i < n; line += ++i) {
    Eight sum = solved[i];
    for (std::size_t j = 0; j < i; ++j) sum -= line[j] * solved[j];
    solved[i] = sum / line[i];
  }
}

void backward(const double* factor, std::size_t n, double* b) {
  for (std::size_t i = n; i-- > 0;) {
    const double* line = factor + i * (i + 1) / 2;
    b[i] /= line[i];
    for (std::size_t j = 0; j < i; ++j) b[j] -= line[j] * b[i];
  }
}

void extend_factor(const double* factor, std::size_t n, double* line, double diagonal, double least_pivot) {
  forward(factor, n, line);
  line[n] = std::sqrt(std::max(diagonal - dot(line, line, n), least_pivot));
}

double profiled_signal(const std::vector<double>& whitened) {
  const double sum = dot(whitened.data(), whitened.data(), whitened.size());
  return (sum + kSignalWeight) / (double(whitened.size()) + kSignalWeight);
}

GpHyper gp_start(std::size_t parameters) {
  return {std::vector<double>(parameters, length_middle(parameters)), kNoiseMiddle};
}

GpHyper fit_gp(const GpInputs& inputs, const std::vector<std::vector<double>>& points,
               const std::vector<double>& values, double length_spread, const GpHyper& warm, int steps) {
  const FitData data = fit_data(inputs, points, values);
  Likelihood likelihood(data, length_spread);
  const auto flat = [](const GpHyper& hyper) {
    std::vector<double> theta = hyper.log_lengths;
    theta.push_back(hyper.log_noise);
    return theta;
  };
  const Climb a = climb(likelihood, flat(warm), steps);
  const Climb b = climb(likelihood, flat(gp_start(inputs.parameters())), steps);
  std::vector<double> theta = a.loss <= b.loss ? a.theta : b.theta;
  const double noise = theta.back();
  theta.pop_back();
  return {std::move(theta), noise};
}

}  // namespace orrery::experiments::search
