// Benchmarks of studies: rows into the store, ask and tell of drivers.
#include <benchmark/benchmark.h>
#include <fmt/format.h>
#include <unistd.h>

#include "experiments/search/unique.hpp"
#include "experiments/study/store.hpp"
#include "experiments/study/study.hpp"
#include "tests/systems.hpp"

namespace orrery::experiments {
namespace {

namespace fs = std::filesystem;

/// A study with five parameters, five measures, two objectives and a limit; every point has one run.
study::StoreFacts facts() {
  study::StoreFacts all{.study = "bench", .mode = "sweep", .hash = "1", .version = "1", .build = "1"};
  for (int i = 0; i < 5; ++i) all.columns.push_back({fmt::format("p{}", i), "parameter", ""});
  for (int i = 0; i < 5; ++i) all.columns.push_back({fmt::format("m{}", i), "measure", "path"});
  for (const char* name : {"objective_a", "objective_b"}) all.columns.push_back({name, "objective", "minimise"});
  all.columns.push_back({"limit_a", "limit", ""});
  return all;
}

void store_rows(benchmark::State& state) {
  const fs::path file = fs::temp_directory_path() / fmt::format("orrery-bench-{}.sqlite", getpid());
  fs::remove(file);
  std::int64_t id = 0;
  {
    study::Store store(file, facts());
    study::PointRow row;
    for (int i = 0; i < 13; ++i) row.cells.emplace_back(0.1 * i);
    row.cells[0] = std::string("sarathi");
    for (auto _ : state) {
      row.id = ++id;
      row.key = fmt::format("{:016x}", static_cast<std::uint64_t>(id) * 0x9e3779b97f4a7c15ULL);
      row.runs = {id};
      store.add_run(id, row.key, {.figures = {1, 2, 3, 4, 5}});
      store.add_point(row);
      store.commit_if_due();
    }
    store.commit();
  }
  fs::remove(file);
  state.SetItemsProcessed(id);  // points, each with its run
}
BENCHMARK(store_rows)->MinTime(2);

/// Six real parameters, three choices, a condition: asked for 20, told at once.
search::Space space() {
  search::Space all;
  sim::Faults faults;
  const sim::Origin here{"bench", ""};
  for (int i = 0; i < 6; ++i) all.add({.name = fmt::format("x{}", i), .low = -5, .high = 5}, "", here, faults);
  search::Parameter choice{.name = "c", .kind = search::ParameterKind::categorical};
  for (const char* label : {"a", "b", "c"}) choice.choices.push_back({label, double(choice.choices.size()), true, {}});
  all.add(std::move(choice), "", here, faults);
  all.add({.name = "n", .kind = search::ParameterKind::integer, .low = 1, .high = 64}, "c == 'a'", here, faults);
  faults.throw_if_any();
  return all;
}

void ask_and_tell(benchmark::State& state, const std::string& name) {
  const search::Space all = space();
  sim::Faults faults;
  auto choice = test_systems().registry<search::DriverRegistry>().prepare(name, nullptr, {"bench", ""}, faults);
  faults.throw_if_any();
  constexpr std::int64_t kBudget = 2000;
  std::unique_ptr<search::Driver> driver;
  std::int64_t points = kBudget, total = 0;
  for (auto _ : state) {
    if (points >= kBudget) {
      state.PauseTiming();
      driver = choice.make({.space = &all, .budget = kBudget, .random = {1, "bench"}});
      points = 0;
      state.ResumeTiming();
    }
    std::vector<search::Trial> trials;
    for (search::Proposal& proposal : driver->ask(20)) {
      double sum = 0;
      for (int i = 0; i < 6; ++i) sum += proposal.point[std::size_t(i)] * proposal.point[std::size_t(i)];
      trials.push_back({std::move(proposal), {.objectives = {sum}}});
    }
    points += trials.empty() ? kBudget : std::ssize(trials);
    total += std::ssize(trials);
    driver->tell(trials);
  }
  state.SetItemsProcessed(total);
}

/// Drivers whose cost does not grow with what they know; the GP has a budget of its own (bench: suggestion),
/// and a selection wants a parameter for the seed.
const bool kRegistered = [] {
  for (const std::string& name : test_systems().registry<search::DriverRegistry>().names())
    if (name != "bayesian" && name != "successive_halving" && name != "select")
      benchmark::RegisterBenchmark(("ask_and_tell/" + name).c_str(),
                                   [name](benchmark::State& state) { ask_and_tell(state, name); });
  return true;
}();

}  // namespace
}  // namespace orrery::experiments

BENCHMARK_MAIN();
