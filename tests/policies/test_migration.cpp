#include "policies/migration/migration.hpp"

#include <catch2/catch.hpp>

#include "policies/routing/routing.hpp"
#include "tests/policies/registry_support.hpp"
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

TEST_CASE("llumnix: a replica at the threshold neither gives nor takes, nor does one without requests give", "[unit]") {
  const auto policy = make(R"({"threshold": 10})");
  const auto pairs = [&](std::int64_t first, std::int64_t second, std::int64_t running = 1) {
    std::vector<LoadReport> loads(2);
    loads[0] = {.total_blocks = 100, .used_blocks = 100 - first, .running = running};
    loads[1] = {.total_blocks = 100, .used_blocks = 100 - second, .running = 1};
    return policy->pair(loads).size();
  };
  CHECK(pairs(9, 11) == 1);
  CHECK(pairs(10, 11) == 0);
  CHECK(pairs(9, 10) == 0);
  CHECK(pairs(9, 11, 0) == 0);
  CHECK(pairs(11, 90) == 0);
}

TEST_CASE("llumnix: as many pairs as there are of the fewer, equals by number", "[unit]") {
  const auto policy = make(R"({"threshold": 10})");
  std::vector<LoadReport> loads(5);
  for (LoadReport& load : loads) load = {.total_blocks = 100, .used_blocks = 95, .running = 1};
  loads[1].used_blocks = loads[3].used_blocks = 20;
  const auto pairs = policy->pair(loads);
  REQUIRE(pairs.size() == 2);
  CHECK((pairs[0].source == 0 && pairs[0].destination == 1));
  CHECK((pairs[1].source == 2 && pairs[1].destination == 3));
  // One on which a preempted request waits gives although it has room, and takes nothing.
  loads[3].preempted = true;
  for (const std::size_t i : {0U, 2U, 4U}) loads[i].used_blocks = 85;
  const auto again = policy->pair(loads);
  REQUIRE(again.size() == 1);
  CHECK((again[0].source == 3 && again[0].destination == 1));
}

TEST_CASE("llumnix names nobody where only prompts, or requests of high priority, run", "[unit]") {
  test::PaperReplica replica(100);
  CHECK_FALSE(make("{}")->victim(replica.view()));
  replica.prefill(32, 16);
  replica.sequences[replica.decode(16).index].priority = 1;
  CHECK_FALSE(make("{}")->victim(replica.view()));
  CHECK(make(R"({"keep_high": false})")->victim(replica.view())->index == 1);
  replica.pause({1});
  CHECK_FALSE(make(R"({"keep_high": false})")->victim(replica.view()));
}

TEST_CASE("a policy without migration is never to be asked", "[unit]") {
  const auto none = test::made(register_migrations, "none", "{}");
  CHECK_FALSE(none->active());
  CHECK(make("{}")->active());
  const std::vector<LoadReport> loads{{.total_blocks = 100, .used_blocks = 99, .running = 9}, {.total_blocks = 100}};
  CHECK(none->pair(loads).empty());
  test::PaperReplica replica(10);
  replica.decode(16);
  CHECK_FALSE(none->victim(replica.view()));
}

TEST_CASE("a load report counts high priorities, preempted requests and the lanes that it is given", "[unit]") {
  test::PaperReplica replica(100);
  replica.decode(20);
  const SeqId high = replica.decode(20);
  replica.sequences[high.index].priority = 2;
  replica.wait(16);
  const SeqId waits = replica.wait(40);
  replica.sequences[waits.index].priority = 1;
  replica.sequences[waits.index].preemptions = 1;
  replica.sequences[replica.wait(16).index].priority = -1;
  LoadReport report;
  for (int lane = 0; lane < 2; ++lane) add_running(replica.view(), report);
  CHECK(report.running == 4);
  CHECK(report.high == 2);
  add_queue(replica.view(), report);
  CHECK(report.used_blocks == 4);
  CHECK(report.waiting == 3);
  CHECK(report.head_blocks == 1);
  CHECK(report.waiting_blocks == 5);  // 1 + 3 + 1
  CHECK(report.high_waiting == 1);
  CHECK(report.preempted);
  add_queue(replica.view(), report);  // lanes with a cache each
  CHECK(report.total_blocks == 200);
  CHECK(report.used_blocks == 8);
  CHECK(report.waiting_blocks == 10);
  CHECK(report.head_blocks == 2);
  CHECK(report.preempted);
}

TEST_CASE("freeness where nobody runs, and headroom of a replica smaller than what is ideal", "[unit]") {
  LoadReport load{.total_blocks = 100, .used_blocks = 40};
  CHECK(freeness(load, {}, RoomFor::running) == 60);  // as for one request
  CHECK(freeness(load, {Freeness::artefact, {}}, RoomFor::running) > 1e300);
  load.waiting = 1;
  load.waiting_blocks = load.head_blocks = 10;
  CHECK(freeness(load, {Freeness::artefact, {}}, RoomFor::running) == 50);
  load.high = 1;
  load.running = 2;
  CHECK(freeness(load, {Freeness::paper, 100}, RoomFor::normal) == 25);  // (60 - 10) / 2: nothing is kept
  CHECK(freeness(load, {Freeness::paper, 200}, RoomFor::normal) == 25);
  CHECK(freeness(load, {Freeness::paper, 98}, RoomFor::normal) == 24);
  // The paper knows those of high priority that run alone.
  load.high = 0;
  load.high_waiting = 1;
  CHECK(freeness(load, {Freeness::paper, 98}, RoomFor::normal) == 25);
  CHECK(freeness(load, {Freeness::artefact, 98}, RoomFor::normal) == 16);  // (60 - 10 - 2) / (2 + 1)
}

}  // namespace test_migration
