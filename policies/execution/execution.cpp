#include "policies/execution/execution.hpp"

#include <stdexcept>

#include "sim/base/fault.hpp"

namespace orrery::policies {

models::Symbol named_dimension(const std::string& policy, const std::string& symbol) {
  try {
    return models::Symbol(symbol);
  } catch (const std::invalid_argument&) {
    sim::throw_fault({policy + ".symbol", ""},
                     "expected a dimension: letters, digits, '_' and '.', not starting with a digit");
  }
}

}  // namespace orrery::policies
