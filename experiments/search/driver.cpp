#include "experiments/search/driver.hpp"

#include <algorithm>
#include <limits>

namespace orrery::experiments::search {

double Evaluation::violation() const {
  if (!judged()) return std::numeric_limits<double>::infinity();
  double sum = 0;
  for (const double margin : margins) sum += std::max(0.0, margin);
  return sum;
}

bool better(const Evaluation& a, const Evaluation& b, std::size_t objective) {
  const double over_a = a.violation(), over_b = b.violation();
  if (over_a != over_b) return over_a < over_b;
  return a.ok() && (!b.ok() || a.objectives[objective] < b.objectives[objective]);
}

bool dominates(const Evaluation& a, const Evaluation& b) {
  const double over_a = a.violation(), over_b = b.violation();
  if (over_a != over_b) return over_a < over_b;
  if (over_a != 0) return false;
  if (!a.ok() || !b.ok()) return a.ok() && !b.ok();
  bool any = false;
  for (std::size_t i = 0; i < a.objectives.size(); ++i) {
    if (a.objectives[i] > b.objectives[i]) return false;
    any = any || a.objectives[i] < b.objectives[i];
  }
  return any;
}

}  // namespace orrery::experiments::search
