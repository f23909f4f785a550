// Domains as quadratics: loss_d(x) = sum h_di (x_i - c_di)^2 / 2; a task is a mixture of some domains' losses, so its
// optimum lies between theirs. A training can only move by the gradients of the domains it is given.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/base/random.hpp"

namespace orrery::experiments::mixture {

struct DomainProblem {
  std::vector<std::vector<double>> curvature, centre;  ///< by domain, parameter
  std::vector<std::vector<double>> weights;            ///< by task, domain; each adds up to 1
  double noise = 0;                                    ///< deviation of a sample's gradient, each parameter

  std::size_t domains() const { return curvature.size(); }
  std::size_t parameters() const { return curvature.front().size(); }
  double domain_loss(std::size_t domain, const std::vector<double>& x) const;
  std::vector<double> domain_gradient(std::size_t domain, const std::vector<double>& x) const;
  double task_loss(std::size_t task, const std::vector<double>& x) const;
  std::vector<double> task_gradient(std::size_t task, const std::vector<double>& x) const;
  /// The loss of the tasks' mean at its optimum: what no training goes below.
  double best_task_loss() const;
};

/// Curvatures spaced from 1 to 1/condition in an order of each domain's own, centres at normal places, tasks of
/// `relevant` domains each with random weights. Domains beyond those are of no use to any task.
DomainProblem draw_domains(std::int64_t parameters, std::int64_t domains, std::int64_t tasks, std::int64_t relevant,
                           double condition, double noise, sim::RandomStream random);

}  // namespace orrery::experiments::mixture
