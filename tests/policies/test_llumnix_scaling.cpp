#include <catch2/catch.hpp>

#include "policies/scaling/scaling.hpp"

namespace test_llumnix_scaling {

using namespace orrery;
using namespace orrery::policies;

namespace {

std::unique_ptr<Scaling> make(const std::string& params) {
  ScalingRegistry registry("scaling");
  register_scalings(registry);
  sim::Faults faults;
  const sim::Node node = sim::parse_json(params, "test");
  auto choice = registry.prepare("llumnix", &node, {}, faults);
  faults.throw_if_any();
  return choice.make();
}

}  // namespace

TEST_CASE("llumnix scales by mean freeness, by hand", "[unit]") {
  const auto policy = make(R"({"threshold": 10, "band": 50, "freeness": {"formula": "artefact"}})");
  CHECK(policy->reads_reports());
  std::vector<ReplicaFacts> facts(2);
  ScalingView view;
  view.replicas = facts;
  view.most = 16;
  // 200 blocks, 100 used, 5 requests: 20, between 10 and 60.
  facts[0].load = {.total_blocks = 100, .used_blocks = 60, .running = 3};
  facts[1].load = {.total_blocks = 100, .used_blocks = 40, .running = 2};
  CHECK(policy->wanted(view) == 2);
  // 190 used, 30 requests run: 10 / 30. To have 10 again: 300 = 10 + 100 n, n = 2.9.
  facts[0].load = {.total_blocks = 100, .used_blocks = 95, .running = 15};
  facts[1].load = {.total_blocks = 100, .used_blocks = 95, .running = 15};
  CHECK(policy->wanted(view) == 5);
  view.starting = 3;  // these are on their way: 310 / 30
  CHECK(policy->wanted(view) == 5);
  view.starting = 2;  // 210 / 30
  CHECK(policy->wanted(view) == 5);
  view.starting = 0;
  // What waits counts: 50 blocks of the queue, a request more each (the artefact): 200 - 100 - 100 = 0 of 7.
  facts[0].load = {.total_blocks = 100, .used_blocks = 60, .running = 3, .waiting = 4, .waiting_blocks = 50};
  facts[1].load = {.total_blocks = 100, .used_blocks = 40, .running = 2, .waiting = 1, .waiting_blocks = 50};
  CHECK(policy->wanted(view) == 3);  // 70 blocks are wanted
  // 180 of 200 are free for 2 requests: 90, more than 60: one goes. At 60 none does.
  facts[0].load = {.total_blocks = 100, .used_blocks = 10, .running = 1};
  facts[1].load = facts[0].load;
  CHECK(policy->wanted(view) == 1);
  facts[0].load.used_blocks = facts[1].load.used_blocks = 40;
  CHECK(policy->wanted(view) == 2);
  facts[0].load = facts[1].load = {.total_blocks = 100};  // nobody is there
  CHECK(policy->wanted(view) == 1);
  ScalingView nobody;
  nobody.most = 4;
  CHECK(policy->wanted(nobody) == 0);
  nobody.parked = 3;
  CHECK(policy->wanted(nobody) == 1);
  nobody.starting = 1;
  CHECK(policy->wanted(nobody) == 1);
}

}  // namespace test_llumnix_scaling
