// Drivers on test functions: what each reaches at some budgets, over seeds, and what a proposal costs.
//
//   compare_drivers [--drivers "a;b{\"population\": 20}"] [--problems trap,rosenbrock:10] [--budgets 30,100,300]
//   [--seeds 10] [--batch 1]
//                   [--reference 1.1,6]
//
// A row a driver, problem and budget: quartiles and worst of the best value above the optimum (two objectives: what is
// missing of the true front's hypervolume), and CPU time of a proposal. tools/compare_drivers makes a page of it.
#include <ctime>
#include <iostream>
#include <sstream>

#include "quality.hpp"

namespace {

using namespace orrery;
using namespace orrery::experiments::search;
using namespace orrery::experiments::search::test;

std::vector<std::string> split(const std::string& text, char by = ',') {
  std::vector<std::string> all;
  std::istringstream in(text);
  for (std::string one; std::getline(in, one, by);) all.push_back(one);
  return all;
}

double regret(const Problem& problem, const std::vector<Trial>& trials) {
  if (problem.objectives == 2) return 1 - area_share(problem, trials);
  return best_of(trials) - problem.optimum.value_or(0);
}

void compare(const std::string& driver, const std::string& named, const std::vector<double>& reference,
             const std::vector<std::int64_t>& budgets, int seeds, std::size_t batch) {
  const std::size_t colon = named.find(':'), brace = driver.find('{');
  Problem problem =
      make_problem(named.substr(0, colon), colon == std::string::npos ? 0 : std::stoul(named.substr(colon + 1)));
  if (problem.objectives == 2 && reference.size() == 2) problem.reference = reference;
  const std::string params = brace == std::string::npos ? "{}" : driver.substr(brace);
  for (const std::int64_t budget : budgets) {
    std::vector<double> reached;
    const std::clock_t begin = std::clock();
    for (int seed = 1; seed <= seeds; ++seed)
      reached.push_back(
          regret(problem, search_problem(problem, driver.substr(0, brace), params, {.budget = budget, .batch = batch},
                                         static_cast<std::uint64_t>(seed))));
    const double cpu_us = 1e6 * static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
    const Quality q = quartiles(reached);
    std::cout << fmt::format("{},{},{},{:.6g},{:.6g},{:.6g},{:.6g},{:.1f}\n", driver, named, budget, q.low, q.median,
                             q.high, *std::max_element(reached.begin(), reached.end()),
                             cpu_us / static_cast<double>(budget * seeds))
              << std::flush;
  }
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<std::string> drivers{"random", "bayesian", "tpe", "cma_es", "annealing", "genetic", "hill_climbing"};
  std::vector<std::string> problems{"trap", "models", "conditional", "mixed", "hartmann", "rosenbrock:10"};
  std::vector<std::int64_t> budgets{30, 100, 300};
  std::vector<double> reference;  // of problems with two objectives; none: each its own
  int seeds = 10;
  std::size_t batch = 1;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string name = argv[i], value = argv[i + 1];
    if (name == "--drivers") drivers = split(value, ';');
    if (name == "--problems") problems = split(value);
    if (name == "--seeds") seeds = std::stoi(value);
    if (name == "--batch") batch = std::stoul(value);
    if (name == "--reference")
      for (const std::string& one : split(value)) reference.push_back(std::stod(one));
    if (name == "--budgets") {
      budgets.clear();
      for (const std::string& one : split(value)) budgets.push_back(std::stoll(one));
    }
  }
  std::cout << "driver,problem,budget,low,median,high,worst,cpu_us\n";
  for (const std::string& problem : problems)
    for (const std::string& driver : drivers) compare(driver, problem, reference, budgets, seeds, batch);
}
