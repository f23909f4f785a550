// NSGA-II against pagmo's on the same functions: the hypervolume of everything evaluated, medians over seeds.
//
// Built where pagmo is installed (tools/setup optional). Both get 100 points a generation and 250 generations; pagmo
// runs once with our constants (crossing 0.9 with index 15, mutation one in n with index 20) and once with its own. Our
// median must be no more than 2 % below pagmo's better one. Prints a row a function.
#include <cstdlib>
#include <memory>
#include <pagmo/algorithm.hpp>
#include <pagmo/algorithms/nsga2.hpp>
#include <pagmo/population.hpp>
#include <pagmo/problem.hpp>

#include "quality.hpp"

namespace {

using namespace orrery::experiments::search;
using Archive = std::vector<std::vector<double>>;

constexpr unsigned kPopulation = 100, kGenerations = 250;
constexpr int kSeeds = 5;

/// One of our problems as pagmo sees it; keeps what it was asked.
struct Wrapped {
  std::shared_ptr<const Problem> problem;
  std::shared_ptr<Archive> archive;

  pagmo::vector_double fitness(const pagmo::vector_double& x) const {
    archive->push_back(problem->evaluate({x}).objectives);
    return archive->back();
  }
  std::pair<pagmo::vector_double, pagmo::vector_double> get_bounds() const {
    std::pair<pagmo::vector_double, pagmo::vector_double> bounds;
    if (!problem) return {{0}, {1}};
    for (const Parameter& parameter : problem->space.parameters()) {
      bounds.first.push_back(parameter.low);
      bounds.second.push_back(parameter.high);
    }
    return bounds;
  }
  pagmo::vector_double::size_type get_nobj() const { return 2; }
};

test::Quality by_pagmo(const std::shared_ptr<const Problem>& problem, const pagmo::nsga2& algorithm) {
  std::vector<double> shares;
  const double whole = test::area_of(problem->front(20'000), problem->reference);
  for (unsigned seed = 1; seed <= kSeeds; ++seed) {
    const auto archive = std::make_shared<Archive>();
    pagmo::population population(pagmo::problem(Wrapped{problem, archive}), kPopulation, seed);
    pagmo::nsga2 seeded = algorithm;
    seeded.set_seed(seed);
    pagmo::algorithm(seeded).evolve(population);
    shares.push_back(test::area_of(*archive, problem->reference) / whole);
  }
  return test::quartiles(std::move(shares));
}

}  // namespace

int main() {
  bool good = true;
  fmt::print("function  ours, pagmo with our constants, pagmo with its own: share of the front's hypervolume\n");
  for (const char* name : {"zdt1", "zdt2", "zdt3", "dtlz2"}) {
    const auto problem = std::make_shared<const Problem>(make_problem(name));
    const test::Effort effort{.budget = kPopulation * kGenerations, .batch = kPopulation, .seeds = kSeeds};
    const test::Quality ours = test::quality(name, "nsga2", "{}", effort);
    const double rate = 1 / static_cast<double>(problem->space.size());
    const test::Quality same = by_pagmo(problem, pagmo::nsga2(kGenerations - 1, 0.9, 15, rate, 20));
    const test::Quality own = by_pagmo(problem, pagmo::nsga2(kGenerations - 1));
    const bool holds = ours.median >= 0.98 * std::max(same.median, own.median);
    good = good && holds;
    const auto text = [](const test::Quality& q) {
      return fmt::format("{:.5f} ({:.5f} … {:.5f})", q.median, q.low, q.high);
    };
    fmt::print("{:8}  {}, {}, {}{}\n", name, text(ours), text(same), text(own), holds ? "" : "  BELOW");
  }
  return good ? EXIT_SUCCESS : EXIT_FAILURE;
}
