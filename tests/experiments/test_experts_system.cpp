// The experts system and `orrery experts`: closed forms of a step, what must vanish, the command's faults, the rows of
// measured tables.
#include <catch2/catch.hpp>
#include <cmath>

#include "experiments/answers/expert_questions.hpp"
#include "experiments/answers/fits.hpp"
#include "experiments/answers/router_questions.hpp"
#include "experiments/base/experiment.hpp"
#include "experiments/systems/experts/run.hpp"
#include "tests/experiments/support.hpp"
#include "tests/measured.hpp"
#include "tests/systems.hpp"

namespace test_experts_system {

using namespace orrery;
using namespace orrery::experiments;
using namespace orrery::experiments::test;
using Catch::Contains;

namespace {

/// Qwen3-30B-A3B in 4 bits on an RTX 4090 with a host.
const char* const kConfig = R"({"system": "experts",
  "machine": {"part": "rtx-4090", "host": {"part": "xeon-6454s", "sockets": 2}, "link": "pcie4-x16"},
  "model": {"config": "catalog:qwen3-30b-a3b", "weight_format": "int4"},
  "workload": {"router": {"generator": {"tokens": 64, "layers": 4, "scores": "informed"}}},
  "policies": {"share": 0.25}})";

sim::Node config(const std::vector<std::string>& assignments = {}) {
  sim::Node root = sim::parse_json(kConfig, "c.json");
  for (const std::string& assignment : assignments) sim::assign(root, assignment);
  return root;
}

sim::Node run(const std::vector<std::string>& assignments = {}) {
  return read_experiment(test_systems(), config(assignments))->run({}).summary;
}

double number(const sim::Node& node, std::string_view path) {
  const sim::Node* value = node.at(path);
  REQUIRE(value != nullptr);
  return value->as_number();
}

std::string text(const sim::Node& node, std::string_view name) {
  const sim::Node* value = node.find(name);
  REQUIRE(value != nullptr);
  return value->as_string();
}

std::string fault(const std::vector<std::string>& assignments) {
  try {
    (void)read_experiment(test_systems(), config(assignments));
  } catch (const sim::ConfigError& error) {
    return error.what();
  }
  return "nothing thrown";
}

experts::Config parsed(const std::vector<std::string>& assignments = {}) {
  sim::Faults faults;
  experts::Config out = experts::read_config(config(assignments), *test_systems().registries(), faults);
  faults.throw_if_any();
  experts::draw_choices(out);
  return out;
}

}  // namespace

TEST_CASE("experts: a step is dense parts, and of each layer the longer of GPU and host", "[theory]") {
  // No expert on the GPU and a batch of one: every layer waits for 8 experts of the host.
  const experts::Config c = parsed({"policies.share=0"});
  const experts::Prices prices(c);
  const std::vector<std::int64_t> rows(8, 1);
  const double step_ps = static_cast<double>(prices.dense_ps() + 48 * prices.host_ps(rows));
  CHECK(number(run({"policies.share=0"}), "step_s.total") == Approx(step_ps * 1e-12));
  // Gaps are added, one a layer that uses the host, one a step.
  CHECK(number(run({"policies.share=0", "machine.host.layer_gap=10 us", "machine.step_gap=1 ms"}), "step_s.total") ==
        Approx(step_ps * 1e-12 + 48 * 10e-6 + 1e-3));
  // Half as efficient: twice the host's time.
  const sim::Node slow = run({"policies.share=0", "machine.host.efficiency=0.5"});
  CHECK(number(slow, "step_s.host_busy") == Approx(2 * 48e-12 * static_cast<double>(prices.host_ps(rows))));
  // All on the GPU: one launch of 8 experts a product.
  const double all_ps = static_cast<double>(prices.dense_ps() + 48 * prices.gpu_ps(rows));
  const sim::Node all = run({"policies.share=1", "policies.cache.policy=static"});
  CHECK(number(all, "step_s.total") == Approx(all_ps * 1e-12));
  CHECK(number(all, "step_s.waited") == 0);
  CHECK(number(all, "cache.hit_rate") == 1);
}

TEST_CASE("experts: copies one after the other, the GPU behind them", "[theory]") {
  const std::vector<std::string> none{"policies.share=0", "policies.schedule.policy=fetch"};
  const experts::Config c = parsed(none);
  const experts::Prices prices(c);
  // Eight copies, then the last expert's product: products of the others hide behind copies, which take longer.
  REQUIRE(prices.copy_ps() > prices.gpu_ps(std::int64_t{1}));
  const std::int64_t layer = 8 * prices.copy_ps() + prices.gpu_ps(std::int64_t{1});
  const sim::Node got = run(none);
  CHECK(number(got, "step_s.total") == Approx(1e-12 * static_cast<double>(prices.dense_ps() + 48 * layer)));
  CHECK(number(got, "step_s.link_busy") == Approx(1e-12 * 48 * 8 * static_cast<double>(prices.copy_ps())));
  CHECK(number(got, "experts_a_step.fetched") == 48 * 8);
}

TEST_CASE("experts: hits are the cache's own, as `orrery experts cache` has them", "[unit]") {
  for (const char* cache : {"lru", "lfu", "mrs", "belady"}) {
    const std::vector<std::string> as{"policies.schedule.policy=fetch", std::string("policies.cache.policy=") + cache,
                                      "workload.router.generator.layers=48"};
    const experts::Config c = parsed(as);
    const auto counts = play_trace(c.trace, c.sections.policies.cache, {.slots = 32, .look_up = LookUp::token});
    const sim::Node got = run(as);
    CHECK(number(got, "cache.misses") == static_cast<double>(counts.misses));
    CHECK(number(got, "cache.requests") == static_cast<double>(counts.requests));
  }
}

TEST_CASE("experts: what is kept from the GPU is what hosts compute; nothing of it enters a cache", "[unit]") {
  const sim::Node got = run({"policies.schedule.policy=host"});
  CHECK(number(got, "cache.hit_rate") == 0);  // lru, empty at first, and the host computes what misses
  CHECK(number(got, "experts_a_step.host") == 48 * 8);
}

TEST_CASE("experts: a schedule that may choose is not slower than one that may not", "[prop]") {
  for (const char* share : {"0", "0.25", "0.75"})
    for (const char* chunk : {"1", "16"}) {
      const auto total = [&](const char* schedule) {
        return number(run({std::string("policies.share=") + share, std::string("workload.chunk=") + chunk,
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
    return run(as);
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
    return number(run(as), "cache.hit_rate");
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
  CHECK_THAT(
      fault({"policies.spread=pooled", "model.config=catalog:deepseek-v3", "workload.router.generator.tokens=64"}),
      Contains("nothing thrown"));
}

TEST_CASE("experts: what the host has no room for comes from the drive", "[theory]") {
  const std::vector<std::string> drive{"policies.share=0", "policies.schedule.policy=fetch",
                                       "machine.storage=nvme-gen4"};
  const auto with = [&](const std::vector<std::string>& more) {
    std::vector<std::string> as = drive;
    as.insert(as.end(), more.begin(), more.end());
    return run(as);
  };
  // Nothing in the host's memory: eight reads one after the other, each copied while the next is read, then a product.
  const experts::Config c = parsed(drive);
  const experts::Prices prices(c);
  REQUIRE(prices.read_ps() > prices.copy_ps());
  const std::int64_t layer = 8 * prices.read_ps() + prices.copy_ps() + prices.gpu_ps(std::int64_t{1});
  const sim::Node none = with({"policies.host_share=0"});
  CHECK(number(none, "step_s.total") == Approx(1e-12 * static_cast<double>(prices.dense_ps() + 48 * layer)));
  CHECK(number(none, "step_s.drive_busy") == Approx(1e-12 * 48 * 8 * static_cast<double>(prices.read_ps())));
  CHECK(number(none, "experts_a_step.read") == 48 * 8);
  CHECK(number(none, "memory_bytes.host_experts") == 0);
  // The host computes once the last of its experts is there.
  const std::vector<std::int64_t> rows(8, 1);
  CHECK(number(with({"policies.host_share=0", "policies.schedule.policy=host"}), "step_s.total") ==
        Approx(1e-12 * static_cast<double>(prices.dense_ps() + 48 * (8 * prices.read_ps() + prices.host_ps(rows)))));
  // Room for all: each is read once, and once all are there it is the run without a drive.
  const sim::Node all = with({"workload.skip=63"});
  const sim::Node memory = run({"policies.share=0", "policies.schedule.policy=fetch", "workload.skip=63"});
  CHECK(number(all, "experts_a_step.read") < 48 * 2);
  CHECK(number(all, "step_s.total") < 1.4 * number(memory, "step_s.total"));
  CHECK(number(all, "step_s.total") >= number(memory, "step_s.total"));
  // Half of it is between; more room is never more reads of LRU.
  const double half = number(with({"policies.host_share=0.5"}), "experts_a_step.read");
  CHECK(half < 48 * 8);
  CHECK(half > number(with({"policies.host_share=0.9"}), "experts_a_step.read"));
  // Copies ahead take only what is in the host's memory: no drive read is foretold.
  CHECK(number(with({"policies.host_share=0", "policies.prefetch.accuracy=1"}), "prefetched.copies") == 0);
  // A host too small for all is no obstacle any more.
  CHECK(text(run({"machine.host.override.memory=1 GiB", "machine.storage=nvme-gen4"}), "status") == "ok");
  CHECK_THAT(text(with({"policies.host_share=0.5", "machine.host.override.memory=1 GiB"}), "reason"),
             Contains("the host has 2 GiB"));
  CHECK_THAT(fault({"policies.host_share=0.5"}), Contains("expected machine.storage, which has the others"));
  CHECK_THAT(fault({"machine.storage=nvme-gen4", "machine.host.part="}), Contains("for no host is named"));
  CHECK_THROWS_WITH(with({"policies.host_cache.policy=belady"}), Contains("it knows what comes"));
}

TEST_CASE("experts: energy is what is drawn idle, and what products and copies take", "[theory]") {
  const std::vector<std::string> none{"policies.share=0", "policies.schedule.policy=fetch"};
  const experts::Config c = parsed(none);
  const experts::Prices prices(c);
  const sim::Node got = run(none);
  // Eight copies and eight products a layer and step, 64 steps of 48 layers.
  const std::int64_t one = 1;
  const double layers = 64 * 48, seconds = number(got, "simulated_s");
  CHECK(number(got, "energy_j.copies") == Approx(layers * 8 * hw::transfer_energy(c.link, prices.expert_bytes())));
  CHECK(number(got, "energy_j.experts") == Approx(layers * 8 * prices.gpu(std::span(&one, 1)).energy_j));
  CHECK(number(got, "energy_j.host") == 0);
  // The GPU and both sockets.
  CHECK(number(got, "energy_j.idle") == Approx(seconds * (c.gpu->power.idle_w + 2 * c.host->power.idle_w)));
  double sum = 0;
  for (const char* part : {"idle", "dense", "experts", "host", "copies"})
    sum += number(got, std::string("energy_j.") + part);
  CHECK(number(got, "energy_j.total") == Approx(sum));
  CHECK(number(got, "energy_per_token_j") == Approx(sum / 64));
  CHECK(number(run({"policies.share=0"}), "energy_j.copies") == 0);
  CHECK(number(run({"policies.share=0"}), "energy_j.host") > 0);
}

TEST_CASE("experts: fewer active experts, batches, whole layers first", "[unit]") {
  CHECK(number(run({"model.active=2", "policies.share=0"}), "experts_a_step.host") == 48 * 2);
  const sim::Node batch = run({"workload.batch=4", "policies.share=0"});
  CHECK(number(batch, "steps") == 16);
  CHECK(number(batch, "experts_a_step.host") < 48 * 32);  // texts share experts
  CHECK(number(batch, "experts_a_step.host") > 48 * 8);
  const sim::Node front = run({"policies.spread=front", "policies.cache.policy=static"});
  CHECK(number(front, "cache.hit_rate") == Approx(0.25));  // twelve layers of 48, whole
  CHECK(number(front, "cache.best_layer") == 1);
  CHECK(number(front, "cache.worst_layer") == 0);
  CHECK(experts::layer_slots(3, 10, 0.5, experts::SlotSpread::even) == std::vector<std::int64_t>{5, 5, 5});
  CHECK(experts::layer_slots(3, 10, 0.5, experts::SlotSpread::front) == std::vector<std::int64_t>{10, 5, 0});
  CHECK(experts::layer_slots(4, 10, 0.05, experts::SlotSpread::even) == std::vector<std::int64_t>{0, 1, 0, 1});
}

namespace {

/// Mixtral on ranks of one H100, experts all alike.
std::vector<std::string> on_ranks(std::vector<std::string> more = {}) {
  std::vector<std::string> out{"machine.part=h100-sxm5-80gb",
                               "machine.host.part=",
                               "machine.ranks=4",
                               "model.config=catalog:mixtral-8x7b",
                               "model.weight_format=fp8",
                               "policies.share=null",
                               "workload.router.generator.tokens=4096",
                               "workload.router.generator.layers=2",
                               "workload.batch=64",
                               "workload.skip=16"};
  out.insert(out.end(), more.begin(), more.end());
  return out;
}

}  // namespace

TEST_CASE("experts: ranks wait for the fullest, and for the fullest way of rows", "[theory]") {
  const sim::Node got = run(on_ranks());
  const experts::Config c = parsed(on_ranks());
  const experts::Prices prices(c);
  CHECK(number(got, "steps") == 48);
  // Every layer's slowest rank has at least the mean of 64 x 2 rows in 4 ranks, and at most all of its two experts'.
  const std::vector<std::int64_t> even{16, 16}, all{64, 64};
  CHECK(number(got, "layer_s.experts.mean") >= 0.999e-12 * static_cast<double>(prices.gpu_ps(even)));
  CHECK(number(got, "layer_s.experts.max") <= 1e-12 * static_cast<double>(prices.gpu_ps(all)));
  // Nothing overlaps: a step is its parts, a layer's means are a step's over 32 layers.
  CHECK(number(got, "step_s.dense") == Approx(1e-12 * static_cast<double>(prices.dense_ps())));
  CHECK(number(got, "step_s.total") ==
        Approx(number(got, "step_s.dense") + number(got, "step_s.gpu_experts") + number(got, "step_s.exchange")));
  CHECK(number(got, "step_s.gpu_experts") == Approx(32 * number(got, "layer_s.experts.mean")));
  CHECK(number(got, "throughput.tokens_per_s") == Approx(64 / number(got, "step_s.total")));
  CHECK(number(got, "throughput.gpu_tokens_per_s") == Approx(16 / number(got, "step_s.total")));
  CHECK(number(got, "energy_j.idle") == Approx(4 * c.gpu->power.idle_w * number(got, "simulated_s")));
  CHECK(number(got, "energy_j.dense") == Approx(48 * 4 * prices.dense_j()));
  // Row bytes on links, there and back: no more than all rows of 4,096 bf16 twice.
  CHECK(number(got, "energy_j.exchange") > 0);
  CHECK(number(got, "energy_j.exchange") <= 48 * 32 * 2 * 64 * 2 * 4096.0 * 2 * c.gpu->link.byte_j);
  // Rows that travel once a rank, and in half the type, are never slower; on their way home they are not there onward.
  const double exchange = number(got, "step_s.exchange");
  CHECK(number(run(on_ranks({"policies.exchange.once=rank"})), "step_s.exchange") < exchange);
  CHECK(number(run(on_ranks({"policies.exchange.dispatch=fp8"})), "step_s.exchange") < exchange);
  CHECK(number(run(on_ranks({"policies.exchange.rows=onward"})), "step_s.exchange") < 0.75 * exchange);
  // Nodes of two GPUs: rows cross adapters of a ninth of the link's rate.
  const auto nodes = [&](const char* once) {
    return number(run(on_ranks({"machine.node.devices=2", "machine.node.nics=2", "workload.chunk=16",
                                std::string("policies.exchange.once=") + once, "workload.skip=1"})),
                  "step_s.exchange");
  };
  CHECK(nodes("node") < nodes("rank"));
  CHECK(nodes("rank") < nodes("expert"));
}

TEST_CASE("experts: placements even out ranks, and gain nothing where experts are alike", "[theory]") {
  const auto imbalance = [](const char* rule, const char* router) {
    return number(run(on_ranks({std::string("policies.placement.policy=") + rule, router, "workload.chunk=16",
                                "workload.skip=1", "workload.router.generator.context=4096"})),
                  "imbalance");
  };
  const char* const skewed = "workload.router.generator.spread=1";
  CHECK(imbalance("contiguous", skewed) > 0.2);
  CHECK(imbalance("balanced", skewed) < 0.5 * imbalance("contiguous", skewed));
  CHECK(imbalance("moetuner", skewed) < 0.5 * imbalance("contiguous", skewed));
  // Four slots an expert in the mean, the more loaded ones more, whose replicas take turns.
  CHECK(number(run(on_ranks({"policies.placement.policy=eplb", "policies.redundant=24", "workload.chunk=16",
                             "workload.skip=1"})),
               "imbalance") < 0.05);
  const std::vector<std::string> even =
      on_ranks({"workload.router.generator.popularity=[1,1,1,1,1,1,1,1]", "workload.router.generator.common=1",
                "workload.router.generator.previous=0", "workload.chunk=16", "workload.router.generator.earlier=0",
                "workload.skip=1"});
  std::vector<std::string> balanced = even;
  balanced.emplace_back("policies.placement.policy=balanced");
  CHECK(number(run(balanced), "throughput.tokens_per_s") ==
        Approx(number(run(even), "throughput.tokens_per_s")).epsilon(0.02));
}

TEST_CASE("experts: halves in turns hide rows behind kernels, and never all of both", "[prop]") {
  for (const char* chunk : {"1", "16"}) {
    const std::vector<std::string> as = on_ranks(
        {std::string("workload.chunk=") + chunk, "workload.skip=1", "machine.node.devices=2", "machine.node.nics=2"});
    std::vector<std::string> turns = as;
    turns.emplace_back("policies.exchange.in_turns=true");
    const sim::Node got = run(turns);
    CAPTURE(chunk);
    const double dense = number(got, "step_s.dense"), experts = number(got, "step_s.gpu_experts"),
                 exchange = number(got, "step_s.exchange"), total = number(got, "step_s.total");
    CHECK(total >= 0.999 * std::max(dense + experts, 1.43 * exchange));
    CHECK(total <= 1.001 * (dense + experts + 1.43 * exchange));
    // A prompt's halves cost what the whole did, nearly; a few decodes read all weights twice.
    const double whole = number(run(as), "step_s.gpu_experts");
    CHECK(experts >= whole);
    if (std::string(chunk) == "1") CHECK(experts > 1.3 * whole);
  }
}

TEST_CASE("experts: faults of ranks", "[unit]") {
  CHECK_THAT(fault(on_ranks({"workload.batch=63"})), Contains("expected as many texts on each of 4 ranks, got 63"));
  CHECK_THAT(fault(on_ranks({"policies.share=0.5"})), Contains("expected neither a share of them nor prefetch"));
  CHECK_THAT(fault(on_ranks({"machine.host.part=xeon-6454s"})), Contains("the experts of ranks have no host"));
  CHECK_THAT(fault(on_ranks({"workload.skip=0"})), Contains("to plan a placement on"));
  CHECK_THAT(fault(on_ranks({"machine.ranks=3", "workload.batch=63"})), Contains("slots"));
  CHECK_THAT(fault(on_ranks({"machine.node.devices=3"})), Contains("expected whole nodes of whole ranks"));
  CHECK_THAT(fault(on_ranks({"policies.placement.policy=moetuner", "policies.redundant=4"})),
             Contains("moetuner keeps each expert once"));
  // Sixteen-bit weights of DeepSeek-V3 on four GPUs are a result, not a fault.
  CHECK_THAT(text(run(on_ranks(
                      {"model.config=catalog:deepseek-v3", "workload.router.generator.tokens=256", "workload.skip=1"})),
                  "reason"),
             Contains("of the experts needs"));
}

TEST_CASE("experts: what does not fit is infeasible, with the reason", "[unit]") {
  const sim::Node all = run({"policies.share=1", "model.weight_format=bf16"});
  CHECK(text(all, "status") == "infeasible");
  CHECK_THAT(text(all, "reason"), Contains("a share of 1 of the experts needs 54 GiB"));
  CHECK(number(all, "memory_bytes.experts") == 48.0 * 128 * 3 * 2048 * 768 * 2);
  const sim::Node dense = run({"machine.override.memory=1 GiB"});
  CHECK_THAT(text(dense, "reason"), Contains("weights without experts and keys need"));
  const sim::Node host = run({"machine.host.override.memory=1 GiB"});
  CHECK_THAT(text(host, "reason"), Contains("the experts need 13.92 GiB, the host has 2 GiB"));
  // Without a share as many have slots as fit: 128 of 48 layers in 4 bits are 14 GiB.
  CHECK(number(run({"policies.share=null"}), "share") == 1);
}

TEST_CASE("experts: faults of configs", "[unit]") {
  CHECK(fault({"model.config=catalog:llama-3-8b"}) ==
        "--set:/model/config: expected a model with experts, llama-3-8b has none");
  CHECK(fault({"model.active=9"}) == "--set:/model/active: more activated experts than the router chose: 9 of 8");
  CHECK_THAT(
      fault({"workload.router.generator.experts=64"}),
      Contains("a router trace of another model: expected 8 of 128 experts a token as qwen3-30b-a3b has, got 8 of 64"));
  CHECK_THAT(fault({"workload.router.trace=x.csv"}), Contains("expected either a 'trace' or a 'generator'"));
  CHECK_THAT(fault({"workload.batch=65"}), Contains("expected 65 tokens of router choices at least"));
  CHECK_THAT(fault({"policies.spread=pooled", "workload.router.generator.tokens=700000",
                    "workload.router.generator.layers=1", "workload.router.generator.scores=none"}),
             Contains("expected at most 268435456 requests in one cache, got 700000 tokens of 8 experts in 48 layers"));
  CHECK_THAT(fault({"machine.part=xeon-6454s"}), Contains("expected a GPU, got a part of kind cpu"));
  CHECK_THAT(fault({"machine.host.part=rtx-4090"}), Contains("expected a CPU, got a part of kind gpu"));
  CHECK_THAT(fault({"policies.share=-0.1"}), Contains("/policies/share: expected 0 to 1, got -0.1"));
  CHECK_THAT(fault({"policies.cache.policy=lrv"}), Contains("did you mean 'lru'?"));
}

TEST_CASE("experts: rows of measured placements and rates", "[golden]") {
  const auto placement = expert_placement_tables();
  const Predictions shares = predict(*placement, "systems/kt_expert_placement.csv",
                                     "gpu_expert_pct,random,uniform,front_loading,frequency,dynamic_update\n"
                                     "0,53,53,53,53,53\n40,53,53,53,53,53\n100,53,53,53,53,53\n");
  REQUIRE(shares.columns().size() == 5);
  const auto at = [&](std::size_t column, std::size_t row) { return shares.columns()[column].rows[row].predicted; };
  for (std::size_t column = 0; column < 4; ++column) {
    CHECK(at(column, 0) == Approx(53.0).epsilon(0.02));
    CHECK(at(column, 2) == Approx(112.3).epsilon(0.02));
  }
  CHECK(at(3, 1) > 1.1 * at(0, 1));  // frequency over uniform
  CHECK(at(2, 1) > at(0, 1));        // whole layers pay no hand-over
  const auto points = ktransformers_tables();
  const Predictions rates = predict(
      *points, "systems/ktransformers_points.csv",
      "cpu,engine,experts,prompt_tokens,decode_tok_s\n1 socket,KTransformers 0.2,8,500,8.73\n"
      "2 sockets,KTransformers 0.2,8,500,12.208\n2 sockets,llama.cpp,8,500,4.51\n1 socket,KTransformers 0.2,8,500,\n");
  REQUIRE(rates.columns().size() == 1);
  REQUIRE(rates.columns()[0].rows.size() == 2);
  CHECK(rates.columns()[0].uncovered == 2);
  CHECK(rates.columns()[0].rows[0].predicted == Approx(8.73).epsilon(0.02));
  CHECK(rates.columns()[0].rows[1].predicted == Approx(12.208).epsilon(0.05));
}

TEST_CASE("expert tables: oracles of public router traces, to the digit", "[golden]") {
  const fs::path data = ORRERY_SHARED_DIR "/data";
  if (!fs::exists(data / "systems/moe_router_cache_oracle.csv")) {
    WARN("no reference data beside the checkout");
    return;
  }
  const auto judged = [&](std::unique_ptr<TableKind> kind, const char* name) {
    Predictions out;
    kind->predict(MeasuredTable::read(data, name), shelf(), out);
    return out;
  };
  std::size_t rows = 0;
  const Predictions rows_1 = judged(moe_cache_oracle_tables(), "systems/moe_router_cache_oracle.csv");
  for (const auto& column : rows_1.columns())
    for (const auto& row : column.rows) {
      CHECK(row.predicted == row.measured);
      ++rows;
    }
  CHECK(rows >= 72);
  const Predictions rows_2 = judged(moe_router_profile_tables(), "systems/moe_router_profile_qwen3.csv");
  for (const auto& column : rows_2.columns())
    for (const auto& row : column.rows) {
      CHECK(row.predicted == Approx(row.measured).epsilon(column.metric == "figure" ? 1e-12 : 0.04));
      ++rows;
    }
  const Predictions rows_3 = judged(eplb_oracle_tables(), "systems/eplb_oracle.csv");
  for (const auto& column : rows_3.columns())
    for (const auto& row : column.rows) CHECK(row.predicted == 16);
  const Predictions rows_4 = judged(moe_ep_imbalance_tables(), "systems/moe_ep_imbalance.csv");
  for (const auto& column : rows_4.columns())
    for (const auto& row : column.rows) {
      if (column.metric == "EPLB's example") CHECK(row.predicted == row.measured);
      if (!row.regimes.empty() && row.regimes[0] == "EPLB") CHECK(std::abs(row.predicted - row.measured) < 0.1);
    }
}

TEST_CASE("expert tables: steps of wide expert parallelism", "[golden]") {
  // wide_ep_serving_points.csv: SGLang and DeepSeek's profile, tokens/s of a node; gains of two-batch overlap.
  const auto kind = wide_ep_tables();
  const Predictions out = predict(*kind, "systems/wide_ep_serving_points.csv",
                                  "system,phase,ep,batch_per_gpu,input_or_kv_len,metric,value\n"
                                  "DeepSeek profile,decode,128,128,4096,tokens_per_s_node,18598\n"
                                  "SGLang,decode,72,256,2000,tokens_per_s_node,22282\n"
                                  "DeepSeek profile,prefill,32,16384 tokens,4096,tokens_per_s_node,62713\n"
                                  "SGLang default routing,prefill,32,16384 tokens,4096,tokens_per_s_node,50302\n"
                                  "SGLang,decode,72,32,,two_batch_overlap gain,0.73\n"
                                  "SGLang,decode,72,256,2000,two_batch_overlap gain,1.255\n"
                                  "SGLang + simulated MTP,decode,72,128,4000,tokens_per_s_node,17373\n");
  REQUIRE(out.columns().size() == 2);
  REQUIRE(out.columns()[0].rows.size() == 4);
  CHECK(out.columns()[0].uncovered == 1);  // with draft tokens
  for (const auto& row : out.columns()[0].rows) CHECK(row.predicted == Approx(row.measured).epsilon(0.15));
  const auto& gains = out.columns()[1].rows;
  CHECK(gains[0].predicted < 1);  // small batches pay the fixed part of an exchange twice
  CHECK(gains[1].predicted > 1);
  // The profile has even routing, SGLang does not: the same step with less for everybody to wait for.
  CHECK(out.columns()[0].rows[2].predicted > out.columns()[0].rows[3].predicted);
}

TEST_CASE("orrery experts: questions and their faults", "[unit]") {
  const Scratch scratch;
  std::string csv = "# 8 experts\nlayer,experts\n";
  for (int i = 0; i < 40; ++i) csv += i % 2 == 0 ? "2,0001\n" : "2,0102\n";
  const std::string trace = scratch.write("t.csv", csv).string();
  const auto& caches = test_systems().registry<policies::ExpertCacheRegistry>();
  ExpertCacheParams params;
  params.trace = trace;
  params.slots = {2, 8};
  params.cache = {"lru"};
  const ExpertCacheAnswer answer = ask_expert_caches(params, caches);
  REQUIRE(answer.rows.size() == 2);
  // {0,1} {1,2} in turn with two slots: two misses, then one a token.
  CHECK(answer.rows[0].counts.misses == 2 + 39);
  CHECK(answer.rows[1].counts.misses == 3);
  CHECK_THAT(expert_cache_text(answer), Contains("40 tokens, 1 layer, 2 of 8 experts a token"));
  const auto fault_of = [&](auto change) {
    ExpertCacheParams changed = params;
    change(changed);
    try {
      (void)ask_expert_caches(changed, caches);
    } catch (const sim::ConfigError& error) {
      return std::string(error.what());
    }
    return std::string("nothing thrown");
  };
  CHECK(fault_of([](auto& p) { p.slots = {9}; }) == "--slots: expected at most the layer's 8 experts, got 9");
  CHECK(fault_of([](auto& p) { p.layers = {3}; }) == "--layers: layer 3 is not in " + trace);
  CHECK_THAT(fault_of([](auto& p) { p.tokens = "5"; }),
             Contains("--tokens: expected tokens FIRST:END of the trace's 40"));
  CHECK_THAT(fault_of([](auto& p) { p.cache = {"mrs"}; }), Contains("mrs needs the router's scores"));
  CHECK_THAT(fault_of([](auto& p) { p.model = "catalog:llama-3-8b"; }), Contains("expected a model with experts"));
  CHECK_THAT(fault_of([](auto& p) { p.batch = 41; }), Contains("expected at most the 40 tokens of the trace"));
  CHECK_THAT(fault_of([](auto& p) {
               p.batch = 2;
               p.look_up = LookUp::request;
             }),
             Contains("a batch is looked up together"));

  ExpertPlaceParams place;
  place.trace = trace;
  place.gpus = 4;
  place.out = (scratch / "slots.csv").string();
  const auto& placements = test_systems().registry<policies::ExpertPlacementRegistry>();
  const ExpertPlaceAnswer placed = ask_expert_placements(place, placements);
  CHECK(placed.rows.size() == 4);
  // Loads 10 20 10 of 40 on experts 0, 1, 2 in the second half: contiguous has 30 on GPU 0, 10 on GPU 1: 2 over the
  // mean.
  CHECK(placed.rows[1].judged.mean() == 2);
  CHECK(read_csv(place.out).size() == 8);
  CHECK_THROWS_WITH(ask_expert_placements(place, placements), Contains("expected a file that does not exist yet"));
  place.out.clear();
  place.gpus = 3;
  CHECK_THROWS_WITH(ask_expert_placements(place, placements), Contains("8 slots do not share out over 3 GPUs"));
}

TEST_CASE("orrery fits: rows, the best of them, their configs", "[unit]") {
  FitsParams params{.model = "qwen3-30b-a3b", .part = "rtx-4090", .host = "xeon-6454s"};
  const FitsAnswer answer = ask_fits(params, test_systems());
  REQUIRE(answer.rows.size() == 7);  // three ways in bf16 and fp8, all on the GPU in 4 bits
  CHECK(answer.rows[0].weights == "published");
  CHECK(answer.rows[6].share == 1);
  CHECK(answer.best() == &answer.rows[6]);
  CHECK(answer.asked == "qwen3-30b-a3b on 1 rtx-4090, host 1 xeon-6454s");
  // A row's config gives the row.
  const sim::Node again = read_experiment(test_systems(), answer.rows[3].config)->run({}).summary;
  CHECK(number(again, "throughput.tokens_per_s") == answer.rows[3].tokens_per_s);
  // What the host has no room for comes from the drive, where there is one.
  FitsParams large{.model = "deepseek-v3", .part = "rtx-4090", .host = "xeon-6454s"};
  large.weights = {"fp8"};
  CHECK(ask_fits(large, test_systems()).best() == nullptr);
  large.storage = "nvme-gen4";
  const FitsAnswer drive = ask_fits(large, test_systems());
  REQUIRE(drive.best() != nullptr);
  CHECK(drive.best()->drive_s > 0);
  CHECK(drive.best()->host_bytes <= 512.0 * 1024 * 1024 * 1024);
  CHECK_THAT(fits_text(drive), Contains("host     drive\n"));
  large.storage = "nvme-gen9";
  CHECK_THROWS_WITH(ask_fits(large, test_systems()), Contains("--storage: ") && Contains("nvme-gen"));
  params.host.clear();
  params.weights = {"int4"};
  params.part = "rtx-2080ti";
  CHECK(ask_fits(params, test_systems()).rows.size() == 1);  // without a host that computes there is one way
  params.model = "deepseek-v3";
  const FitsAnswer none = ask_fits(params, test_systems());
  CHECK(none.best() == nullptr);
  CHECK_THAT(fits_text(none),
             Contains("int4        does not fit: weights without experts and keys need") && Contains("Nothing fits."));
  // Faults name what was asked.
  params.part = "xeon-6454s";
  CHECK_THROWS_WITH(ask_fits(params, test_systems()), "PART: expected a GPU, got a part of kind cpu");
  params.engine = "kt_kernle";
  CHECK_THROWS_WITH(ask_fits(params, test_systems()),
                    Contains("unknown engine 'kt_kernle' (did you mean 'kt_kernel'?)"));
}

TEST_CASE("orrery trace fit: what it says and writes", "[unit]") {
  const Scratch scratch;
  RouterFitParams params;
  CHECK_THROWS_WITH(fit_router_trace(params, test_systems()), Contains("expected a router trace, or --srp"));
  traces::RouterGenerator generator{.experts = 32, .top_k = 4, .tokens = 2048};
  traces::write_router_trace(traces::generate_router_trace(generator, 3), (scratch / "t.ort").string());
  params.trace = (scratch / "t.ort").string();
  params.out = (scratch / "g.json").string();
  const RouterFitAnswer answer = fit_router_trace(params, test_systems());
  CHECK(answer.fit.error < 3);
  REQUIRE(answer.farthest() != nullptr);
  CHECK(std::abs(answer.farthest()->drawn - answer.farthest()->judged) < 8);
  const traces::RouterGenerator back = read_router_generator(sim::read_config(params.out));
  CHECK(back.previous == answer.fit.generator.previous);
  CHECK(back.popularity.size() == 32);
  params.out.clear();
  params.layer = 4;
  CHECK_THROWS_WITH(fit_router_trace(params, test_systems()), Contains("layer 4 is not in"));
  traces::write_router_trace(traces::generate_router_trace({.tokens = 100}, 3), (scratch / "s.ort").string());
  params = {};
  params.trace = (scratch / "s.ort").string();
  CHECK_THROWS_WITH(fit_router_trace(params, test_systems()),
                    Contains("expected 1000 tokens at least to fit to, got 100"));
}

}  // namespace test_experts_system
