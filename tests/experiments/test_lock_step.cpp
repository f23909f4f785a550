// Lanes that step together: as long as the fullest, joined at the next step, and nothing lost.
#include "tests/experiments/bench_cluster.hpp"
#include "tests/experiments/leaps.hpp"

namespace test_lock_step {

using namespace orrery;
using namespace orrery::experiments;
using namespace orrery::experiments::test;
using orrery::policies::test::make_batching;

namespace {

/// One replica of `lanes` lanes; an iteration takes a second a new token.
struct Lanes : BenchCluster {
  Lanes(int lanes, bool lock_step, std::int64_t blocks = 1000) {
    model.cost_ps = [](const BatchShape& shape) { return shape.segments[0].tokens * kSecond; };
    MemberParts member;
    member.lock_step = lock_step;
    for (int i = 0; i < lanes; ++i) {
      ReplicaParts& parts = member.lanes.emplace_back();
      parts.model = &model;
      parts.batching = make_batching("sarathi");
      parts.kv = policies::test::paged_cache(blocks);
      parts.limits = {.max_context = 4096, .layers = 32};
    }
    total_blocks = blocks * lanes;
    cluster.add(std::move(member));
  }
};

}  // namespace

TEST_CASE("a step is as long as that of the fullest lane, by hand", "[unit]") {
  // Lane 0 gets the prompt of 5, lane 1 that of 2. Together: [0,5) for both, then decodes of one token, [5,6) and
  // one for the last tokens. The third comes at 5.5 s and goes to lane 0: its prompt of 3 joins the decode there at 6,
  // 4 tokens, [6,10), so the last tokens of all come at 10.
  Lanes together(2, true);
  together.load.entries = {{0, 5, 3, -1, {}}, {0, 2, 3, -1, {}}, {5 * kSecond + kSecond / 2, 3, 1, -1, {}}};
  together.run();
  REQUIRE(together.metrics.completed == 3);
  for (const RequestRecord& r : together.log.requests) {
    if (r.id < 2) CHECK(r.first_token->ticks == 5 * kSecond);
    CHECK(r.finished->ticks == 10 * kSecond);
  }
  // Own time: lane 0 5 + 1 + 4, lane 1 2 + 1 + 1.
  const ReplicaResult result = together.cluster.result(0);
  CHECK(result.occupied_ps == 10 * kSecond);
  CHECK(result.work_ps == (10 + 4) * kSecond);
  CHECK(together.free_blocks() == together.total_blocks);

  // Each by itself: lane 1 is done at 2 + 1 + 1 = 4 s.
  Lanes apart(2, false);
  apart.load.entries = {{0, 5, 3, -1, {}}, {0, 2, 3, -1, {}}};
  apart.run();
  CHECK(apart.log.requests[0].id == 1);
  CHECK(apart.log.requests[0].finished->ticks == 4 * kSecond);
}

TEST_CASE("an idle lane joins at the next step, not in the middle of one", "[unit]") {
  // The first runs alone in lane 0: [0,4) [4,5). The second comes at 1 s to lane 1 and starts at 4: [4,6).
  Lanes bench(2, true);
  bench.load.entries = {{0, 4, 2, -1, {}}, {kSecond, 2, 1, -1, {}}};
  bench.run();
  for (const RequestRecord& r : bench.log.requests) CHECK(r.finished->ticks == 6 * kSecond);
}

TEST_CASE("one lane in lock-step is a lane by itself", "[prop]") {
  std::vector<std::vector<std::int64_t>> finished;
  for (const bool lock_step : {false, true}) {
    Lanes bench(1, lock_step, 200);
    bench.model.cost_ps = [](const BatchShape& shape) { return 1000 + shape.segments[0].tokens * 7; };
    sim::RandomStream random(4, "alone");
    for (int i = 0; i < 200; ++i)
      bench.load.entries.push_back({static_cast<std::int64_t>(random.below(2'000'000)),
                                    1 + static_cast<std::int64_t>(random.below(400)),
                                    1 + static_cast<std::int64_t>(random.below(100)),
                                    -1,
                                    {}});
    bench.run();
    CHECK(bench.metrics.completed == 200);
    std::vector<std::int64_t>& times = finished.emplace_back();
    for (const RequestRecord& r : bench.log.requests) times.push_back(r.finished->ticks);
  }
  CHECK(finished[0] == finished[1]);
}

TEST_CASE("lock-step loses nothing, nor when the replica fails", "[prop]") {
  for (std::uint64_t seed = 1; seed <= 8; ++seed) {
    CAPTURE(seed);
    Lanes bench(4, true, 80);
    bench.model.cost_ps = [](const BatchShape& shape) {
      return kSecond / 20 + shape.segments[0].tokens * kSecond / 5000;
    };
    sim::RandomStream random(seed, "lanes");
    std::int64_t output = 0;
    for (int i = 0; i < 150; ++i) {
      bench.load.entries.push_back({static_cast<std::int64_t>(random.below(40)) * kSecond,
                                    1 + static_cast<std::int64_t>(random.below(600)),
                                    1 + static_cast<std::int64_t>(random.below(150)),
                                    -1,
                                    {}});
      output += bench.load.entries.back().output;
    }
    ClusterParams params;
    if (seed % 2 == 0) params.failures = {.mtbf_s = 20, .mttr_s = 2, .at = {}};
    bench.run(params);
    CHECK(bench.metrics.completed == 150);
    CHECK(bench.metrics.output_tokens == output);
    CHECK(bench.metrics.tbt.count() == output - 150);
    CHECK(bench.free_blocks() == bench.total_blocks);
    const ReplicaResult result = bench.cluster.result(0);
    CHECK(result.work_ps <= 4 * result.occupied_ps);
    if (seed % 2 == 0) CHECK(bench.cluster.totals().failures > 0);
  }
}

TEST_CASE("experts over lanes: lock-step waits for the fullest lane, and writes the same leaping or not", "[prop]") {
  const auto config = [](const char* lock_step, const char* lengths) {
    return std::string(R"({"system": "serving", "machine": {"devices": [{"part": "h100-sxm5-80gb", "count": 4}]},
      "model": {"config": "catalog:qwen3-30b-a3b", "dtype": "bf16"}, "replica": {"max_context": 8192},
      "workload": {"generator": {"requests": 120, "limits": {"total_max": 8000}, "arrivals": {"policy": "poisson", "poisson": {"rate": "8 1/s"}},
        "lengths": )") +
           lengths + R"(}},
      "cluster": {"replicas": [{"tensor_parallel": 1, "data_parallel": 4, "expert_parallel": 4, "lock_step": )" +
           lock_step + "}]}}";
  };
  const char* uneven = R"({"policy": "log_normal", "log_normal": {"prompt_cv": 3}})";
  const sim::Node together = same_with_leaps(config("true", uneven));
  conserved(together);
  const sim::Node apart = same_with_leaps(config("false", uneven));
  conserved(apart);
  CHECK(together.at("tpot_s.mean")->as_number() > apart.at("tpot_s.mean")->as_number());
  const sim::Node& replica = together.find("replicas")->items()[0];
  CHECK(replica.find("lock_step_wait")->as_number() > 0);
  CHECK(replica.find("lock_step_wait")->as_number() < 1);
  CHECK(apart.find("replicas")->items()[0].find("lock_step_wait") == nullptr);
}

}  // namespace test_lock_step
