// The experts system with unlike experts: several numbers of bits, modules, tokens that share a step.
#include <algorithm>
#include <catch2/catch.hpp>

#include "experiments/systems/experts/nested.hpp"
#include "tests/experiments/experts_support.hpp"

namespace test_expert_variants {

using namespace orrery;
using namespace orrery::experiments;
using namespace orrery::experiments::test;
using Catch::Contains;

namespace {

std::vector<std::string> with(std::vector<std::string> base, const std::vector<std::string>& more) {
  base.insert(base.end(), more.begin(), more.end());
  return base;
}

/// Mixtral's experts in 2, 3 and 4 bits, no host.
std::vector<std::string> nested(const std::vector<std::string>& more = {}) {
  return with(
      {"machine.host={}", "model.config=catalog:mixtral-8x7b", "workload.router.generator={\"tokens\": 64}",
       R"(model.bits={"levels": [{"weights": "int2", "share": 0.3}, {"weights": "int3", "share": 0.4}, {"weights": "int4", "share": 0.3}]})"},
      more);
}

std::vector<std::string> duo(const std::vector<std::string>& more = {}) {
  return with(
      {"machine.host={}", "model.config=catalog:duo-llm", "model.weight_format=null", "policies.share=1",
       "model.modules=[10240, 640, 0]",
       R"(workload.router.generator={"tokens": 512, "previous": 0, "earlier": 0, "common": 1, "popularity": [0.4, 0.4, 0.2], "every_layer": true})"},
      more);
}

TEST_CASE("experts: nested levels add to the bytes of all, copies do not share", "[theory]") {
  const experts::Config c = parsed_experts(nested());
  const experts::Prices prices(c);
  // 3 x 4,096 x 14,336 weights: 2.125 bits, and a bit a level more.
  const std::int64_t weights = 3 * 4096 * 14336;
  CHECK(prices.slice(0).bytes == weights * 17 / 64);
  CHECK(prices.slice(1).bytes == weights / 8);
  CHECK(prices.slice(2).bytes == weights / 8);
  CHECK(prices.layer_bytes() == 8 * (weights * 17 / 64 + weights / 4));
  const experts::Config copies = parsed_experts(nested({"model.bits.nested=false"}));
  const experts::Prices own(copies);
  CHECK(own.slice(2).bytes == weights * 33 / 64);
  CHECK(experts::all_level_slots(*c.sections.model.bits) == 4);
  CHECK(experts::all_level_slots(*copies.sections.model.bits) == 9);
}

TEST_CASE("experts: without slots every level of every choice is loaded, one after the other", "[theory]") {
  // One token a step, two of eight experts, no slots: by each layer the levels of both come.
  const std::vector<std::string> none = nested({"policies.share=0", "policies.as_they_come=false"});
  const experts::Config c = parsed_experts(none);
  const experts::Prices prices(c);
  std::int64_t link_ps = 0, loads = 0;
  for (std::size_t l = 0; l < 32; ++l)
    for (const std::uint8_t level : c.levels[l])
      for (std::size_t at = 0; at <= level; ++at, ++loads) link_ps += prices.slice(at).copy_ps;
  const sim::Node got = run_experts(none);
  CHECK(number(got, "experts_a_step.fetched") == Approx(static_cast<double>(loads) / 64));
  CHECK(number(got, "step_s.link_busy") == Approx(static_cast<double>(link_ps) * 1e-12 / 64));
  // Nothing overlaps: the step is dense part, loads and products.
  CHECK(number(got, "step_s.total") ==
        Approx(number(got, "step_s.dense") + number(got, "step_s.link_busy") + number(got, "step_s.gpu_experts")));
  // The link is never the longer for computing as they come, and products hide behind loads.
  CHECK(number(run_experts(nested({"policies.share=0"})), "step_s.total") < number(got, "step_s.total"));
}

TEST_CASE("experts: all levels in memory load nothing, whatever the order and cache", "[prop]") {
  std::vector<double> totals;
  for (const char* order : {"by_expert", "by_level", "hebf"})
    for (const char* cache : {"lru", "belady", "d2moe", "lfu"}) {
      const sim::Node got =
          run_experts(nested({"policies.share=1", "machine.part=a100-sxm4-80gb", "workload.skip=40",
                              std::string("policies.order.policy=") + order,
                              std::string("policies.cache.policy=") + cache, "workload.router.generator.context=4"}));
      CHECK(number(got, "cache.hit_rate") > 0.95);  // a level that nobody had wanted in the first 40 steps
      totals.push_back(number(got, "step_s.dense") + number(got, "step_s.gpu_experts"));
    }
  for (const double total : totals) CHECK(total == Approx(totals.front()).epsilon(0.02));
}

TEST_CASE("experts: Belady's rule over levels loads least, and hits grow with slots", "[prop]") {
  double before = -1;
  for (const char* share : {"0.2", "0.5", "0.8"}) {
    const auto hits = [&](const char* cache) {
      return number(
          run_experts(nested({std::string("policies.share=") + share, std::string("policies.cache.policy=") + cache})),
          "cache.hit_rate");
    };
    // Sizes are unlike, for which Belady's rule is no optimum, but it is near one. D2MoE's rule keeps the first layers:
    // better than LRU while that cannot keep what the token before used.
    CHECK(hits("belady") >= hits("lru") - 0.01);
    if (share == std::string("0.2")) CHECK(hits("d2moe") >= hits("lru") - 0.01);
    CHECK(hits("d2moe") >= before);
    before = hits("d2moe");
  }
}

TEST_CASE("experts: bits by expert are the shares of experts", "[unit]") {
  const experts::Config c = parsed_experts(nested({"model.bits.by=expert"}));
  const traces::RouterLayer& layer = c.trace.layers.front();
  std::vector<int> level(8, -1);
  for (std::size_t i = 0; i < layer.choices.size(); ++i) {
    int& own = level[layer.choices[i]];
    CHECK((own == -1 || own == c.levels[0][i]));
    own = c.levels[0][i];
  }
  // Eight experts: places 0.5 / 8 ... of shares 0.3, 0.4, 0.3 are 2, 4 and 2 experts.
  for (int at = 0; at < 3; ++at) CHECK(std::ranges::count(level, at) <= (at == 1 ? 4 : 2));
}

TEST_CASE("experts: Duo-LLM's FLOPs, bytes and pieces of a batch are the closed form", "[theory]") {
  const experts::Config c = parsed_experts(duo({"workload.batch=4"}));
  std::int64_t big = 0, small = 0;
  for (const traces::RouterLayer& layer : c.trace.layers) {
    big += std::ranges::count(layer.choices, 0);
    small += std::ranges::count(layer.choices, 1);
  }
  const auto tokens = static_cast<double>(c.trace.tokens());
  const sim::Node got = run_experts(duo({"workload.batch=4"}));
  // Card 23: FLOPs a token = 6 x 2,560 x (10,240 n_big + 640 n_small), n the layers of a token with each.
  CHECK(number(got, "experts_work.flops_per_token") ==
        Approx(6.0 * 2560 * (10240 * static_cast<double>(big) + 640 * static_cast<double>(small)) / tokens));
  // A layer of b tokens reads a module with probability 1 - (1 - p)^b: three standard deviations of 12 x 128 draws.
  const double p = 1 - std::pow(0.6, 4);
  const double want = 12 * 3 * 2560 * 2 * (10240 + 640) * p;
  CHECK(number(got, "experts_work.weight_bytes_a_step") ==
        Approx(want).epsilon(3 * std::sqrt(p * (1 - p) / (12 * 128)) / p));
  // Pieces: tokens with a module, over products.
  CHECK(number(got, "experts_work.tokens_a_product") * number(got, "experts_work.products_a_layer") ==
        Approx(static_cast<double>(big + small) / tokens / 12 * 4));
  // Where all tokens skip all layers, experts take nothing.
  const sim::Node none = run_experts(duo({"workload.router.generator.popularity=[0, 0, 1]"}));
  CHECK(number(none, "step_s.gpu_experts") == 0);
  CHECK(number(none, "experts_work.flops_per_token") == 0);
}

TEST_CASE("experts: groups change who shares a step, never what is done", "[prop]") {
  const std::vector<std::string> base{
      "workload.router.generator.tokens=512", "workload.batch=8",           "policies.pool=4", "policies.share=1",
      "policies.cache.policy=static",         "machine.part=a100-sxm4-80gb"};
  const sim::Node arrival = run_experts(base);
  const sim::Node alike = run_experts(with(base, {"policies.groups.policy=expertflow"}));
  CHECK(number(arrival, "steps") == 64);
  CHECK(number(alike, "steps") == 64);
  CHECK(number(alike, "experts_work.flops_per_token") == Approx(number(arrival, "experts_work.flops_per_token")));
  CHECK(number(alike, "experts_work.products_a_layer") < number(arrival, "experts_work.products_a_layer"));
  const experts::Config c = parsed_experts(with(base, {"policies.groups.policy=expertflow"}));
  std::vector<int> of(32, 0);
  for (const std::int64_t text : c.texts) ++of[static_cast<std::size_t>(text)];
  for (const int tokens : of) CHECK(tokens == 16);
  // Read-ME lets some wait; nobody is served twice for one token.
  const experts::Config waits = parsed_experts(with(base, {"policies.groups.policy=read_me"}));
  CHECK(waits.trace.tokens() <= 512);
  CHECK(waits.steps() >= 48);
}

TEST_CASE("experts: order of loads holds for whole experts too", "[unit]") {
  // All experts missing and fetched: the order changes when each arrives, not how many.
  const auto total = [](const char* order) {
    return number(run_experts({"policies.share=0", "policies.schedule.policy=fetch", "workload.batch=16",
                               "workload.chunk=2", std::string("policies.order.policy=") + order}),
                  "step_s.total");
  };
  CHECK(total("hebf") <= 1.01 * total("by_expert"));
  CHECK(total("by_level") == total("by_expert"));
}

TEST_CASE("experts: faults of bits, modules and groups", "[unit]") {
  CHECK_THAT(experts_fault(nested({"model.bits.levels=[]"})), Contains("expected 2 to 8 levels, got 0"));
  CHECK_THAT(experts_fault(nested(
                 {R"(model.bits.levels=[{"weights": "int4", "share": 0.5}, {"weights": "int2", "share": 0.5}])"})),
             Contains("expected more bits from level to level, got int2 after int4"));
  CHECK_THAT(experts_fault(nested(
                 {R"(model.bits.levels=[{"weights": "int2", "share": 0.5}, {"weights": "int4", "share": 0.4}])"})),
             Contains("expected shares of 1 together, got 0.9"));
  CHECK_THAT(experts_fault(nested({"machine.host.part=xeon-6454s"})),
             Contains("computed by the GPU: expected no host"));
  CHECK_THAT(experts_fault(nested({"policies.prefetch.accuracy=0.5"})),
             Contains("expected no prefetch with model.bits"));
  CHECK_THAT(experts_fault(duo({"model.modules=[1, 2]"})), Contains("expected a size for each of 3 experts, got 2"));
  CHECK_THAT(experts_fault(duo({"model.modules=[0, 0, 0]"})), Contains("expected one size above 0 at least"));
  CHECK_THAT(experts_fault(duo({"policies.share=0.5"})), Contains("expected a share of 1"));
  CHECK_THAT(experts_fault(duo({"machine.host.part=xeon-6454s"})), Contains("computed by the GPU: expected no host"));
  CHECK_THAT(experts_fault({"policies.groups.policy=read_me"}), Contains("read_me has nothing to choose from"));
  CHECK_THAT(experts_fault({"policies.pool=8", "workload.batch=16"}), Contains("tokens of router choices at least"));
}

}  // namespace
}  // namespace test_expert_variants
