// `orrery experts`, `orrery fits` and `orrery trace fit`: answers and faults.
#include <catch2/catch.hpp>

#include "experiments/answers/expert_questions.hpp"
#include "experiments/answers/fits.hpp"
#include "experiments/answers/router_questions.hpp"
#include "tests/experiments/experts_support.hpp"
#include "tests/experiments/support.hpp"

namespace test_expert_questions {

using namespace orrery;
using namespace orrery::experiments;
using namespace orrery::experiments::test;
using Catch::Contains;

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
  // A name longer than a column makes its own wider.
  params.cache = {"lru", "frequent_recent"};
  CHECK_THAT(expert_cache_text(ask_expert_caches(params, caches)),
             Contains("       lru  frequent_recent\n") && Contains("     2    25.0 %      48.8             48.8\n"));
  params.cache = {"lru"};
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
  CHECK(placed.rows.size() == 4);  // balanced, contiguous, eplb, moetuner: not `expression`, which is eplb as it comes
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
  large.storage = "pcie4-x16";
  CHECK_THROWS_WITH(ask_fits(large, test_systems()),
                    "--storage: expected a part of kind memory, 'pcie4-x16' is of kind link");
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

}  // namespace test_expert_questions
