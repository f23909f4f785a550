// What each driver reaches on test functions: the table of docs/explain/drivers.md, and thresholds that hold it.
//
// Figures are medians over seeds: with one objective the best value above the optimum, with two the share of the true
// front's hypervolume. `ORRERY_TABLE=1 test_search "[quality]"` prints the table.
#include <catch2/catch.hpp>
#include <cstdio>
#include <cstdlib>

#include "quality.hpp"

namespace orrery::experiments::search::test_quality {
namespace {

using namespace test;

struct Row {
  const char* driver;
  const char* problem;
  std::int64_t budget;
  double threshold;  ///< most of a gap, least of a share
  const char* params = "{}";
  std::size_t dimensions = 0;
  std::size_t batch = 8;
};

const std::vector<Row> kQuick{
    {"random", "sphere", 1000, 4, "{}", 4},
    {"random", "mixed", 500, 1.5},
    {"latin_hypercube", "sphere", 1000, 4, "{}", 4},
    {"sobol", "sphere", 1000, 4, "{}", 4},
    {"hill_climbing", "sphere", 1000, 1e-3, "{}", 4},
    {"hill_climbing", "mixed", 500, 0.1},
    {"hill_climbing", "conditional", 500, 0.1},
    {"hill_climbing", "bottleneck", 500, 0.02},
    {"annealing", "sphere", 1000, 0.05, "{}", 4},
    {"annealing", "rastrigin", 3000, 2, "{}", 4},
    {"annealing", "mixed", 500, 0.1},
    {"annealing", "bottleneck", 500, 0.02},
    {"genetic", "sphere", 1000, 0.05, "{}", 4},
    {"genetic", "rastrigin", 3000, 1, "{}", 4},
    {"genetic", "mixed", 500, 0.1},
    {"genetic", "conditional", 500, 0.1},
    {"genetic", "bottleneck", 500, 0.02},
    {"nsga2", "zdt1", 5000, 0.95, "{}", 10, 100},
    {"nsga2", "zdt2", 5000, 0.9, "{}", 10, 100},
    {"nsga2", "zdt3", 5000, 0.95, "{}", 10, 100},
    {"nsga2", "zdt4", 10'000, 0.9, "{}", 5, 100},
    {"nsga2", "zdt6", 10'000, 0.9, "{}", 5, 100},
    {"nsga2", "dtlz1", 10'000, 0.9, "{}", 5, 100},
    {"nsga2", "dtlz2", 5000, 0.97, "{}", 11, 100},
    {"nsga2", "bnh", 2000, 0.99, R"({"population": 40})", 0, 40},
    {"nsga2", "srn", 4000, 0.97, R"({"population": 40})", 0, 40},
    {"nsga2", "tnk", 4000, 0.97, R"({"population": 40})", 0, 40},
    {"random", "bnh", 2000, 0.9},
    {"random", "srn", 4000, 0.5},
    {"random", "tnk", 4000, 0.5},
    {"cma_es", "sphere", 1000, 1e-6, "{}", 4},
    {"cma_es", "rosenbrock", 3000, 1e-3, "{}", 4},
    {"cma_es", "rastrigin", 6000, 2, "{}", 4},
    {"cma_es", "mixed", 500, 0.3},
    {"cma_es", "bottleneck", 500, 0.02},
    {"mcmc", "sphere", 1000, 1, "{}", 4},
    {"mcmc", "mixed", 500, 0.5},
    {"beam", "sphere", 1000, 1e-3, "{}", 4},
    {"beam", "rastrigin", 3000, 1e-3, "{}", 4},
    {"beam", "mixed", 500, 0.1},
    {"beam", "conditional", 500, 0.1},
    {"beam", "bottleneck", 500, 0.05},
    {"mcts", "sphere", 1000, 0.3, "{}", 4},
    {"mcts", "mixed", 500, 0.5},
    {"mcts", "conditional", 500, 0.1},
    {"mcts", "bottleneck", 500, 0.05},
    {"ant_colony", "sphere", 1000, 0.1, "{}", 4},
    {"ant_colony", "rastrigin", 3000, 5, "{}", 4},
    {"ant_colony", "mixed", 500, 0.2},
    {"ant_colony", "conditional", 500, 0.1},
    {"ant_colony", "bottleneck", 500, 0.02},
    {"tpe", "sphere", 300, 0.5, "{}", 4},
    {"tpe", "mixed", 200, 0.5},
    {"bottleneck", "bottleneck", 100, 0.02},
    {"bottleneck", "bottleneck", 500, 0.01},
    {"hill_climbing", "bottleneck", 100, 0.1},
    {"genetic", "bottleneck", 100, 0.2},
    {"random", "bottleneck", 100, 0.5},
    {"successive_halving", "rungs", 500, 0.05},
    {"successive_halving", "rungs", 500, 0.05, R"({"hyperband": true})"},
    {"random", "rungs", 50, 0.06},
};

Quality measure(const Row& row) {
  return quality(row.problem, row.driver, row.params, {.budget = row.budget, .batch = row.batch, .seeds = 7},
                 row.dimensions);
}

bool holds(const Row& row, const Quality& reached) {
  return make_problem(row.problem).objectives == 2 ? reached.median >= row.threshold : reached.median <= row.threshold;
}

/// One line of the table, for ORRERY_TABLE=1.
void print(const Row& row, const Quality& reached) {
  const std::string size = row.dimensions != 0 ? fmt::format(" ({})", row.dimensions) : "";
  fmt::print("| `{}` | {}{} | {} | {} | {} |\n", row.driver, row.problem, size, row.budget, text_of(reached),
             row.threshold);
}

TEST_CASE("drivers reach their quality", "[search][quality]") {
  for (const Row& row : kQuick) {
    const Quality reached = measure(row);
    if (std::getenv("ORRERY_TABLE") != nullptr) print(row, reached);
    INFO(row.driver << " on " << row.problem << ": " << text_of(reached) << ", threshold " << row.threshold);
    CHECK(holds(row, reached));
  }
}

}  // namespace
}  // namespace orrery::experiments::search::test_quality
