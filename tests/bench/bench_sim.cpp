// The event queue in the hold model (every event schedules one more, N pending) and the statistics of a run.
#include <benchmark/benchmark.h>

#include "sim/engine.hpp"
#include "sim/statistics.hpp"
#include "tests/bench/star.hpp"

namespace {

using namespace orrery::sim;

/// Reschedules itself at a random distance.
class Hold final : public EventHandler {
 public:
  Hold(Engine& engine, std::int64_t pending) : engine_(engine) {
    for (std::int64_t i = 0; i < pending; ++i) on_event(0);
  }
  void on_event(std::uint64_t) override {
    engine_.schedule_in(Duration{static_cast<std::int64_t>(orrery::bench::mix64(draws_++) >> 44)}, *this);
  }

 private:
  Engine& engine_;
  std::uint64_t draws_ = 0;
};

void hold(benchmark::State& state) {
  Engine engine;
  Hold handler(engine, state.range(0));
  for (auto _ : state) engine.step();
  state.SetItemsProcessed(state.iterations());
  state.counters["simulated_s"] = engine.scale().seconds(engine.now());
}
BENCHMARK(hold)->Arg(100)->Arg(10'000)->Arg(1'000'000);

void sample_stats(benchmark::State& state) {
  RandomStream random(1, "samples");
  SampleStats stats;
  for (auto _ : state) stats.add(static_cast<std::int64_t>(random.bits() >> 30));
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(sample_stats);

}  // namespace

BENCHMARK_MAIN();
