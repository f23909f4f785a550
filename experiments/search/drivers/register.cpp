#include "experiments/search/driver.hpp"

namespace orrery::experiments::search {

// One line a driver: each is declared and called here, and defined in its own file.
// clang-format off
void register_drivers(DriverRegistry& registry) {
  void add_annealing_driver(DriverRegistry&); add_annealing_driver(registry);
  void add_ant_colony_driver(DriverRegistry&); add_ant_colony_driver(registry);
  void add_auto_driver(DriverRegistry&); add_auto_driver(registry);
  void add_bayesian_driver(DriverRegistry&); add_bayesian_driver(registry);
  void add_beam_driver(DriverRegistry&); add_beam_driver(registry);
  void add_bottleneck_driver(DriverRegistry&); add_bottleneck_driver(registry);
  void add_cma_es_driver(DriverRegistry&); add_cma_es_driver(registry);
  void add_genetic_driver(DriverRegistry&); add_genetic_driver(registry);
  void add_grid_driver(DriverRegistry&); add_grid_driver(registry);
  void add_hill_climbing_driver(DriverRegistry&); add_hill_climbing_driver(registry);
  void add_latin_hypercube_driver(DriverRegistry&); add_latin_hypercube_driver(registry);
  void add_mcmc_driver(DriverRegistry&); add_mcmc_driver(registry);
  void add_mcts_driver(DriverRegistry&); add_mcts_driver(registry);
  void add_nsga2_driver(DriverRegistry&); add_nsga2_driver(registry);
  void add_nsga3_driver(DriverRegistry&); add_nsga3_driver(registry);
  void add_optuna_driver(DriverRegistry&); add_optuna_driver(registry);
  void add_pagmo_driver(DriverRegistry&); add_pagmo_driver(registry);
  void add_random_driver(DriverRegistry&); add_random_driver(registry);
  void add_select_driver(DriverRegistry&); add_select_driver(registry);
  void add_sobol_driver(DriverRegistry&); add_sobol_driver(registry);
  void add_successive_halving_driver(DriverRegistry&); add_successive_halving_driver(registry);
  void add_tpe_driver(DriverRegistry&); add_tpe_driver(registry);
  void add_trust_region_driver(DriverRegistry&); add_trust_region_driver(registry);
}
// clang-format on

}  // namespace orrery::experiments::search
