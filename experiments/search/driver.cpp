#include "experiments/search/driver.hpp"

#include <limits>
#include <numeric>

namespace orrery::experiments::search {

double Evaluation::violation() const {
  if (!ok()) return std::numeric_limits<double>::infinity();
  return std::accumulate(violations.begin(), violations.end(), 0.0);
}

bool better(const Evaluation& a, const Evaluation& b, std::size_t objective) {
  const double over_a = a.violation(), over_b = b.violation();
  if (over_a != over_b) return over_a < over_b;
  return a.ok() && a.objectives[objective] < b.objectives[objective];
}

bool dominates(const Evaluation& a, const Evaluation& b) {
  const double over_a = a.violation(), over_b = b.violation();
  if (over_a != over_b) return over_a < over_b;
  if (over_a != 0) return false;
  bool any = false;
  for (std::size_t i = 0; i < a.objectives.size(); ++i) {
    if (a.objectives[i] > b.objectives[i]) return false;
    any = any || a.objectives[i] < b.objectives[i];
  }
  return any;
}

}  // namespace orrery::experiments::search
