// Test functions with known optima, to judge drivers by.
//
// Sources: ZDT (Zitzler, Deb, Thiele 2000), DTLZ (Deb, Thiele, Laumanns, Zitzler 2002), BNH (Binh and Korn 1997), SRN
// (Srinivas and Deb 1994), TNK (Tanaka 1995), as stated in Deb's "Multi-Objective Optimization using Evolutionary
// Algorithms" (2001); sphere, Rosenbrock and Rastrigin from Hansen et al. (BBOB 2009). `mixed`, `conditional`,
// `bottleneck` and `rungs` are our own: their optima are in closed form or by enumeration, as their text says.
// Everything goes through sim/base/math.hpp, so that searches over them are the same everywhere.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "experiments/search/driver.hpp"

namespace orrery::experiments::search {

struct Problem {
  std::string name;
  std::string doc;
  Space space;
  std::size_t objectives = 1;
  std::size_t limits = 0;
  /// Of a canonical point at a fidelity; thread-safe.
  std::function<Evaluation(const Proposal&)> evaluate;
  /// Least value of the objective, where there is one objective.
  std::optional<double> optimum;
  /// `n` points of the true front in order of the first objective, where there are two objectives.
  std::function<std::vector<std::vector<double>>(std::size_t n)> front;
  /// What hypervolumes are measured against: worse than every point of the front.
  std::vector<double> reference;
  /// Hypervolume of the true front, where there are more than two objectives.
  std::optional<double> volume;
  /// As in DriverSetup.
  std::vector<std::pair<std::string, std::vector<std::size_t>>> remedies;
};

/// All problems there are, sorted.
std::vector<std::string> problem_names();

/// The problem of that name with `dimensions` variables; 0: the size that its source uses. Problems of fixed size
/// ignore it. Throws std::invalid_argument for an unknown name.
Problem make_problem(const std::string& name, std::size_t dimensions = 0);

}  // namespace orrery::experiments::search
