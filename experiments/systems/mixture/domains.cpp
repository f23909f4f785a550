#include "experiments/systems/mixture/domains.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <span>

#include "sim/base/math.hpp"

namespace orrery::experiments::mixture {

double DomainProblem::domain_loss(std::size_t domain, const std::vector<double>& x) const {
  double sum = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double off = x[i] - centre[domain][i];
    sum += curvature[domain][i] * off * off / 2;
  }
  return sum;
}

std::vector<double> DomainProblem::domain_gradient(std::size_t domain, const std::vector<double>& x) const {
  std::vector<double> gradient(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) gradient[i] = curvature[domain][i] * (x[i] - centre[domain][i]);
  return gradient;
}

double DomainProblem::task_loss(std::size_t task, const std::vector<double>& x) const {
  double sum = 0;
  for (std::size_t d = 0; d < domains(); ++d)
    if (weights[task][d] > 0) sum += weights[task][d] * domain_loss(d, x);
  return sum;
}

std::vector<double> DomainProblem::task_gradient(std::size_t task, const std::vector<double>& x) const {
  std::vector<double> sum(x.size(), 0);
  for (std::size_t d = 0; d < domains(); ++d) {
    if (weights[task][d] == 0) continue;
    const std::vector<double> own = domain_gradient(d, x);
    for (std::size_t i = 0; i < x.size(); ++i) sum[i] += weights[task][d] * own[i];
  }
  return sum;
}

double DomainProblem::best_task_loss() const {
  // Parameters are apart from each other: each is at the weighted mean of its centres.
  std::vector<double> x(parameters());
  for (std::size_t i = 0; i < x.size(); ++i) {
    double above = 0, below = 0;
    for (const std::vector<double>& task : weights)
      for (std::size_t d = 0; d < domains(); ++d) {
        above += task[d] * curvature[d][i] * centre[d][i];
        below += task[d] * curvature[d][i];
      }
    x[i] = above / below;
  }
  double sum = 0;
  for (std::size_t j = 0; j < weights.size(); ++j) sum += task_loss(j, x) / static_cast<double>(weights.size());
  return sum;
}

DomainProblem draw_domains(std::int64_t parameters, std::int64_t domains, std::int64_t tasks, std::int64_t relevant,
                           double condition, double noise, sim::RandomStream random) {
  DomainProblem problem{.noise = noise};
  const auto count = static_cast<std::size_t>(parameters);
  for (std::int64_t d = 0; d < domains; ++d) {
    std::vector<double> curvature(count), centre(count);
    for (std::size_t i = 0; i < count; ++i) {
      const double place = count > 1 ? static_cast<double>(i) / static_cast<double>(count - 1) : 0;
      curvature[i] = sim::det_exp(-place * sim::det_log(condition));
      centre[i] = random.normal();
    }
    random.shuffle(std::span(curvature));
    problem.curvature.push_back(std::move(curvature));
    problem.centre.push_back(std::move(centre));
  }
  for (std::int64_t j = 0; j < tasks; ++j) {
    std::vector<double> weights(static_cast<std::size_t>(domains), 0);
    for (std::int64_t k = 0; k < relevant; ++k)
      weights[static_cast<std::size_t>((j + k) % domains)] = 0.2 + random.uniform();
    const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
    for (double& weight : weights) weight /= sum;
    problem.weights.push_back(std::move(weights));
  }
  return problem;
}

}  // namespace orrery::experiments::mixture
