// What a policy looks at: entries that it must read, entries that it cannot.
#include <catch2/catch.hpp>

#include "experiments/rl/looks.hpp"
#include "tests/rl/train_support.hpp"

namespace test_looks {

using namespace orrery;
using namespace orrery::experiments::rl;

namespace {

/// Chooses 1 where the first entry of the second choice is above that of the first; never looks at anything else.
class Greater final : public Learner {
 public:
  void act(const View& view, Act, std::span<double> actions) override {
    const std::size_t width = view.observations.size() / view.n;
    for (std::size_t i = 0; i < view.n; ++i)
      actions[i] = view.observations[i * width + 2] > view.observations[i * width] ? 1 : 0;
  }
  void learn(const Experience&) override {}
  void state(Archive&) override {}
};

}  // namespace

TEST_CASE("an entry that decides changes decisions where it is another step's, others change none", "[unit]") {
  EnvSpec spec;
  spec.agents.push_back({.name = "a", .action = ActionSpace::discrete(2), .per_choice = 2});
  for (const char* name : {"work_0", "noise_0", "work_1", "noise_1", "size"})
    spec.agents[0].observation.push_back({name, 0, 1});
  StepLog log(spec);
  sim::RandomStream random(1, "test");
  constexpr std::size_t n = 4000;
  std::vector<double> seen, done, rewards(n, 0.0);
  const std::vector<std::uint8_t> flags(n, 0);
  for (std::size_t i = 0; i < n; ++i) {
    for (int k = 0; k < 5; ++k) seen.push_back(random.uniform());
    // Whoever took the steps did the same in three of four.
    const bool greater = seen[i * 5 + 2] > seen[i * 5];
    done.push_back(greater != (i % 4 == 0) ? 1 : 0);
  }
  log.add({{n, seen, {}, {}}, done, rewards, flags, flags, {n, seen, {}, {}}}, n);
  Greater policy;
  const Looks looks = what_it_looks_at(policy, log, 1);
  CHECK(looks.agrees == Approx(0.75));
  REQUIRE(looks.looks.size() == 3);
  CHECK(looks.looks[0].entry == "work of each");
  // Both numbers are others: one of two decisions is another one.
  CHECK(looks.looks[0].changed == Approx(0.5).margin(0.03));
  CHECK(looks.looks[1].entry == "noise of each");
  CHECK(looks.looks[1].changed == 0);
  CHECK(looks.looks[2].entry == "size");
  CHECK(looks.looks[2].changed == 0);
}

}  // namespace test_looks
