// Lanes of one scheduler under a policy that does what the test says: who decodes where, who makes room, who sees whom.
#include <fmt/format.h>

#include "tests/experiments/bench_cluster.hpp"
#include "tests/serving/replica_parts.hpp"

namespace test_lanes {

using namespace orrery;
using namespace orrery::experiments;
using namespace orrery::experiments::test;
using policies::BatchDecision;
using policies::BatchView;
using policies::Phase;
using policies::SeqId;

namespace {

using Decide = std::function<void(const BatchView&, BatchDecision&)>;
using Texts = std::vector<std::string>;

/// Decides as the test says; hears who went back to the queue by other ways.
class Says final : public policies::Batching {
 public:
  explicit Says(Decide decide) : decide_(std::move(decide)) {}
  void decide(const BatchView& view, BatchDecision& out) override { decide_(view, out); }
  void returned(SeqId id) override { back.push_back(id.index); }
  std::vector<std::uint32_t> back;

 private:
  Decide decide_;
};

/// Admits the first `count` that wait, with their whole prompts.
void admit(const BatchView& view, BatchDecision& out, std::int64_t count) {
  for (std::int64_t i = 0; i < std::min<std::int64_t>(count, std::ssize(view.waiting)); ++i) {
    const SeqId id = view.waiting[static_cast<std::size_t>(i)];
    out.admit.push_back({id, view[id].prefill_tokens});
    out.items.push_back({.seq = id, .new_tokens = view[id].prefill_tokens});
  }
}

std::string ids(const BatchView& view) {
  std::string text;
  for (const SeqId id : view.running) text += fmt::format("{} ", id.index);
  return text;
}

/// A layer takes `layer_ps` whatever the batch.
class EvenLayers final : public IterationModel {
 public:
  std::int64_t layer_ps = 0;
  void cost(const BatchShape& shape, IterationCost& out) override {
    for (const Segment& segment : shape.segments) out.time_ps += layer_ps * (segment.last - segment.first);
  }
};

/// A replica of three layers in as many stages, and of all in one stage in mode 1; so many lanes.
struct Lanes {
  explicit Lanes(std::int64_t lanes, Decide decide, bool modes = false, std::int64_t layer_ps = 0,
                 const HostTime* host = nullptr)
      : cluster(engine, metrics, &log, load) {
    model.layer_ps = layer_ps;
    MemberParts member;
    std::vector<std::vector<StageLayers>> stages{{{0, 1}, {1, 2}, {2, 3}}};
    if (modes) stages.push_back({{0, 3}});
    member.pipe = std::make_unique<StagePipe>(
        model, stages, [](std::int64_t, std::int32_t) { return 0; }, 1);
    member.one_scheduler = lanes;
    ReplicaParts& parts = member.lanes.emplace_back();
    parts.model = &model;
    auto policy = std::make_shared<Says>(std::move(decide));
    says = policy.get();
    parts.batching = std::move(policy);
    parts.host = host;
    parts.kv = kv;
    parts.limits = {.max_context = 500, .layers = 3, .batches = lanes, .modes = modes ? 2 : 0};
    cluster.add(std::move(member));
  }
  /// Requests of 4 prompt tokens at 0.
  void ask(int count, std::int64_t output = 100) {
    for (int i = 0; i < count; ++i) load.entries.push_back({0, 4, output, -1, {}});
  }
  void run(std::int64_t until) {
    cluster.start();
    engine.run(sim::Time{until});
  }

  sim::Engine engine;
  EvenLayers model;
  ServingMetrics metrics;
  Log log;
  ListLoad load;
  std::shared_ptr<PlainKv> kv = std::make_shared<PlainKv>(1000, 4);
  Says* says = nullptr;
  Cluster cluster;
};

}  // namespace

TEST_CASE("decodes of lanes between two batches are spread evenly, the latest admitted move", "[unit]") {
  // Batches take no time but the picosecond that every one takes: all lanes are between two batches at 1.
  const auto spread = [](const std::vector<std::int64_t>& admitted) {
    std::size_t call = 0;
    std::string text;
    Lanes lanes(std::ssize(admitted), [&](const BatchView& view, BatchDecision& out) {
      if (view.now.ticks == 0 && call < admitted.size()) admit(view, out, admitted[call++]);
      if (view.now.ticks == 1) text += "[" + ids(view) + "] ";
    });
    std::int64_t all = 0;
    for (const std::int64_t count : admitted) all += count;
    lanes.ask(static_cast<int>(all));
    lanes.run(1);
    return text;
  };
  CHECK(spread({5, 0, 0}) == "[0 1 ] [2 3 ] [4 ] ");
  CHECK(spread({4, 3, 0}) == "[0 1 2 ] [3 6 ] [4 5 ] ");
  CHECK(spread({1, 0, 0}) == "[0 ] ");  // nobody asks for lanes that have nothing
  CHECK(spread({2, 2, 2}) == "[0 1 ] [2 3 ] [4 5 ] ");
  CHECK(spread({1, 5}) == "[0 4 5 ] [1 2 3 ] ");
  CHECK(spread({3}) == "[0 1 2 ] ");
}

TEST_CASE("a lane sees how many run in others, and their tokens where there are modes", "[unit]") {
  for (const bool modes : {false, true}) {
    CAPTURE(modes);
    Texts seen;
    Lanes lanes(
        3,
        [&](const BatchView& view, BatchDecision& out) {
          seen.push_back(fmt::format("{}+{} {}", view.running.size(), view.elsewhere, view.elsewhere_tokens));
          if (view.now.ticks == 0) admit(view, out, std::ssize(seen));  // one, two, three
        },
        modes);
    lanes.ask(6);
    lanes.run(0);
    // Prompts of 4 count whole as soon as they are admitted.
    CHECK(seen == (modes ? Texts{"0+0 0", "0+1 4", "0+3 12"} : Texts{"0+0 0", "0+1 0", "0+3 0"}));
    const Replica& first = lanes.cluster.replica(0, 0);
    CHECK(first.sequences().running().size() == 1);
    CHECK(lanes.cluster.replica(0, 2).sequences().running().size() == 3);
  }
}

TEST_CASE("the latest admission of all lanes makes room, unless the policy chose otherwise", "[unit]") {
  // Sequences 0 and 1 in the first lane, 2 and 3 in the second.
  const auto room = [](const std::function<std::vector<policies::Preemption>(const BatchView&)>& victims) {
    std::int64_t calls = 0, asked = 0;
    std::string text;
    Lanes lanes(2, [&](const BatchView& view, BatchDecision& out) {
      if (view.now.ticks == 0 && calls++ < 2) return admit(view, out, 2);
      if (view.now.ticks != 1) return;
      text += ids(view) + "| ";
      if (asked++ == 0) out.preempt = victims(view);
    });
    lanes.ask(4);
    lanes.run(1);
    text += "back";
    for (const std::uint32_t id : lanes.says->back) text += fmt::format(" {}", id);
    return text + fmt::format(" waiting {}", lanes.cluster.replica(0).sequences().waiting().size());
  };
  using Victims = std::vector<policies::Preemption>;
  // Its latest: the second lane gives up 3 in its place, and the policy is asked again.
  CHECK(room([](const BatchView& view) { return Victims{{view.running[1]}}; }) == "0 1 | 0 1 | 2 | back 3 waiting 1");
  CHECK(room([](const BatchView& view) {
          return Victims{{view.running[1]}, {view.running[0]}};
        }) == "0 1 | 0 1 | 2 | back 3 waiting 1");
  // Not its latest, or only to pause it: the policy has its reasons.
  CHECK(room([](const BatchView& view) { return Victims{{view.running[0]}}; }) == "0 1 | 2 3 | back waiting 1");
  CHECK(room([](const BatchView& view) {
          return Victims{{.seq = view.running[1], .how = policies::Preempt::pause}};
        }) == "0 1 | 2 3 | back waiting 0");
}

TEST_CASE("who is latest in the last lane makes room itself", "[unit]") {
  std::int64_t calls = 0;
  std::string text;
  Lanes lanes(2, [&](const BatchView& view, BatchDecision& out) {
    if (view.now.ticks == 0 && calls++ < 2) return admit(view, out, 2);
    if (view.now.ticks != 1) return;
    text += ids(view) + "| ";
    if (view.running.front().index == 2) out.preempt = {{view.running.back()}};
  });
  lanes.ask(4);
  lanes.run(1);
  CHECK(text == "0 1 | 2 3 | ");
  CHECK(lanes.says->back.empty());
  CHECK(lanes.cluster.replica(0, 1).sequences().running().size() == 1);
}

TEST_CASE("a lane whose room would be made by one in flight waits for it", "[unit]") {
  // A layer takes 10: the first lane is through at 30, the second, which came behind it, at 40.
  std::int64_t calls = 0;
  Texts seen;
  Lanes lanes(
      2,
      [&](const BatchView& view, BatchDecision& out) {
        if (view.now.ticks == 0 && calls++ < 2) return admit(view, out, 2);
        seen.push_back(fmt::format("{}: {}", view.now.ticks, ids(view)));
        if (view.now.ticks == 30) out.preempt = {{view.running.back()}};
      },
      false, 10);
  lanes.ask(4);
  lanes.run(45);
  // Dropped at 30; asked again when the second has landed.
  CHECK(seen == Texts{"30: 0 1 ", "40: 0 1 ", "40: 2 3 "});
  CHECK(lanes.says->back.empty());
}

TEST_CASE("a mode is changed once nothing is in flight, with all sequences in the first lane", "[unit]") {
  std::int64_t calls = 0;
  Texts seen;
  Lanes lanes(
      3,
      [&](const BatchView& view, BatchDecision& out) {
        if (view.now.ticks == 0 && calls++ < 3) return admit(view, out, 2);
        seen.push_back(fmt::format("{}: {}in {}", view.now.ticks, ids(view), view.mode));
        if (view.now.ticks >= 30) out.mode = 1;
      },
      true, 10);
  lanes.ask(6);
  lanes.run(85);
  // At 30 the first lane wants another mode; the others land at 40 and 50 and begin nothing. Then all of it in one
  // stage, a batch of 30 at a time.
  CHECK(seen == Texts{"30: 0 1 in 0", "50: 0 1 2 3 4 5 in 0", "80: 0 1 2 3 4 5 in 1"});
  CHECK(lanes.cluster.replica(0, 0).switches() == 1);
  CHECK(lanes.cluster.replica(0, 1).sequences().running().empty());
}

TEST_CASE("lanes of a host that decides ahead let in who came before any of them began", "[unit]") {
  // A batch takes three stages of 10. The first request runs from 0 on, with a batch every 30. The second comes at 5,
  // when the batch of 0 was settled: it is let in by that of 30, and has its first token at 70, the third stage being
  // free of the other lane's batch at 60.
  const StagedHostTime ahead({}, {.ahead = true});
  Lanes lanes(
      2, [](const BatchView& view, BatchDecision& out) { admit(view, out, 9); }, false, 10, &ahead);
  lanes.load.entries = {{0, 4, 6, -1, {}}, {5, 4, 1, -1, {}}};
  lanes.run(1000);
  REQUIRE(lanes.log.requests.size() == 2);
  CHECK(lanes.log.requests[0].id == 1);
  CHECK(lanes.log.requests[0].admitted->ticks == 30);
  CHECK(lanes.log.requests[0].first_token->ticks == 70);
}

TEST_CASE("lanes that were given nothing although something waits or runs are a broken policy", "[unit]") {
  Lanes lanes(2, [](const BatchView& view, BatchDecision& out) {
    if (view.now.ticks == 0) return admit(view, out, 1);
    out.decode_rest = false;
  });
  lanes.ask(1);
  CHECK_THROWS_WITH(lanes.run(5), Catch::Contains("the batching policy broke its contract: "));
}

TEST_CASE("one scheduler: what its lanes have is summed, and the host is free again once all are cleared", "[unit]") {
  sim::Engine engine;
  Instants instants{engine};
  EvenLayers model;
  const StagePipe pipe(
      model, {{{0, 3}}}, [](std::int64_t, std::int32_t) { return 0; }, 1);
  LaneScheduler scheduler(engine, instants, pipe);
  CHECK(scheduler.host_until({100, 0}, 0, 1) == ExactTime{100, 0});
  CHECK(scheduler.host_until({100, 0}, 30, 1) == ExactTime{130, 0});
  CHECK(scheduler.host_until({110, 0}, 30, 1) == ExactTime{160, 0});
  CHECK(scheduler.host_until({170, 0}, 30, 1) == ExactTime{200, 0});
  CHECK(scheduler.host_until({150, 0}, 0, 1) == ExactTime{150, 0});
  scheduler.clear();
  CHECK(scheduler.host_until({10, 0}, 30, 1) == ExactTime{40, 0});
}

}  // namespace test_lanes
