// Orders of expert loads: who comes first, and levels of an expert always in turn.
#include <catch2/catch.hpp>

#include "policies/expert_order/expert_order.hpp"
#include "sim/base/random.hpp"

namespace test_expert_orders {

using namespace orrery;
using namespace orrery::policies;

namespace {

std::vector<std::size_t> order(const std::string& name, std::span<const ExpertLoad> loads) {
  ExpertOrderRegistry registry("expert_order");
  register_expert_orders(registry);
  sim::Faults faults;
  const auto made = registry.prepare(name, nullptr, {}, faults);
  faults.throw_if_any();
  return made.make()->order(loads);
}

using Order = std::vector<std::size_t>;

TEST_CASE("expert orders: hebf takes the lowest missing level with most tokens", "[unit]") {
  // Expert 3 has levels 0 (2 tokens) and 1 (9), expert 5 level 0 (4), expert 1 levels 1 (7) and 2 (1).
  const std::vector<ExpertLoad> loads{{3, 0, 2}, {3, 1, 9}, {5, 0, 4}, {1, 1, 7}, {1, 2, 1}};
  CHECK(order("by_expert", loads) == Order{0, 1, 2, 3, 4});
  CHECK(order("by_level", loads) == Order{0, 2, 1, 3, 4});
  // Heads 2, 4, 7: expert 1; then 2, 4, 1: expert 5; then 2, 1: expert 3, whose next level has 9; last expert 1's.
  CHECK(order("hebf", loads) == Order{3, 2, 0, 1, 4});
  CHECK(order("hebf", {}).empty());
}

TEST_CASE("expert orders: every load once, levels of an expert ascending", "[prop]") {
  sim::RandomStream random(1, "orders");
  for (int round = 0; round < 200; ++round) {
    std::vector<ExpertLoad> loads;
    for (std::uint16_t e = 0; e < 8; ++e)
      for (std::uint8_t level = 0; level < 4; ++level)
        if (random.bernoulli(0.6)) loads.push_back({e, level, static_cast<std::int64_t>(random.below(5))});
    for (const char* name : {"by_expert", "by_level", "hebf"}) {
      const Order got = order(name, loads);
      REQUIRE(got.size() == loads.size());
      std::vector<int> seen(loads.size(), 0), last(8, -1);
      for (const std::size_t i : got) {
        CHECK(++seen[i] == 1);
        CHECK(loads[i].level > last[loads[i].expert]);
        last[loads[i].expert] = loads[i].level;
      }
    }
  }
}

}  // namespace
}  // namespace test_expert_orders
