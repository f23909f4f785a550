// What becomes of a batching policy that does not keep its contract (policies/batching/batching.hpp).
#pragma once

#include <fmt/format.h>

#include <stdexcept>
#include <string_view>

namespace orrery::experiments {

/// Ends the run.
[[noreturn]] inline void broken_policy(std::string_view what) {
  throw std::logic_error(fmt::format("the batching policy broke its contract: {}", what));
}

}  // namespace orrery::experiments
