// A proposal of the Bayesian driver when 500 points are known: `suggest/bayesian/OBJECTIVES`, six real parameters.
#include <benchmark/benchmark.h>

#include "experiments/search/driver.hpp"

namespace {

using namespace orrery;
using namespace orrery::experiments::search;

void suggest(benchmark::State& state) {
  const auto objectives = static_cast<std::size_t>(state.range(0));
  Space space;
  sim::Faults faults;
  for (const char* name : {"a", "b", "c", "d", "e", "f"})
    space.add({.name = name, .kind = ParameterKind::real, .low = 0, .high = 1}, {}, {"bench", ""}, faults);
  DriverRegistry registry("driver");
  register_drivers(registry);
  const auto driver = registry.prepare("bayesian", nullptr, {"bench", ""}, faults)
                          .make({.space = &space, .objectives = objectives, .random = sim::RandomStream(1, "driver")});
  sim::RandomStream random(1, "bench");
  const auto trial = [&](Point point) {
    double near = 0, far = 0;
    for (const double x : point) {
      near += (x - 0.3) * (x - 0.3);
      far += (x - 0.7) * (x - 0.7);
    }
    Evaluation result{.objectives = {near}};
    if (objectives == 2) result.objectives.push_back(far);
    return Trial{{std::move(point)}, std::move(result)};
  };
  std::vector<Trial> known;
  for (int i = 0; i < 500; ++i) known.push_back(trial(*space.sample(random)));
  driver->tell(known);
  (void)driver->ask(1);  // the first fit from nothing
  for (auto _ : state) {
    std::vector<Proposal> batch = driver->ask(1);
    const Trial next = trial(batch.at(0).point);
    driver->tell({&next, 1});
  }
}
// Twenty-six proposals hold one fit (a share of 0.05 more points).
BENCHMARK(suggest)->Name("suggest/bayesian")->Arg(1)->Arg(2)->Iterations(26)->Unit(benchmark::kMillisecond);

}  // namespace
