// The experts system on one rank: closed forms of a step, what must vanish, faults.
#include <catch2/catch.hpp>
#include <cmath>

#include "experiments/experts/cache_trial.hpp"
#include "tests/experiments/experts_support.hpp"

namespace test_experts_system {

using namespace orrery;
using namespace orrery::experiments;
using namespace orrery::experiments::test;
using Catch::Contains;

TEST_CASE("experts: a step is dense parts, and of each layer the longer of GPU and host", "[theory]") {
  // No expert on the GPU and a batch of one: every layer waits for 8 experts of the host.
  const experts::Config c = parsed_experts({"policies.share=0"});
  const experts::Prices prices(c);
  const std::vector<std::int64_t> rows(8, 1);
  const double step_ps = static_cast<double>(prices.dense_ps() + 48 * prices.host_ps(rows));
  CHECK(number(run_experts({"policies.share=0"}), "step_s.total") == Approx(step_ps * 1e-12));
  // Gaps are added, one a layer that uses the host, one a step.
  CHECK(number(run_experts({"policies.share=0", "machine.host.layer_gap=10 us", "machine.step_gap=1 ms"}),
               "step_s.total") == Approx(step_ps * 1e-12 + 48 * 10e-6 + 1e-3));
  // Half as efficient: twice the host's time.
  const sim::Node slow = run_experts({"policies.share=0", "machine.host.efficiency=0.5"});
  CHECK(number(slow, "step_s.host_busy") == Approx(2 * 48e-12 * static_cast<double>(prices.host_ps(rows))));
  // All on the GPU: one launch of 8 experts a product.
  const double all_ps = static_cast<double>(prices.dense_ps() + 48 * prices.gpu_ps(rows));
  const sim::Node all = run_experts({"policies.share=1", "policies.cache.policy=static"});
  CHECK(number(all, "step_s.total") == Approx(all_ps * 1e-12));
  CHECK(number(all, "step_s.waited") == 0);
  CHECK(number(all, "cache.hit_rate") == 1);
}

TEST_CASE("experts: copies one after the other, the GPU behind them", "[theory]") {
  const std::vector<std::string> none{"policies.share=0", "policies.schedule.policy=fetch"};
  const experts::Config c = parsed_experts(none);
  const experts::Prices prices(c);
  // Eight copies, then the last expert's product: products of the others hide behind copies, which take longer.
  REQUIRE(prices.copy_ps() > prices.gpu_ps(std::int64_t{1}));
  const std::int64_t layer = 8 * prices.copy_ps() + prices.gpu_ps(std::int64_t{1});
  const sim::Node got = run_experts(none);
  CHECK(number(got, "step_s.total") == Approx(1e-12 * static_cast<double>(prices.dense_ps() + 48 * layer)));
  CHECK(number(got, "step_s.link_busy") == Approx(1e-12 * 48 * 8 * static_cast<double>(prices.copy_ps())));
  CHECK(number(got, "experts_a_step.fetched") == 48 * 8);
}

TEST_CASE("experts: hits are the cache's own, as `orrery experts cache` has them", "[unit]") {
  for (const char* cache : {"lru", "lfu", "mrs", "belady"}) {
    const std::vector<std::string> as{"policies.schedule.policy=fetch", std::string("policies.cache.policy=") + cache,
                                      "workload.router.generator.layers=48"};
    const experts::Config c = parsed_experts(as);
    const auto counts = play_trace(c.trace, c.sections.policies.cache, {.slots = 32, .look_up = LookUp::token});
    const sim::Node got = run_experts(as);
    CHECK(number(got, "cache.misses") == static_cast<double>(counts.misses));
    CHECK(number(got, "cache.requests") == static_cast<double>(counts.requests));
  }
}

TEST_CASE("experts: what is kept from the GPU is what hosts compute; nothing of it enters a cache", "[unit]") {
  const sim::Node got = run_experts({"policies.schedule.policy=host"});
  CHECK(number(got, "cache.hit_rate") == 0);  // lru, empty at first, and the host computes what misses
  CHECK(number(got, "experts_a_step.host") == 48 * 8);
}

TEST_CASE("experts: a schedule that may choose is not slower than one that may not", "[prop]") {
  for (const char* share : {"0", "0.25", "0.75"})
    for (const char* chunk : {"1", "16"}) {
      const auto total = [&](const char* schedule) {
        return number(
            run_experts({std::string("policies.share=") + share, std::string("workload.chunk=") + chunk,
                         "policies.cache.policy=static", std::string("policies.schedule.policy=") + schedule}),
            "step_s.total");
      };
      CAPTURE(share, chunk);
      // Within a tenth: it decides by prices of single experts, and a call of several is not their sum.
      CHECK(total("hybrimoe") <= 1.1 * std::min(total("host"), total("fetch")));
      CHECK(total("fiddler") <= 1.02 * std::max(total("host"), total("fetch")));
    }
}

TEST_CASE("experts: prefetch of what comes hides copies, of what does not it costs", "[prop]") {
  const std::vector<std::string> base{"policies.schedule.policy=fetch", "workload.router.generator.layers=48",
                                      "machine.override.memory=24 GiB"};
  const auto with = [&](const char* accuracy) {
    std::vector<std::string> as = base;
    as.push_back(std::string("policies.prefetch.accuracy=") + accuracy);
    return run_experts(as);
  };
  const sim::Node none = with("0"), good = with("1"), poor = with("0.05");
  CHECK(number(none, "prefetched.copies") == 0);
  CHECK(number(good, "prefetched.copies") > 0);
  CHECK(number(good, "prefetched.used") == number(good, "prefetched.copies"));  // all that was foretold came
  CHECK(number(good, "step_s.total") < number(none, "step_s.total"));
  CHECK(number(poor, "prefetched.used") < 0.5 * number(poor, "prefetched.copies"));
  CHECK(number(poor, "step_s.total") > number(good, "step_s.total"));
}

TEST_CASE("experts: one cache for all layers", "[unit]") {
  const auto hits = [](const char* cache, const char* spread, const std::vector<std::string>& more = {}) {
    std::vector<std::string> as{"policies.schedule.policy=fetch", std::string("policies.cache.policy=") + cache,
                                std::string("policies.spread=") + spread, "workload.router.generator.layers=48",
                                "machine.override.memory=48 GiB"};
    as.insert(as.end(), more.begin(), more.end());
    return number(run_experts(as), "cache.hit_rate");
  };
  // Layers come in turns: of equally many slots LRU keeps each layer's last ones, as caches of their own do, nearly.
  CHECK(hits("lru", "pooled") == Approx(hits("lru", "even")).margin(0.1));
  // Belady's rule may give slots to the layers that need them.
  CHECK(hits("belady", "pooled") >= hits("belady", "even"));
  CHECK(hits("belady", "pooled") > hits("lru", "pooled"));
  // Far-sighted and right, PLEC hits more than any cache that only keeps; near-sighted and wrong, less than LRU.
  const std::vector<std::string> far{"policies.prefetch.layers=480", "policies.prefetch.across=true"};
  std::vector<std::string> right = far, wrong = far;
  right.emplace_back("policies.prefetch.accuracy=1");
  wrong.emplace_back("policies.prefetch.accuracy=0.02");
  CHECK(hits("plec", "pooled", right) > hits("belady", "pooled"));
  CHECK(hits("plec", "pooled", wrong) < hits("lru", "pooled"));
  // Layers ahead of the same step only, or of the next one too.
  CHECK(hits("plec", "pooled", right) > hits("plec", "pooled", {"policies.prefetch.accuracy=1"}));
  CHECK_THAT(experts_fault(
                 {"policies.spread=pooled", "model.config=catalog:deepseek-v3", "workload.router.generator.tokens=64"}),
             Contains("nothing thrown"));
}

TEST_CASE("experts: what the host has no room for comes from the drive", "[theory]") {
  const std::vector<std::string> drive{"policies.share=0", "policies.schedule.policy=fetch",
                                       "machine.storage=nvme-gen4"};
  const auto with = [&](const std::vector<std::string>& more) {
    std::vector<std::string> as = drive;
    as.insert(as.end(), more.begin(), more.end());
    return run_experts(as);
  };
  // Nothing in the host's memory: eight reads one after the other, each copied while the next is read, then a product.
  const experts::Config c = parsed_experts(drive);
  const experts::Prices prices(c);
  REQUIRE(prices.whole().read_ps > prices.copy_ps());
  const std::int64_t layer = 8 * prices.whole().read_ps + prices.copy_ps() + prices.gpu_ps(std::int64_t{1});
  const sim::Node none = with({"policies.host_share=0"});
  CHECK(number(none, "step_s.total") == Approx(1e-12 * static_cast<double>(prices.dense_ps() + 48 * layer)));
  CHECK(number(none, "step_s.drive_busy") == Approx(1e-12 * 48 * 8 * static_cast<double>(prices.whole().read_ps)));
  CHECK(number(none, "experts_a_step.read") == 48 * 8);
  CHECK(number(none, "memory_bytes.host_experts") == 0);
  // The host computes once the last of its experts is there.
  const std::vector<std::int64_t> rows(8, 1);
  CHECK(number(with({"policies.host_share=0", "policies.schedule.policy=host"}), "step_s.total") ==
        Approx(1e-12 *
               static_cast<double>(prices.dense_ps() + 48 * (8 * prices.whole().read_ps + prices.host_ps(rows)))));
  // Room for all: each is read once, and once all are there it is the run without a drive.
  const sim::Node all = with({"workload.skip=63"});
  const sim::Node memory = run_experts({"policies.share=0", "policies.schedule.policy=fetch", "workload.skip=63"});
  CHECK(number(all, "experts_a_step.read") < 48 * 2);
  CHECK(number(all, "step_s.total") < 1.4 * number(memory, "step_s.total"));
  CHECK(number(all, "step_s.total") >= number(memory, "step_s.total"));
  // Half of it is between; more room is never more reads of LRU.
  const double half = number(with({"policies.host_share=0.5"}), "experts_a_step.read");
  CHECK(half < 48 * 8);
  CHECK(half > number(with({"policies.host_share=0.9"}), "experts_a_step.read"));
  // And LRU knows which request came when: it does not just evict the lowest number.
  CHECK(half != number(with({"policies.host_share=0.5", "policies.host_cache.policy=expression",
                             "policies.host_cache.expression.score=expert"}),
                       "experts_a_step.read"));
  // Copies ahead take only what is in the host's memory: no drive read is foretold.
  CHECK(number(with({"policies.host_share=0", "policies.prefetch.accuracy=1"}), "prefetched.copies") == 0);
  // A host too small for all is no obstacle any more.
  CHECK(text(run_experts({"machine.host.override.memory=1 GiB", "machine.storage=nvme-gen4"}), "status") == "ok");
  CHECK_THAT(text(with({"policies.host_share=0.5", "machine.host.override.memory=1 GiB"}), "reason"),
             Contains("the host has 2 GiB"));
  CHECK_THAT(experts_fault({"policies.host_share=0.5"}), Contains("expected machine.storage, which has the others"));
  CHECK_THAT(experts_fault({"machine.storage=nvme-gen4", "machine.host.part="}), Contains("for no host is named"));
  CHECK_THROWS_WITH(with({"policies.host_cache.policy=belady"}), Contains("it knows what comes"));
}

TEST_CASE("experts: energy is what is drawn idle, and what products and copies take", "[theory]") {
  const std::vector<std::string> none{"policies.share=0", "policies.schedule.policy=fetch"};
  const experts::Config c = parsed_experts(none);
  const experts::Prices prices(c);
  const sim::Node got = run_experts(none);
  // Eight copies and eight products a layer and step, 64 steps of 48 layers.
  const std::int64_t one = 1;
  const double layers = 64 * 48, seconds = number(got, "simulated_s");
  CHECK(number(got, "energy_j.copies") == Approx(layers * 8 * hw::transfer_energy(c.link, prices.whole().bytes)));
  CHECK(number(got, "energy_j.experts") == Approx(layers * 8 * prices.gpu(std::span(&one, 1)).energy_j));
  CHECK(number(got, "energy_j.host") == 0);
  // The GPU and both sockets.
  CHECK(number(got, "energy_j.idle") == Approx(seconds * (c.gpu->power.idle_w + 2 * c.host->power.idle_w)));
  double sum = 0;
  for (const char* part : {"idle", "dense", "experts", "host", "copies"})
    sum += number(got, std::string("energy_j.") + part);
  CHECK(number(got, "energy_j.total") == Approx(sum));
  CHECK(number(got, "energy_per_token_j") == Approx(sum / 64));
  CHECK(number(run_experts({"policies.share=0"}), "energy_j.copies") == 0);
  CHECK(number(run_experts({"policies.share=0"}), "energy_j.host") > 0);
}

TEST_CASE("experts: fewer active experts, batches, whole layers first", "[unit]") {
  CHECK(number(run_experts({"model.active=2", "policies.share=0"}), "experts_a_step.host") == 48 * 2);
  const sim::Node batch = run_experts({"workload.batch=4", "policies.share=0"});
  CHECK(number(batch, "steps") == 16);
  CHECK(number(batch, "experts_a_step.host") < 48 * 32);  // texts share experts
  CHECK(number(batch, "experts_a_step.host") > 48 * 8);
  const sim::Node front = run_experts({"policies.spread=front", "policies.cache.policy=static"});
  CHECK(number(front, "cache.hit_rate") == Approx(0.25));  // twelve layers of 48, whole
  CHECK(number(front, "cache.best_layer") == 1);
  CHECK(number(front, "cache.worst_layer") == 0);
  CHECK(layer_slots(3, 10, 0.5, SlotSpread::even) == std::vector<std::int64_t>{5, 5, 5});
  CHECK(layer_slots(3, 10, 0.5, SlotSpread::front) == std::vector<std::int64_t>{10, 5, 0});
  CHECK(layer_slots(4, 10, 0.05, SlotSpread::even) == std::vector<std::int64_t>{0, 1, 0, 1});
}

TEST_CASE("experts: what does not fit is infeasible, with the reason", "[unit]") {
  const sim::Node all = run_experts({"policies.share=1", "model.weight_format=bf16"});
  CHECK(text(all, "status") == "infeasible");
  CHECK_THAT(text(all, "reason"), Contains("a share of 1 of the experts needs 54 GiB"));
  CHECK(number(all, "memory_bytes.experts") == 48.0 * 128 * 3 * 2048 * 768 * 2);
  const sim::Node dense = run_experts({"machine.override.memory=1 GiB"});
  CHECK_THAT(text(dense, "reason"), Contains("weights without experts and keys need"));
  const sim::Node host = run_experts({"machine.host.override.memory=1 GiB"});
  CHECK_THAT(text(host, "reason"), Contains("the experts need 13.92 GiB, the host has 2 GiB"));
  // Without a share as many have slots as fit: 128 of 48 layers in 4 bits are 14 GiB.
  CHECK(number(run_experts({"policies.share=null"}), "share") == 1);
}

TEST_CASE("experts: faults of configs", "[unit]") {
  CHECK(experts_fault({"model.config=catalog:llama-3-8b"}) ==
        "--set:/model/config: expected a model with experts, llama-3-8b has none");
  CHECK(experts_fault({"model.active=9"}) ==
        "--set:/model/active: more activated experts than the router chose: 9 of 8");
  CHECK_THAT(
      experts_fault({"workload.router.generator.experts=64"}),
      Contains("a router trace of another model: expected 8 of 128 experts a token as qwen3-30b-a3b has, got 8 of 64"));
  CHECK_THAT(experts_fault({"workload.router.trace=x.csv"}), Contains("expected either a 'trace' or a 'generator'"));
  CHECK_THAT(experts_fault({"workload.batch=65"}), Contains("expected 65 tokens of router choices at least"));
  CHECK_THAT(experts_fault({"policies.spread=pooled", "workload.router.generator.tokens=700000",
                            "workload.router.generator.layers=1", "workload.router.generator.scores=none"}),
             Contains("expected at most 268435456 requests in one cache, got 700000 tokens of 8 experts in 48 layers"));
  CHECK_THAT(experts_fault({"machine.part=xeon-6454s"}), Contains("expected a GPU, got a part of kind cpu"));
  CHECK_THAT(experts_fault({"machine.host.part=rtx-4090"}), Contains("expected a CPU, got a part of kind gpu"));
  CHECK_THAT(experts_fault({"policies.share=-0.1"}), Contains("/policies/share: expected 0 to 1, got -0.1"));
  CHECK_THAT(experts_fault({"policies.cache.policy=lrv"}), Contains("did you mean 'lru'?"));
}

}  // namespace test_experts_system
