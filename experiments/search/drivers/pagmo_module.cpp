// orrery_pagmo.so: pagmo's side of the driver (pagmo_module.hpp). Nothing else is linked with libpagmo.
#include "experiments/search/drivers/pagmo_module.hpp"

#include <pagmo/algorithm.hpp>
#include <pagmo/algorithms/cmaes.hpp>
#include <pagmo/algorithms/nsga2.hpp>
#include <pagmo/algorithms/pso.hpp>
#include <pagmo/algorithms/sade.hpp>
#include <pagmo/batch_evaluators/member_bfe.hpp>
#include <pagmo/bfe.hpp>
#include <pagmo/population.hpp>
#include <pagmo/problem.hpp>
#include <utility>

namespace orrery::experiments::search {
namespace {

/// The unit cube as pagmo sees it.
struct Cube {
  const PagmoEvolution* evolution = nullptr;

  pagmo::vector_double fitness(const pagmo::vector_double& x) const { return evolution->evaluate(x); }
  pagmo::vector_double batch_fitness(const pagmo::vector_double& xs) const { return evolution->evaluate(xs); }
  std::pair<pagmo::vector_double, pagmo::vector_double> get_bounds() const {
    const std::size_t size = evolution != nullptr ? evolution->parameters : 1;
    return {pagmo::vector_double(size, 0.0), pagmo::vector_double(size, 1.0)};
  }
  pagmo::vector_double::size_type get_nobj() const { return evolution != nullptr ? evolution->objectives : 1; }
};

pagmo::algorithm algorithm_of(PagmoAlgorithm which, unsigned seed) {
  constexpr unsigned kGenerations = 1'000'000;  // the search's budget ends it
  if (which == PagmoAlgorithm::nsga2) {
    pagmo::nsga2 nsga2(kGenerations, 0.95, 10, 0.01, 50, seed);
    nsga2.set_bfe(pagmo::bfe(pagmo::member_bfe{}));
    return pagmo::algorithm(nsga2);
  }
  if (which == PagmoAlgorithm::cmaes)
    return pagmo::algorithm(pagmo::cmaes(kGenerations, -1, -1, -1, -1, 0.3, 0, 0, false, true, seed));
  if (which == PagmoAlgorithm::pso)
    return pagmo::algorithm(pagmo::pso(kGenerations, 0.7298, 2.05, 2.05, 0.5, 5, 2, 4, false, seed));
  return pagmo::algorithm(pagmo::sade(kGenerations, 2, 1, 0, 0, false, seed));
}

}  // namespace

extern "C" [[gnu::visibility("default")]] void orrery_pagmo_evolve_1(const PagmoEvolution& evolution) {
  const pagmo::population start(pagmo::problem(Cube{&evolution}), pagmo::bfe(pagmo::member_bfe{}), evolution.population,
                                evolution.seed);
  (void)algorithm_of(evolution.algorithm, evolution.seed + 1).evolve(start);
}

}  // namespace orrery::experiments::search
