// What a request would take alone, and what is before a replica: by hand, and as an expression names them.
#include <catch2/catch.hpp>

#include "policies/routing/request_times.hpp"
#include "sim/base/document.hpp"

namespace test_request_times {

using namespace orrery;
using namespace orrery::policies;

namespace {

/// So many seconds for every token.
struct PerToken final : BatchPricer {
  explicit PerToken(double s) : each(static_cast<std::int64_t>(s * 1e12)) {}
  std::int64_t time_ps(const BatchSketch& sketch) const override {
    ++calls;
    return each * (sketch.chunk_tokens + sketch.decodes);
  }
  std::int64_t each;
  mutable int calls = 0;
};

/// Two engines of a second a token, one of two, one that nobody prices.
struct Engines {
  PerToken fast{1}, slow{2};
  std::vector<ReplicaFacts> facts{4};
  Engines() {
    for (std::size_t i = 0; i < 4; ++i) facts[i].replica = static_cast<std::int32_t>(i);
    facts[0].pricer = facts[1].pricer = &fast;
    facts[2].pricer = &slow;
  }
  /// 10 tokens of prompt that are to give 6: 10 + 5 tokens are computed.
  RouteView view(std::int64_t id) {
    RouteView view{.replicas = facts};
    view.request.id = id;
    view.request.prefill_tokens = 10;
    view.request.predicted_tokens = 6;
    return view;
  }
};

}  // namespace

TEST_CASE("times of requests: alone, and before a replica until they leave", "[unit]") {
  Engines engines;
  RequestTimes times;
  const auto alone = times.alone_s(engines.view(1));
  CHECK(std::vector(alone.begin(), alone.end()) == std::vector{15.0, 15.0, 30.0, 0.0});
  CHECK(engines.fast.calls == 2);  // prompt and decodes, once for both of a group
  times.sent(engines.view(1), 2);
  (void)times.alone_s(engines.view(2));
  times.sent(engines.view(2), 2);
  CHECK(times.ahead_s(engines.facts[2]) == 60);
  CHECK(times.ahead_s(engines.facts[0]) == 0);
  times.left(1);
  times.left(1);  // again, or one that was never sent: nothing
  times.left(99);
  CHECK(times.ahead_s(engines.facts[2]) == 30);
}

TEST_CASE("an expression may name them", "[unit]") {
  RouterRegistry registry("routing");
  register_routers(registry);
  sim::Faults faults;
  const sim::Node node = sim::parse_json(R"x({"score": "ahead_s + alone_s + if(replica == 3, 1000, 0)"})x", "test");
  const auto router = registry.prepare("expression", &node, {}, faults).make(sim::RandomStream(1, "router"));
  Engines engines;
  std::vector<std::size_t> places;
  for (std::int64_t id = 0; id < 6; ++id) places.push_back(router->route(engines.view(id)));
  // Work ahead with the request: 15 15 30, then 30 15 30, 30 30 30 (the first), 45 30 30, 45 45 30, 45 45 60.
  CHECK(places == std::vector<std::size_t>{0, 1, 0, 1, 2, 0});
  router->left(1);  // of 1: 30 before it again
  CHECK(router->route(engines.view(6)) == 1);
}

TEST_CASE("shortest stay: time alone, stretched by who is there", "[unit]") {
  RouterRegistry registry("routing");
  register_routers(registry);
  sim::Faults faults;
  const auto router = registry.prepare("shortest_stay", nullptr, {}, faults).make(sim::RandomStream(1, "router"));
  Engines engines;
  engines.facts.pop_back();  // times alone: 15, 15, 30
  const auto route = [&](std::int64_t a, std::int64_t b, std::int64_t c) {
    engines.facts[0].requests = a;
    engines.facts[1].requests = b;
    engines.facts[2].requests = c;
    return router->route(engines.view(1));
  };
  CHECK(route(0, 0, 0) == 0);  // 16, 16, 31: the first of equals
  CHECK(route(1, 0, 0) == 1);  // 32, 16, 31
  CHECK(route(1, 1, 0) == 2);  // 32, 32, 31
  CHECK(route(2, 1, 1) == 1);  // 48, 32, 62
  engines.facts[0].weight = 4;
  CHECK(route(3, 1, 1) == 0);  // 16 x 1.75 = 28, 32, 62
}

}  // namespace test_request_times
