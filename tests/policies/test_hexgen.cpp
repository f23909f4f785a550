// Hexgen-Flow's dispatch, by hand.
#include <catch2/catch.hpp>

#include "policies/routing/routing.hpp"
#include "sim/base/document.hpp"

namespace test_hexgen {

using namespace orrery;
using namespace orrery::policies;

namespace {

/// So many ps for every token.
struct PerToken final : BatchPricer {
  explicit PerToken(std::int64_t ps) : each(ps) {}
  std::int64_t time_ps(const BatchSketch& sketch) const override {
    return each * (sketch.chunk_tokens + sketch.decodes);
  }
  std::int64_t each;
};

std::unique_ptr<Router> make_hexgen(const std::string& params) {
  RouterRegistry registry("routing");
  register_routers(registry);
  sim::Faults faults;
  const sim::Node node = sim::parse_json(params, "test");
  const auto choice = registry.prepare("hexgen", &node, {}, faults);
  faults.throw_if_any();
  return choice.make(sim::RandomStream(1, "router"));
}

/// A fast engine and one at half its speed.
struct Engines {
  PerToken fast{10}, slow{20};
  std::vector<ReplicaFacts> facts{2};
  std::int64_t next = 0;

  Engines() {
    facts[1].replica = 1;
    facts[0].pricer = &fast;
    facts[1].pricer = &slow;
  }
  /// A request of 100 tokens that is to give 11: 110 tokens are computed, 1,100 ps here and 2,200 there.
  std::size_t route(Router& router) {
    RouteView view;
    view.replicas = facts;
    view.request.id = next++;
    view.request.prefill_tokens = 100;
    view.request.predicted_tokens = 11;
    return router.route(view);
  }
  std::vector<std::size_t> route(Router& router, int count) {
    std::vector<std::size_t> places;
    for (int i = 0; i < count; ++i) places.push_back(route(router));
    return places;
  }
};
using Places = std::vector<std::size_t>;

}  // namespace

TEST_CASE("hexgen: speed against work given so far", "[unit]") {
  // alpha 0.5: the base scores 0.5 - 0.5 = 0 always, the slow one 0.25 - W / W_base / 2: 0.25 at first; then W is 2,200
  // and it is chosen again when W_base is above 4,400, after four more for the base.
  Engines engines;
  CHECK(engines.route(*make_hexgen(R"({"alpha": 0.5})"), 7) == Places{0, 1, 0, 0, 0, 0, 1});
  // alpha 0: equal work, so two of three to the fast one; ties to the first.
  CHECK(engines.route(*make_hexgen(R"({"alpha": 0})"), 8) == Places{0, 1, 0, 0, 1, 0, 0, 1});
  // alpha 1: the fastest, whatever its load.
  CHECK(engines.route(*make_hexgen(R"({"alpha": 1})"), 4) == Places{0, 0, 0, 0});
}

TEST_CASE("hexgen: work that has left counts no longer, if so wanted", "[unit]") {
  Engines engines;
  const auto router = make_hexgen(R"({"alpha": 0.5, "outstanding": true})");
  CHECK(engines.route(*router, 2) == Places{0, 1});
  router->left(0);  // nothing is left at the base: it is next
  router->left(0);  // once only
  CHECK(engines.route(*router) == 0);
  router->left(77);  // of another router
  router->left(1);   // nothing is left at the slow one: 0.25 against 0
  CHECK(engines.route(*router) == 1);
  const auto forever = make_hexgen(R"({"alpha": 0.5})");
  engines.next = 0;
  CHECK(engines.route(*forever, 2) == Places{0, 1});
  forever->left(1);
  CHECK(engines.route(*forever) == 0);
}

TEST_CASE("hexgen: weights, the base, and engines that are away", "[unit]") {
  Engines engines;
  // Work of a replica of weight 4 counts a quarter: with alpha 0 it gets four times the work, two requests to one.
  engines.facts[1].weight = 4;
  CHECK(engines.route(*make_hexgen(R"({"alpha": 0})"), 6) == Places{0, 1, 1, 0, 1, 1});
  engines.facts[1].weight = 1;
  const auto router = make_hexgen(R"({"base": 1})");
  CHECK(engines.route(*router) == 1);
  engines.facts.erase(engines.facts.begin() + 1);
  CHECK(engines.route(*router) == 0);
}

TEST_CASE("hexgen: the least work at the base counts", "[unit]") {
  // A base of weight 10,000 has 1,100 / 10,000 = 0.11 after its first request: not nothing, so with alpha 0 the other
  // engine, which has none, is next. Then it has 2,200 / 1 = 20,000 times as much.
  Engines engines;
  engines.facts[0].weight = 10'000;
  CHECK(engines.route(*make_hexgen(R"({"alpha": 0})"), 4) == Places{0, 1, 0, 0});
}

TEST_CASE("hexgen: what comes with a request is no work", "[unit]") {
  // Alpha 0. 1,100 ps go to the base; then of 100 tokens 90 come along, and 10 and 10 more take the slow engine 400 ps.
  Engines engines;
  const auto router = make_hexgen(R"({"alpha": 0})");
  CHECK(engines.route(*router) == 0);
  Places places;
  for (int i = 0; i < 4; ++i) {
    RouteView view;
    view.replicas = engines.facts;
    view.request.prefill_tokens = 100;
    view.request.ready_tokens = 90;
    view.request.predicted_tokens = 11;
    places.push_back(router->route(view));
  }
  CHECK(places == Places{1, 1, 1, 0});
}

TEST_CASE("hexgen: engines that take no time at all are alike", "[unit]") {
  Engines engines;
  engines.fast.each = engines.slow.each = 0;
  CHECK(engines.route(*make_hexgen(R"({"alpha": 0})"), 4) == Places{0, 1, 0, 1});
}

TEST_CASE("hexgen: of several engines the highest score, the first of equals, by lasting numbers", "[unit]") {
  // Engines 5, 2 and 9, the last the base; alpha 0.9. With work at the base alone the fast one scores 0.9 x 2 = 1.8.
  Engines engines;
  engines.facts.push_back(engines.facts[0]);
  engines.facts[0].replica = 5;
  engines.facts[1].replica = 2;
  engines.facts[2].replica = 9;
  engines.facts[2].pricer = &engines.slow;
  const auto router = make_hexgen(R"({"alpha": 0.9, "base": 9})");
  // Then 1,100 at the fast one: 1.8 - 0.1 x 0.5 against 0.9 for the other slow one.
  CHECK(engines.route(*router, 3) == Places{2, 0, 0});
  // Alpha 0: whoever has no work, the first of them.
  CHECK(engines.route(*make_hexgen(R"({"alpha": 0, "base": 9})"), 4) == Places{2, 0, 1, 0});
}

TEST_CASE("hexgen: one that only advises keeps account of where requests really went", "[unit]") {
  // Two of one kind: `led` sends by itself; `told` is asked and told of the same places, though its answer may differ.
  Engines engines;
  const auto led = make_hexgen(R"({"alpha": 0.5, "outstanding": true})"),
             told = make_hexgen(R"({"alpha": 0.5, "outstanding": true})"),
             other = make_hexgen(R"({"alpha": 0, "outstanding": true})");
  for (int i = 0; i < 20; ++i) {
    RouteView view;
    view.replicas = engines.facts;
    view.request.id = i;
    view.request.prefill_tokens = 100 + 37 * (i % 5);
    view.request.predicted_tokens = 11;
    const std::size_t place = led->route(view);
    CHECK(told->route(view) == place);
    // What another rule would do changes nothing for who is told of the place.
    if (other->route(view) != place) other->sent_elsewhere(view, place);
    const std::size_t away = 1 - place;
    told->sent_elsewhere(view, away);
    led->sent_elsewhere(view, away);
    if (i % 3 == 0) {
      led->left(i - 1);
      told->left(i - 1);
    }
  }
  // All went where the rule would not send them: a rule that knows sends the next one to the other side at once.
  const auto fresh = make_hexgen(R"({"alpha": 0})");
  RouteView view;
  view.replicas = engines.facts;
  view.request.prefill_tokens = 100;
  view.request.predicted_tokens = 11;
  const std::size_t first = fresh->route(view);
  fresh->sent_elsewhere(view, 1 - first);
  view.request.id = 1;
  CHECK(fresh->route(view) == first);
}

}  // namespace test_hexgen
