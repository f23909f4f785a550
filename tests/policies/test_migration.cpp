#include "policies/migration/migration.hpp"

#include <catch2/catch.hpp>

using namespace orrery;
using namespace orrery::policies;

namespace {

std::unique_ptr<Migration> make(const std::string& params) {
  MigrationRegistry registry("migration");
  register_migrations(registry);
  sim::Faults faults;
  const sim::Node node = sim::parse_json(params, "test");
  auto choice = registry.prepare("llumnix", &node, {}, faults);
  faults.throw_if_any();
  return choice.make();
}

}  // namespace

TEST_CASE("freeness: by hand, both formulas", "[unit]") {
  LoadReport load{
      .total_blocks = 100, .used_blocks = 60, .running = 4, .waiting = 3, .head_blocks = 8, .waiting_blocks = 20};
  CHECK(freeness(load, {}, false) == 8);                       // (100 - 60 - 8) / 4
  CHECK(freeness(load, {Freeness::artefact, 0}, false) == 4);  // (100 - 60 - 20) / (4 + 1)
  CHECK(freeness(load, {Freeness::artefact, 0}, true) == Approx(20.0 / 7));
  load.high = 1;
  CHECK(freeness(load, {Freeness::paper, 40}, false) == -2);  // 40 blocks kept: (32 - 40) / 4
  load.terminating = true;
  CHECK(freeness(load, {}, false) < -1e300);
}

TEST_CASE("llumnix pairs the worst source with the best destination", "[unit]") {
  const auto policy = make(R"({"threshold": 10})");
  std::vector<LoadReport> loads(5);
  for (LoadReport& load : loads) load = {.total_blocks = 100, .running = 1};
  loads[0].used_blocks = 95;  // 5: source
  loads[1].used_blocks = 50;  // 50
  loads[2].used_blocks = 99;  // 1: the worst
  loads[3].used_blocks = 10;  // 90: the best
  loads[4].used_blocks = 20;  // 80, but a preempted request waits: a source
  loads[4].preempted = true;
  const std::vector<MigrationPair> pairs = policy->pair(loads);
  REQUIRE(pairs.size() == 2);
  CHECK(pairs[0].source == 2);
  CHECK(pairs[0].destination == 3);
  CHECK(pairs[1].source == 0);
  CHECK(pairs[1].destination == 1);
}
