// What a driver itself costs: `ask_tell/DRIVER`, 4,000 proposals in batches of 8 over ten mixed parameters and two
// objectives, the guard against repeats included. items_per_second of 20,000 are 50 us a proposal.
#include <benchmark/benchmark.h>

#include <cmath>
#include <string>

#include "experiments/search/search.hpp"
#include "experiments/search/unique.hpp"

namespace {

using namespace orrery;
using namespace orrery::experiments;
using namespace orrery::experiments::search;

constexpr std::int64_t kProposals = 4000;

Space mixed_space() {
  Space space;
  sim::Faults faults;
  const auto add = [&](Parameter parameter) { space.add(std::move(parameter), {}, {"bench", ""}, faults); };
  for (const char* name : {"a", "b", "c", "d"}) add({.name = name, .kind = ParameterKind::real});
  for (const char* name : {"e", "f"})
    add({.name = name, .kind = ParameterKind::integer, .low = 1, .high = 1000, .log = true});
  for (const char* name : {"g", "h", "i", "j"}) {
    Parameter parameter{.name = name, .kind = *name < 'i' ? ParameterKind::ordinal : ParameterKind::categorical};
    for (int i = 0; i < 6; ++i) parameter.choices.push_back({std::to_string(i), double(i), *name >= 'i', {}});
    add(std::move(parameter));
  }
  return space;
}

void ask_tell(benchmark::State& state, const std::string& name) {
  const Space space = mixed_space();
  DriverRegistry registry("driver");
  register_drivers(registry);
  sim::Faults faults;
  const auto choice = registry.prepare(name, nullptr, {"bench", ""}, faults);
  const auto evaluate = [](const Proposal& proposal) {
    double near = 0, far = 0;
    for (const double x : proposal.point) {
      near += std::abs(x - 0.3);
      far += std::abs(x - 0.7);
    }
    return Evaluation{.objectives = {near, far}};
  };
  for (auto _ : state) {
    UniqueDriver driver(choice.make({.space = &space, .objectives = 2, .budget = kProposals}), space, {1, "unique"});
    benchmark::DoNotOptimize(run_search(driver, on_threads(evaluate, 1), {.budget = kProposals, .batch = 8}).size());
  }
  state.SetItemsProcessed(state.iterations() * kProposals);
}
#define ASK_TELL(driver) \
  BENCHMARK_CAPTURE(ask_tell, driver, #driver)->Name("ask_tell/" #driver)->Unit(benchmark::kMillisecond)
ASK_TELL(random);
ASK_TELL(latin_hypercube);
ASK_TELL(sobol);
ASK_TELL(hill_climbing);
ASK_TELL(annealing);
ASK_TELL(mcmc);
ASK_TELL(genetic);
ASK_TELL(nsga2);
ASK_TELL(nsga3);
ASK_TELL(cma_es);
ASK_TELL(beam);
ASK_TELL(mcts);
ASK_TELL(ant_colony);
ASK_TELL(bottleneck);
ASK_TELL(successive_halving);

}  // namespace
