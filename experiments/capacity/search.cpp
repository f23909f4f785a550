#include "experiments/capacity/search.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>

namespace orrery::experiments::capacity {

Bracket highest_rate(const SearchBounds& bounds, const std::function<bool(double)>& meets) {
  if (!(bounds.least > 0) || !(bounds.most >= bounds.least) || !(bounds.tolerance > 0))
    throw std::invalid_argument("rates to search are not in order");
  Bracket bracket;
  double rate = std::clamp(bounds.start, bounds.least, bounds.most);
  if (meets(rate)) {
    bracket.meets = rate;
    while (!bracket.fails && rate < bounds.most) {
      rate = std::min(2 * rate, bounds.most);
      (meets(rate) ? bracket.meets : bracket.fails) = rate;
    }
  } else {
    bracket.fails = rate;
    while (!bracket.meets && rate > bounds.least) {
      rate = std::max(rate / 2, bounds.least);
      (meets(rate) ? bracket.meets : bracket.fails) = rate;
    }
  }
  if (!bracket.meets || !bracket.fails) return bracket;
  while (*bracket.fails > *bracket.meets * (1 + bounds.tolerance)) {
    rate = std::sqrt(*bracket.meets * *bracket.fails);  // correctly rounded on every machine
    (meets(rate) ? bracket.meets : bracket.fails) = rate;
  }
  return bracket;
}

}  // namespace orrery::experiments::capacity
