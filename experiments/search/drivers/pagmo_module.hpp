// The seam between the driver `pagmo` and the shared object that is linked with libpagmo.
//
// libpagmo is a shared object of its own, loaded when a study asks for the driver: every process that links it pays
// 10 ms and 20 MiB for its initialisers, whatever it runs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

namespace orrery::experiments::search {

enum class PagmoAlgorithm : std::uint8_t { automatic, nsga2, sade, cmaes, pso };

/// One evolution in the unit cube. Whoever changes it counts up the name of kPagmoEvolve: a module that was left from
/// another build is then told from one that fits.
struct PagmoEvolution {
  PagmoAlgorithm algorithm = PagmoAlgorithm::sade;  ///< any but `automatic`
  std::size_t parameters = 1, objectives = 1;
  std::size_t population = 40;
  unsigned seed = 1;  ///< of the first population; the algorithm has the next one
  /// Points one behind the other, `parameters` numbers in [0, 1] each; returns `objectives` numbers to minimise for
  /// each. Called on the thread that evolves. What it throws ends the evolution.
  std::function<std::vector<double>(std::vector<double>)> evaluate;
};

/// What the module exports: evolves until evaluate() throws, or pagmo has no more to propose.
using PagmoEvolve = void (*)(const PagmoEvolution&);
inline constexpr const char* kPagmoModule = "orrery_pagmo.so";
inline constexpr const char* kPagmoEvolve = "orrery_pagmo_evolve_1";

}  // namespace orrery::experiments::search
