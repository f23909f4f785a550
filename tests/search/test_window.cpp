// Points in flight: what drivers are asked while others are out, and what they know then.
#include <catch2/catch.hpp>
#include <map>
#include <set>

#include "experiments/search/unique.hpp"
#include "experiments/search/waiting.hpp"
#include "spaces.hpp"

namespace orrery::experiments::search::test_window {
namespace {

using namespace test;

Evaluation bowl(const Proposal& proposal) {
  double sum = 0;
  for (const double x : proposal.point)
    if (!std::isnan(x)) sum += (x - 0.3) * (x - 0.3);
  return {.objectives = {sum}};
}

std::vector<std::string> driver_names() {
  DriverRegistry registry("driver");
  register_drivers(registry);
  std::vector<std::string> names = registry.names();
  for (const char* other : {"optuna", "pagmo", "select"}) std::erase(names, other);  // they need more than a space
  return names;
}

/// Proposes 1, 2, 3 …, and notes what it had been told by then.
struct Counting final : Driver {
  bool ahead = true;  ///< a driver of streams
  double next = 1;
  std::vector<std::size_t> asked, knew, told;  ///< a call each
  std::size_t known = 0;
  std::vector<double> order;
  std::size_t most_out = 0;

  std::vector<Proposal> ask(std::size_t most) override {
    asked.push_back(most);
    knew.push_back(known);
    std::vector<Proposal> batch;
    while (batch.size() < most) batch.push_back({{next++}});
    return batch;
  }
  bool whole_batches() const override { return !ahead; }
  bool can_ask(std::span<const Proposal> out) override {
    most_out = std::max(most_out, out.size());
    return ahead || out.empty();
  }
  void tell(std::span<const Trial> trials) override {
    told.push_back(trials.size());
    known += trials.size();
    for (const Trial& trial : trials) order.push_back(trial.proposal.point[0]);
  }
};

TEST_CASE("a driver is asked for the next points when the oldest are done", "[search]") {
  Counting driver;
  const auto trials = run_search(driver, on_threads(bowl, 3), {.budget = 10, .batch = 2, .in_flight = 6});
  // Two at a time until six are out; then two for each two that are told; the rest is told by twos.
  CHECK(driver.asked == std::vector<std::size_t>{2, 2, 2, 2, 2});
  CHECK(driver.knew == std::vector<std::size_t>{0, 0, 0, 2, 4});
  CHECK(driver.most_out == 4);  // when it was asked for the last two of six
  CHECK(driver.told == std::vector<std::size_t>{2, 2, 2, 2, 2});
  CHECK(driver.order == std::vector<double>{1, 2, 3, 4, 5, 6, 7, 8, 9, 10});
  CHECK(trials.size() == 10);
}

TEST_CASE("a driver that needs all results is told the whole batch", "[search]") {
  Counting driver;
  driver.ahead = false;
  (void)run_search(driver, on_threads(bowl, 3), {.budget = 10, .batch = 2, .in_flight = 6});
  CHECK(driver.asked == std::vector<std::size_t>{2, 2, 2, 2, 2});
  CHECK(driver.told == std::vector<std::size_t>{2, 2, 2, 2, 2});
  CHECK(driver.knew == std::vector<std::size_t>{0, 2, 4, 6, 8});
}

TEST_CASE("in_flight up to the batch changes nothing", "[search]") {
  for (const std::size_t in_flight : {0, 3, 4}) {
    Counting driver;
    (void)run_search(driver, on_threads(bowl, 2), {.budget = 10, .batch = 4, .in_flight = in_flight});
    CHECK(driver.asked == std::vector<std::size_t>{4, 4, 2});
    CHECK(driver.told == std::vector<std::size_t>{4, 4, 2});
  }
}

TEST_CASE("a search with points in flight ends by patience, with all that was out", "[search]") {
  Counting driver;  // its first point is the best: (1 - 0.3)^2, then worse and worse
  const auto trials =
      run_search(driver, on_threads(bowl, 2), {.budget = 100, .batch = 1, .in_flight = 4, .patience = 5});
  // The sixth result is the fifth without a gain; by then the ninth point is out: five told, four in flight. It is told
  // too, and nothing more is asked for.
  CHECK(trials.size() == 9);
  CHECK(driver.known == 9);
}

TEST_CASE("every driver: the same points for any threads, none twice, the budget kept", "[search][drivers][prop]") {
  const Space space = mixed_space();
  for (const std::string& name : driver_names()) {
    INFO(name);
    const std::int64_t budget = name == "bayesian" || name == "auto" ? 40 : 90;
    const auto search = [&](std::size_t jobs, std::size_t batch, std::size_t in_flight) {
      UniqueDriver driver(make_driver(name, {.space = &space, .budget = budget}), space, {1, "unique"});
      return run_search(driver, on_threads(bowl, jobs), {.budget = budget, .batch = batch, .in_flight = in_flight});
    };
    const auto trials = search(1, 1, 7);
    CHECK(trace_of(space, search(3, 1, 7)) == trace_of(space, trials));
    std::set<std::string> seen;
    for (const Trial& trial : trials)
      CHECK(seen.insert(space.key(trial.proposal.point) + std::to_string(trial.proposal.fidelity)).second);
    CHECK(std::ssize(trials) == (name == "grid" ? std::min<std::int64_t>(budget, std::ssize(trials)) : budget));
    CHECK(trace_of(space, search(3, 4, 11)) == trace_of(space, search(1, 4, 11)));
  }
}

TEST_CASE("every driver: a search with points in flight goes on where it was", "[search][drivers][prop]") {
  const Space space = mixed_space();
  for (const std::string& name : driver_names()) {
    INFO(name);
    std::map<std::string, Evaluation> store;
    const auto search = [&](std::size_t most) {
      UniqueDriver driver(make_driver(name, {.space = &space, .budget = 40}), space, {1, "unique"});
      SearchOptions options{.budget = 40, .batch = 1, .in_flight = 5};
      const auto key = [&](const Proposal& p) { return space.key(p.point) + std::to_string(p.fidelity); };
      options.known = [&](const Proposal& p) -> std::optional<Evaluation> {
        const auto found = store.find(key(p));
        return found == store.end() ? std::nullopt : std::optional(found->second);
      };
      options.commit = [&](const Trial& trial) {
        if (store.size() == most) throw std::runtime_error("killed");
        store.emplace(key(trial.proposal), trial.result);
      };
      return run_search(driver, on_threads(bowl, 2), options);
    };
    const auto whole = search(1000);
    store.clear();
    for (const std::size_t most : {3, 4, 17}) CHECK_THROWS_AS(search(most), std::runtime_error);
    CHECK(trace_of(space, search(1000)) == trace_of(space, whole));
  }
}

TEST_CASE("points that are out are neither proposed again nor crowded", "[search][drivers]") {
  Space space;
  add(space, real("x", 0, 1));
  // A bowl with its bottom at 0.3 is known at nine places; what is next lies near it.
  std::vector<Trial> told;
  for (int i = 1; i < 10; ++i) told.push_back({{{i / 10.0}}, bowl({{i / 10.0}})});
  for (const char* name : {"bayesian", "tpe"}) {
    INFO(name);
    const auto proposal = [&](std::span<const Proposal> out) {
      const auto driver = make_driver(name, {.space = &space, .budget = 100, .random = {1, "driver"}});
      driver->tell(told);
      CHECK(driver->can_ask(out));
      return driver->ask(1)[0].point[0];
    };
    const double first = proposal({});
    CHECK(proposal({}) == first);
    const Proposal taken{{first}};
    const double second = proposal({&taken, 1});
    CHECK(second != first);
    CHECK(std::abs(second - first) > 1e-3);
  }
}

TEST_CASE("a generation is handed out while its first points are out, the next not before", "[search][drivers]") {
  Space space;
  for (const char* name : {"a", "b", "c"}) add(space, real(name, 0, 1));
  const auto driver = make_driver("cma_es", {.space = &space, .budget = 100, .random = {1, "driver"}});
  // Three parameters: 4 + floor(3 ln 3) = 7 points a generation.
  std::vector<Proposal> out = driver->ask(4);
  REQUIRE(driver->can_ask(out));
  const std::vector<Proposal> rest = driver->ask(9);
  CHECK(rest.size() == 3);
  out.insert(out.end(), rest.begin(), rest.end());
  CHECK_FALSE(driver->can_ask(out));
  const Trial first{out[0], bowl(out[0])};
  driver->tell({&first, 1});
  out.erase(out.begin());
  CHECK_FALSE(driver->can_ask(out));  // it has one result of seven
  std::vector<Trial> trials;
  for (const Proposal& proposal : out) trials.push_back({proposal, bowl(proposal)});
  driver->tell(trials);
  CHECK(driver->can_ask({}));
  CHECK(driver->ask(9).size() == 9);  // a batch that waits for nothing may be larger
}

TEST_CASE("a chain has one point out at a time", "[search][drivers]") {
  const Space space = mixed_space();
  const auto driver = make_driver("mcmc", {.space = &space, .budget = 100, .random = {1, "driver"}});
  std::vector<Proposal> out = driver->ask(3);  // of four chains
  CHECK(out.size() == 3);
  REQUIRE(driver->can_ask(out));
  const auto fourth = driver->ask(3);
  REQUIRE(fourth.size() == 1);
  out.push_back(fourth[0]);
  CHECK_FALSE(driver->can_ask(out));
  out.erase(out.begin());  // nobody looked at it: its chain is free
  CHECK(driver->can_ask(out));
}

TEST_CASE("chains and generations keep to their points where many are known already", "[search][drivers]") {
  Space space;  // 36 points: most proposals are known before long
  add(space, integer("a", 1, 6));
  add(space, integer("b", 1, 6));
  for (const char* name : {"mcmc", "cma_es"}) {
    INFO(name);
    UniqueDriver driver(make_driver(name, {.space = &space, .budget = 36, .random = {1, "driver"}}), space,
                        {1, "unique"});
    // Four chains; four parameters' worth of 4 + floor(3 ln 2) = 6 points a generation.
    const std::size_t most = std::string(name) == "mcmc" ? 4 : 6;
    std::vector<Proposal> out;
    std::set<std::string> seen;
    for (int round = 0; round < 200 && seen.size() < 36; ++round) {
      while (driver.can_ask(out)) {
        const auto batch = driver.ask(1);
        if (batch.empty()) break;
        for (const Proposal& proposal : batch) {
          CHECK(seen.insert(space.key(proposal.point)).second);
          out.push_back(proposal);
        }
        REQUIRE(out.size() <= most);
      }
      if (out.empty()) break;
      const Trial oldest{out.front(), bowl(out.front())};
      out.erase(out.begin());
      driver.tell({&oldest, 1});
    }
    CHECK(seen.size() == 36);
  }
}

TEST_CASE("a chain goes on when its own result is there", "[search][drivers]") {
  const Space space = mixed_space();
  UniqueDriver driver(make_driver("mcmc", {.space = &space, .budget = 100, .random = {1, "driver"}}), space,
                      {1, "unique"});
  Window window(driver, 9);
  REQUIRE(window.can_ask());
  CHECK(window.ask(4).size() == 4);
  CHECK_FALSE(window.can_ask());
  window.answer(0, bowl(window.out()[0]));
  CHECK(window.hear(1).size() == 1);
  CHECK(window.can_ask());
  CHECK(window.ask(9).size() == 1);
}

TEST_CASE("notes of proposals last until their results come, or nothing is out", "[search]") {
  Space space;
  add(space, integer("a", 1, 9));
  Waiting<int> notes(space);
  notes.begin();
  notes.add({1}, 10);
  notes.add({2}, 20);
  notes.add({2}, 21);
  CHECK(notes.take({2}) == 20);  // the oldest of equals
  CHECK_FALSE(notes.take({3}));
  const Proposal out{{2}};
  notes.keep({&out, 1});
  CHECK(notes.size() == 1);
  notes.begin();
  CHECK(notes.size() == 1);
  notes.begin();  // asked again without a word of what is out
  CHECK(notes.size() == 0);
}

TEST_CASE("windows: answers in any order, heard in the order of proposal", "[search]") {
  Counting driver;
  Window window(driver, 3);
  REQUIRE(window.can_ask());
  CHECK(window.ask(3).size() == 3);
  CHECK(window.room() == 0);
  window.answer(2, {.objectives = {3}});
  CHECK_FALSE(window.answered(0));
  window.answer(0, {.objectives = {std::numeric_limits<double>::quiet_NaN()}});
  CHECK(window.hear(1)[0].result.reason == "an objective is not a finite number");
  CHECK(window.room() == 1);
  window.answer(0, {.objectives = {2}});
  CHECK(window.answered(1));  // what was third
  CHECK(window.hear(2).size() == 2);
  CHECK(driver.order == std::vector<double>{1, 2, 3});
}

}  // namespace
}  // namespace orrery::experiments::search::test_window
