// INFaaS++'s dispatch, by hand.
#include <catch2/catch.hpp>

#include "policies/routing/routing.hpp"
#include "sim/base/document.hpp"

namespace test_infaas {

using namespace orrery;
using namespace orrery::policies;

TEST_CASE("infaas: the least share of memory in use and queued for, the first of equals", "[unit]") {
  RouterRegistry registry("routing");
  register_routers(registry);
  sim::Faults faults;
  const auto router = registry.prepare("infaas", nullptr, {}, faults).make(sim::RandomStream(1, "router"));
  CHECK(router->reads_live());
  CHECK(router->reads_reports());
  std::vector<ReplicaFacts> facts(3);
  RouteView view;
  view.replicas = facts;
  // 60 + 20 of 100, 30 + 40 of 100, 100 + 50 of 200.
  facts[0].load = {.total_blocks = 100, .used_blocks = 60, .waiting_blocks = 20};
  facts[1].load = {.total_blocks = 100, .used_blocks = 30, .waiting_blocks = 40};
  facts[2].load = {.total_blocks = 200, .used_blocks = 100, .waiting_blocks = 50};
  CHECK(router->route(view) == 1);
  facts[2].load.waiting_blocks = 30;  // 130 of 200
  CHECK(router->route(view) == 2);
  facts[0].load.used_blocks = 45;  // 65 of 100 too
  CHECK(router->route(view) == 0);
}

}  // namespace test_infaas
