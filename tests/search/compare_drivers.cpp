// Drivers on test functions: what each reaches at some budgets, over seeds, and what a proposal costs.
//
//   compare_drivers [--drivers "a;b{\"population\": 20}"] [--problems trap,rosenbrock:10] [--budgets 30,100,300]
//   [--seeds 10] [--batch 1] [--reference 1.1,6]
//
// A problem that ends in .sqlite is the store of a sweep: regret as a share of the best value.
//
// A row a driver, problem and budget: quartiles and worst of the best value above the optimum (two objectives: what is
// missing of the true front's hypervolume), and CPU time of a proposal. tools/compare_drivers makes a page of it.
#include <ctime>
#include <iostream>
#include <sstream>

#include "measured_landscape.hpp"
#include "quality.hpp"
#include "swept_store.hpp"

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

/// Above the optimum; of a swept store a share of it.
double regret(const Problem& problem, const std::vector<Trial>& trials, bool swept) {
  if (problem.objectives >= 2) return 1 - area_share(problem, trials);
  const double above = best_of(trials) - problem.optimum.value_or(0);
  return swept ? above / std::abs(*problem.optimum) : above;
}

void compare(const std::string& driver, const std::string& named, const std::vector<double>& reference,
             const std::vector<std::int64_t>& budgets, int seeds, std::size_t batch) {
  const std::size_t colon = named.find(':'), brace = driver.find('{');
  const bool swept = named.ends_with(".sqlite");
  Problem problem = swept ? swept_problem(named)
                          : make_problem(named.substr(0, colon),
                                         colon == std::string::npos ? 0 : std::stoul(named.substr(colon + 1)));
  if (problem.objectives == 2 && reference.size() == 2) problem.reference = reference;
  const std::string params = brace == std::string::npos ? "{}" : driver.substr(brace);
  for (const std::int64_t budget : budgets) {
    std::vector<double> reached;
    const std::clock_t begin = std::clock();
    for (int seed = 1; seed <= seeds; ++seed)
      reached.push_back(regret(problem,
                               search_problem(problem, driver.substr(0, brace), params,
                                              {.budget = budget, .batch = batch}, static_cast<std::uint64_t>(seed)),
                               swept));
    const double cpu_us = 1e6 * static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
    const Quality q = quartiles(reached);
    std::cout << fmt::format("{},{},{},{:.6g},{:.6g},{:.6g},{:.6g},{:.1f}\n", driver, named, budget, q.low, q.median,
                             q.high, *std::max_element(reached.begin(), reached.end()),
                             cpu_us / static_cast<double>(budget * seeds))
              << std::flush;
  }
}

/// Evaluations until a design within 5 % of the best, over seeds; infinite where the budget did not do. `measured`:
/// those of them that the table has.
void compare_measured(const std::string& driver, const Landscape& landscape, std::int64_t budget, int seeds) {
  const std::size_t brace = driver.find('{');
  std::vector<double> needed, measured, unknown, above;
  for (int seed = 1; seed <= seeds; ++seed) {
    const auto number = static_cast<std::uint64_t>(seed);
    DriverSetup setup{.space = &landscape.problem.space,
                      .budget = budget,
                      .random = sim::RandomStream(number, "driver"),
                      .remedies = landscape.problem.remedies};
    UniqueDriver unique(make_driver(driver.substr(0, brace), std::move(setup),
                                    brace == std::string::npos ? "{}" : driver.substr(brace)),
                        landscape.problem.space, {number, "unique"});
    const std::vector<Trial> trials = run_search(unique, on_threads(landscape.problem.evaluate, 1),
                                                 {.budget = budget, .batch = 1, .first = {{.point = landscape.start}}});
    const auto close = std::ranges::find_if(trials, [&](const Trial& trial) {
      return trial.result.feasible() && trial.result.objectives[0] <= 1.05 * landscape.best;
    });
    needed.push_back(close == trials.end() ? std::numeric_limits<double>::infinity()
                                           : static_cast<double>(close - trials.begin() + 1));
    measured.push_back(close == trials.end()
                           ? std::numeric_limits<double>::infinity()
                           : static_cast<double>(std::count_if(trials.begin(), close + 1, [](const Trial& trial) {
                               return trial.result.status != TrialStatus::failed;
                             })));
    unknown.push_back(static_cast<double>(std::ranges::count_if(
                          trials, [](const Trial& trial) { return trial.result.status == TrialStatus::failed; })) /
                      static_cast<double>(trials.size()));
    above.push_back(best_of(trials) / landscape.best);
  }
  std::sort(needed.begin(), needed.end());
  std::sort(measured.begin(), measured.end());
  const double median = needed[needed.size() / 2];  // of an even number the upper one: there is no mean with "never"
  std::cout << fmt::format("{},{},{:.1f},{},{},{},{:.3f},{:.3g},{}\n", landscape.problem.name, budget,
                           landscape.random_draws, median, needed.front(), measured[measured.size() / 2],
                           quartiles(unknown).median, quartiles(above).median, driver)
            << std::flush;
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<std::string> drivers{"random", "bayesian", "tpe", "cma_es", "annealing", "genetic", "hill_climbing"};
  std::vector<std::string> problems{"trap", "models", "conditional", "mixed", "hartmann", "rosenbrock:10"};
  std::vector<std::int64_t> budgets{30, 100, 300};
  std::vector<double> reference;  // of problems with two objectives; none: each its own
  int seeds = 10;
  std::size_t batch = 1;
  std::string measured;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string name = argv[i], value = argv[i + 1];
    if (name == "--drivers") drivers = split(value, ';');
    if (name == "--problems") problems = split(value);
    if (name == "--seeds") seeds = std::stoi(value);
    if (name == "--batch") batch = std::stoul(value);
    if (name == "--measured") measured = value;
    if (name == "--reference")
      for (const std::string& one : split(value)) reference.push_back(std::stod(one));
    if (name == "--budgets") {
      budgets.clear();
      for (const std::string& one : split(value)) budgets.push_back(std::stoll(one));
    }
  }
  if (!measured.empty()) {
    std::cout << "kernel,budget,random_draws,median,least,measured,unknown,above,driver\n";
    for (const std::string& kernel : landscape_kernels(measured)) {
      const Landscape landscape = measured_landscape(measured, kernel);
      for (const std::string& driver : drivers) compare_measured(driver, landscape, budgets.back(), seeds);
    }
    return 0;
  }
  std::cout << "driver,problem,budget,low,median,high,worst,cpu_us\n";
  for (const std::string& problem : problems)
    for (const std::string& driver : drivers) compare(driver, problem, reference, budgets, seeds, batch);
}
