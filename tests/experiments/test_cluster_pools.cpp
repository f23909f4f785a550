// Priorities, scaling by freeness, and pools of prefill and decode replicas that scale by themselves.
#include "tests/experiments/bench_cluster.hpp"
#include "tests/experiments/leaps.hpp"
#include "tests/systems.hpp"

namespace test_cluster_pools {

using namespace orrery;
using namespace orrery::experiments;
using namespace orrery::experiments::test;
using orrery::policies::test::make_batching;

namespace {

std::unique_ptr<policies::Scaling> make_scaling(const std::string& name, const std::string& params) {
  policies::ScalingRegistry registry("scaling");
  policies::register_scalings(registry);
  sim::Faults faults;
  const sim::Node node = sim::parse_json(params, "test");
  const auto choice = registry.prepare(name, &node, {}, faults);
  faults.throw_if_any();
  return choice.make();
}

std::string config(const std::string& cluster, const std::string& policies, int requests = 300) {
  return R"({"system": "serving", "machine": {"devices": [{"part": "a10g", "count": 6}]},
    "model": {"config": "catalog:llama-2-7b"}, "replica": {"memory_margin": 0.25},
    "workload": {"generator": {"requests": )" +
         std::to_string(requests) + R"(, "high_share": 0.2, "limits": {"total_max": 4000},
      "arrivals": {"policy": "gamma", "gamma": {"rate": "4 1/s", "cv": 3}},
      "lengths": {"policy": "rank_power", "rank_power": {"output_mean": 150, "cap": 1500}}}},
    "cluster": )" +
         cluster + R"(, "policies": )" + policies + "}";
}

constexpr const char* kRoles = R"("replicas": [{"count": 3, "role": "prefill"}, {"count": 3, "role": "decode"}])";

}  // namespace

TEST_CASE("a decode pool that scales to zero and comes back, by hand", "[unit]") {
  // Iterations of 1 s; transfers take no time to speak of. The decode replica is off at first: the request that comes
  // at 0 has its first token at 1 s, finds nobody, and goes on where it is, to the end at 4 s. Its asking starts the
  // decode replica: 10 GB at 5 GB/s, up at 3 s. The second, at 5 s, is prefilled at 6 and decoded there at 7, 8 and 9.
  ClusterPolicies policies;
  policies.decode_scaling = make_scaling("keep_alive", R"({"keep_alive": "6 s"})");
  BenchCluster bench(std::move(policies));
  const auto sarathi = [] { return make_batching("sarathi"); };
  bench.add(sarathi, 100, Role::prefill);
  bench.add(sarathi, 100, Role::decode);
  bench.load.entries.push_back({0, 10, 4});
  bench.load.entries.push_back({5 * kSecond, 10, 4});
  ClusterParams params;
  params.transfer = {.bandwidth = 1e12, .latency_s = 0, .fixed_s = 0};
  params.decode_scaling.least = 0;
  params.decode_scaling.interval_s = 2;
  params.decode_scaling.off_power = 0.5;
  params.decode_scaling.start.storage_bandwidth = 5e9;
  bench.run(params);
  REQUIRE(bench.log.requests.size() == 2);
  CHECK(bench.log.requests[0].replica == 0);
  CHECK(bench.log.requests[0].finished->ticks == 4 * kSecond);
  CHECK(bench.log.requests[1].replica == 1);
  CHECK(bench.seconds(*bench.log.requests[1].finished) == Approx(9).epsilon(1e-6));
  const ClusterTotals& totals = bench.cluster.totals();
  CHECK(totals.cold_starts == 1);
  CHECK(totals.parked == 0);
  CHECK(totals.transfers.count == 1);
  // The look of 10 s finds nothing left to do. Up from 1 s on; the other is always up.
  CHECK(bench.engine.now().ticks == 10 * kSecond);
  CHECK(totals.up_ticks == (9 + 10) * kSecond);
  // Only what may be switched off takes less while it is off.
  CHECK(bench.cluster.result(0).off_power == 0);
  CHECK(bench.cluster.result(0).off_ps == 0);
  CHECK(bench.cluster.result(1).off_power == 0.5);
  CHECK(bench.cluster.result(1).off_ps == kSecond);
  CHECK(bench.free_blocks() == bench.total_blocks);
}

TEST_CASE("pools that scale lose nothing, whatever fails", "[prop]") {
  for (const bool failures : {false, true}) {
    std::int64_t starts = 0, moved = 0;
    for (std::uint64_t seed = 1; seed <= 6; ++seed) {
      CAPTURE(seed, failures);
      ClusterPolicies policies{.router = make_router("jsq"), .decode_router = make_router("least_loaded")};
      policies.scaling = make_scaling("keep_alive", R"({"keep_alive": "2 s", "concurrency": 3})");
      policies.decode_scaling = seed % 2 == 0 ? make_scaling("llumnix", R"({"threshold": 4, "band": 8})")
                                              : make_scaling("target", R"({"target": 4, "stabilisation": "2 s"})");
      BenchCluster bench(std::move(policies));
      bench.model.cost_ps = [](const BatchShape& shape) {
        return kSecond / 20 + shape.segments[0].tokens * kSecond / 5000;
      };
      for (int i = 0; i < 6; ++i)
        bench.add([] { return make_batching("vllm_v0"); }, 120, i < 3 ? Role::prefill : Role::decode);
      sim::RandomStream random(seed, "pools");
      std::int64_t output = 0;
      for (int i = 0; i < 150; ++i) {
        const std::int64_t at =
            static_cast<std::int64_t>(random.below(80)) * kSecond + static_cast<std::int64_t>(random.below(999));
        bench.load.entries.push_back(
            {at, 1 + static_cast<std::int64_t>(random.below(500)), 1 + static_cast<std::int64_t>(random.below(120))});
        output += bench.load.entries.back().output;
      }
      ClusterParams params;
      params.transfer = {.bandwidth = 1e6, .latency_s = 0.01, .fixed_s = 0};
      if (failures) {
        params.failures.mtbf_s = 15;
        params.failures.mttr_s = 3;
      }
      params.scaling.least = 0;
      params.decode_scaling.least = seed % 3 == 0 ? 1 : 0;
      params.scaling.interval_s = 1;
      params.decode_scaling.interval_s = 1.5;
      bench.run(params);
      CHECK(bench.metrics.completed == 150);
      CHECK(bench.metrics.output_tokens == output);
      CHECK(bench.metrics.tbt.count() == output - 150);
      CHECK(bench.free_blocks() == bench.total_blocks);
      for (std::size_t i = 0; i < bench.cluster.size(); ++i) CHECK(bench.cluster.facts(i).requests == 0);
      starts += bench.cluster.totals().cold_starts;
      moved += bench.cluster.totals().transfers.count;
    }
    CHECK(starts > 20);
    CHECK(moved > 100);
  }
}

TEST_CASE("leaping and stepping agree with priorities, scaling by freeness and pools that scale", "[prop]") {
  const char* llumnix = R"({"batching": {"policy": "vllm_v0", "vllm_v0": {"priorities": true}},
    "routing": {"policy": "llumnix", "llumnix": {"formula": "artefact", "ideal_blocks": 100}},
    "migration": {"policy": "llumnix", "llumnix": {"threshold": 20, "freeness": {"formula": "artefact", "ideal_blocks": 100}}},
    "scaling": {"policy": "llumnix", "llumnix": {"freeness": {"formula": "artefact"}}}})";
  sim::Node summary =
      same_with_leaps(config(R"({"replicas": [{"count": 6}], "scaling": {"initial": 3, "interval": "1 s"}})", llumnix));
  conserved(summary);
  CHECK(summary.at("cluster.migrations.completed")->as_number() > 5);
  CHECK(summary.at("cluster.cold_starts.count")->as_number() > 1);
  const double high = summary.find("priorities")->find("1")->find("completed")->as_number();
  CHECK(high > 30);
  CHECK(high + summary.find("priorities")->find("0")->find("completed")->as_number() == 300);

  const char* pools = R"({"scaling": {"policy": "target", "target": {"target": 2, "stabilisation": "3 s"}},
    "decode_scaling": {"policy": "llumnix", "llumnix": {"threshold": 30}}})";
  for (const char* extra : {"", R"(, "failures": {"mtbf": "30 s", "mttr": "3 s"})"}) {
    CAPTURE(extra);
    summary = same_with_leaps(
        config(std::string("{") + kRoles +
                   R"(, "scaling": {"interval": "1 s"}, "decode_scaling": {"interval": "2 s", "off_power": 0.5})" +
                   extra + "}",
               pools));
    conserved(summary);
    CHECK(summary.at("cluster.cold_starts.count")->as_number() > 2);
  }
}

TEST_CASE("under load, priority in the queue gives high requests their first token sooner", "[prop]") {
  const auto ttft = [](bool priorities) {
    const std::string policies = std::string(R"({"batching": {"policy": "vllm_v0", "vllm_v0": {"priorities": )") +
                                 (priorities ? "true" : "false") + "}}}";
    const sim::Node summary =
        read_experiment(test_systems(), sim::parse_json(config(R"({"replicas": [{"count": 1}]})", policies), "t"))
            ->run({})
            .summary;
    return summary.find("priorities")->find("1")->at("ttft_s.mean")->as_number();
  };
  CHECK(ttft(true) < 0.5 * ttft(false));
}

TEST_CASE("pools that do not exist cannot scale", "[unit]") {
  const auto fault = [](const std::string& cluster, const std::string& policies) {
    try {
      read_experiment(test_systems(), sim::parse_json(config(cluster, policies), "t"));
    } catch (const sim::ConfigError& error) {
      return error.faults().front().text();
    }
    return std::string("none");
  };
  const char* decode = R"({"decode_scaling": {"policy": "target"}})";
  CHECK_THAT(fault(R"({"replicas": [{"count": 2}]})", decode), Catch::Contains("expected a group of role 'decode'"));
  CHECK_THAT(fault(std::string("{") + kRoles + R"(, "decode_scaling": {"least": 4}})", decode),
             Catch::Contains("/cluster/decode_scaling/least"));
  CHECK(fault(std::string("{") + kRoles + R"(, "decode_scaling": {"least": 3}})", decode) == "none");
}

}  // namespace test_cluster_pools
