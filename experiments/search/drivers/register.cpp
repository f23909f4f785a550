#include "experiments/search/driver.hpp"

namespace orrery::experiments::search {

// One line a driver: each is declared and called here, and defined in its own file.
// clang-format off
void register_drivers(DriverRegistry& registry) {
  void add_bayesian_driver(DriverRegistry&); add_bayesian_driver(registry);
  void add_grid_driver(DriverRegistry&); add_grid_driver(registry);
  void add_random_driver(DriverRegistry&); add_random_driver(registry);
}
// clang-format on

}  // namespace orrery::experiments::search
