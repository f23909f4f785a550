#include "policies/migration/migration.hpp"

#include <catch2/catch.hpp>

#include "policies/routing/routing.hpp"
#include "tests/policies/view.hpp"

namespace test_migration {

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
  CHECK(freeness(load, {}, RoomFor::running) == 8);                        // (100 - 60 - 8) / 4
  CHECK(freeness(load, {Freeness::artefact, {}}, RoomFor::running) == 4);  // (100 - 60 - 20) / (4 + 1)
  CHECK(freeness(load, {Freeness::artefact, {}}, RoomFor::normal) == Approx(20.0 / 7));
  load.high = 1;
  CHECK(freeness(load, {Freeness::paper, 60}, RoomFor::running) == -2);  // 40 blocks kept: (32 - 40) / 4
  load.terminating = true;
  CHECK(freeness(load, {}, RoomFor::running) < -1e300);
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

TEST_CASE("headroom keeps classes apart, by hand", "[unit]") {
  // 100 blocks, 20 of them ideal: 80 are kept.
  const FreenessParams paper{Freeness::paper, 20}, artefact{Freeness::artefact, 20};
  const LoadReport high{.total_blocks = 100, .used_blocks = 10, .running = 2, .high = 1};
  const LoadReport normal{.total_blocks = 100, .used_blocks = 30, .running = 2};
  for (const RoomFor who : {RoomFor::running, RoomFor::normal, RoomFor::high}) {
    CHECK(freeness(high, paper, who) == 5);  // (100 - 10 - 80) / 2, whoever asks
    CHECK(freeness(normal, paper, who) == 35);
  }
  // The artefact: a normal request finds 5 and 35, one of high priority 45 and -5; what runs counts as a normal one.
  CHECK(freeness(high, artefact, RoomFor::running) == 5);
  CHECK(freeness(high, artefact, RoomFor::normal) == 5);
  CHECK(freeness(normal, artefact, RoomFor::normal) == 35);
  CHECK(freeness(high, artefact, RoomFor::high) == 45);
  CHECK(freeness(normal, artefact, RoomFor::high) == -5);
  // One that waits is there for the artefact; the paper counts those that run.
  LoadReport queued = normal;
  queued.waiting = queued.high_waiting = 1;
  CHECK(freeness(queued, artefact, RoomFor::normal) == Approx((100 - 30 - 80) / 3.0));
  CHECK(freeness(queued, paper, RoomFor::normal) == 35);
}

TEST_CASE("llumnix names the latest arrival in decode of normal priority", "[unit]") {
  const auto policy = make("{}");
  test::PaperReplica replica(100);
  const SeqId first = replica.decode(16), moved = replica.decode(16), high = replica.decode(16);
  replica.prefill(32, 16);
  replica.sequences[first.index].arrived = sim::Time{20};
  replica.sequences[moved.index].arrived = sim::Time{10};  // came from elsewhere: last in order, but older
  replica.sequences[high.index].arrived = sim::Time{30};
  replica.sequences[high.index].priority = 1;
  CHECK(policy->victim(replica.view())->index == first.index);
  CHECK(make(R"({"keep_high": false})")->victim(replica.view())->index == high.index);
  // Of those who came at once the later in order, whoever was admitted last.
  replica.sequences[first.index].arrived = replica.sequences[moved.index].arrived;
  replica.admit_last(first);
  CHECK(policy->victim(replica.view())->index == moved.index);
}

TEST_CASE("a load report adds up a lane by hand", "[unit]") {
  test::PaperReplica replica(100);
  replica.decode(20, 5);  // 24 tokens: 2 blocks
  replica.wait(40);       // 3 blocks, and the head
  replica.wait(16);       // 1 block
  LoadReport report;
  add_running(replica.view(), report);
  add_queue(replica.view(), report);
  CHECK(report.total_blocks == 100);
  CHECK(report.used_blocks == 2);
  CHECK(report.running == 1);
  CHECK(report.waiting == 2);
  CHECK(report.head_blocks == 3);
  CHECK(report.waiting_blocks == 4);
  CHECK_FALSE(report.preempted);
}

TEST_CASE("routers by load: freeness counts requests, memory does not; ties go to the first", "[unit]") {
  RouterRegistry registry("routing");
  register_routers(registry);
  std::vector<ReplicaFacts> facts(3);
  const auto choose = [&](const std::string& name, const std::string& params) {
    sim::Faults faults;
    const sim::Node node = sim::parse_json(params, "test");
    const auto choice = registry.prepare(name, &node, {}, faults);
    faults.throw_if_any();
    return choice.make(sim::RandomStream(1, "router"))->route({.replicas = facts});
  };
  for (ReplicaFacts& fact : facts) fact.load = {.total_blocks = 100};
  CHECK(choose("infaas", "{}") == 0);
  CHECK(choose("llumnix", "{}") == 0);
  // Free and running: 60 of 10, 40 of 2, 90 but 60 queued for.
  facts[0].load = {.total_blocks = 100, .used_blocks = 40, .running = 10};
  facts[1].load = {.total_blocks = 100, .used_blocks = 60, .running = 2};
  facts[2].load = {
      .total_blocks = 100, .used_blocks = 10, .running = 1, .waiting = 20, .head_blocks = 3, .waiting_blocks = 60};
  CHECK(choose("infaas", "{}") == 0);                           // 0.4, 0.6, 0.7
  CHECK(choose("llumnix", R"({"formula": "paper"})") == 2);     // 6, 20, 87: of the queue its head alone counts
  CHECK(choose("llumnix", R"({"formula": "artefact"})") == 1);  // 6, 20, 30 / 21
  // A request of high priority goes where its like are, one of normal priority where none is.
  for (ReplicaFacts& fact : facts) fact.load = {.total_blocks = 100, .used_blocks = 20, .running = 4};
  facts[2].load.high = 1;
  const auto send = [&](std::int32_t priority) {
    sim::Faults faults;
    const sim::Node node = sim::parse_json(R"({"formula": "artefact", "ideal_blocks": 10})", "test");
    const auto choice = registry.prepare("llumnix", &node, {}, faults);
    RouteView view{.replicas = facts};
    view.request.priority = priority;
    return choice.make(sim::RandomStream(1, "router"))->route(view);
  };
  CHECK(send(1) == 2);
  CHECK(send(0) == 0);
  facts[0].load.terminating = true;
  CHECK(choose("llumnix", R"({"formula": "artefact"})") == 1);
}

}  // namespace test_migration
