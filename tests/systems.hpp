// All systems with all registries, for tests that read configs.
#pragma once

#include "experiments/all/systems.hpp"

/// Made once a test program; what plugins add is not in it.
inline const orrery::experiments::Systems& test_systems() {
  static const orrery::experiments::Systems all = orrery::experiments::all_systems();
  return all;
}
