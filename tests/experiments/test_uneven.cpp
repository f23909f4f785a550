// Training batches of unlike sequences: prices by hand, the bound, what cannot be.
#include <fmt/format.h>

#include <catch2/catch.hpp>

#include "tests/experiments/support.hpp"
#include "tests/systems.hpp"

namespace test_uneven {

using namespace orrery;
using namespace orrery::experiments;
using namespace orrery::experiments::test;
using Catch::Contains;

namespace {

std::string config(const std::string& machine = "", const std::string& workload = "",
                   const std::string& groups = "flexsp") {
  return R"({"system": "uneven_batches", "costs": {"devices": 4, "memory": "10 GB", "exchange": ["10 GB/s", "5 GB/s"])" +
         machine + R"(,
    "parameters": 1e9, "layers": 2, "hidden": 100, "token_bytes": "1 MB", "square": "1 us", "linear": "1 ms",
              "fixed": "100 ms"},
    "workload": {"lengths": {"policy": "fixed", "fixed": {"prompt": 1000, "output": 1}}, "batch": 8, "batches": 2)" +
         workload + R"(}, "policies": {"groups": {"policy": ")" + groups + "\"}}}";
}

sim::Node run(const std::string& text) {
  return read_experiment(test_systems(), sim::parse_json(text, "uneven.json"))->run({}).summary;
}

std::string fault(const std::string& text) {
  try {
    (void)run(text);
  } catch (const sim::ConfigError& error) {
    return error.faults().front().text();
  }
  return "none";
}

}  // namespace

TEST_CASE("uneven batches: a step by hand") {
  // States take 16e9 / 4 = 4 GB of 10: memory for 6,000 tokens. Two sequences a device: 2 (1 + 1) + 0.1 s.
  const sim::Node summary = run(config());
  CHECK(summary.at("iteration_s")->as_number() == Approx(2 * (1e-6 * 1e6 + 1) + 0.1));
  CHECK(summary.at("bound_s")->as_number() == Approx(4.1));
  CHECK(summary.at("tokens_per_s")->as_number() == Approx(8000 / 4.1));
  CHECK(summary.at("token_share.1")->as_number() == 1);
  CHECK(summary.at("batch.micro_batches")->as_number() == 1);
  // Best fit fills a device first: six sequences on one, two on another.
  CHECK(run(config("", "", "fixed")).at("iteration_s")->as_number() == Approx(6 * 2 + 0.1));
}

TEST_CASE("uneven batches: the same seed gives the same batches to every policy") {
  const auto with = [&](const std::string& groups) {
    std::string text = config("", "", groups);
    const std::string fixed = R"("lengths": {"policy": "fixed", "fixed": {"prompt": 1000, "output": 1}})";
    text.replace(text.find(fixed), fixed.size(), R"("lengths": {"policy": "log_normal"}, "longest": 4000)");
    return run(text);
  };
  const sim::Node flexible = with("flexsp"), adaptive = with("adaptive");
  CHECK(flexible.at("batch.tokens")->as_number() == adaptive.at("batch.tokens")->as_number());
  CHECK(flexible.at("batch.longest")->as_number() <= 4000);
  CHECK(flexible.at("iteration_s")->as_number() <= adaptive.at("iteration_s")->as_number() * 1.0001);
  CHECK(flexible.at("iteration_s")->as_number() >= flexible.at("bound_s")->as_number() * 0.9999);
}

TEST_CASE("uneven batches: sequences beyond the longest are cut or chunked") {
  // Eight sequences of 1,000 tokens, at most 400 of each.
  const auto with = [](const char* beyond, const char* batch = "8") {
    std::string text = config("", std::string(R"(, "longest": 400, "beyond": ")") + beyond + '"');
    return run(text.replace(text.find("\"batch\": 8"), 10, std::string("\"batch\": ") + batch));
  };
  const sim::Node cut = with("cut");
  CHECK(cut.at("batch.tokens")->as_number() == 8 * 400);
  CHECK(cut.at("batch.left_out_tokens")->as_number() == 8 * 600);
  CHECK(cut.at("batch.chunks")->as_number() == 0);
  CHECK(cut.at("iteration_s")->as_number() == Approx(2 * (1e-6 * 400 * 400 + 0.4) + 0.1));  // two a device
  // 400, 400, 200; 400, 400, 200; 400, 400 and 200 tokens beyond the batch.
  const sim::Node chunked = with("chunk");
  CHECK(chunked.at("batch.tokens")->as_number() == 6 * 400 + 2 * 200);
  CHECK(chunked.at("batch.left_out_tokens")->as_number() == 200);
  CHECK(chunked.at("batch.chunks")->as_number() == 8);
  // Nine: three whole ones. Attention of chunks takes 2 (0.4^2) + 0.2^2 = 0.36 of 1^2 for each.
  const sim::Node whole = with("chunk", "9");
  CHECK(whole.at("batch.tokens")->as_number() == 3000);
  CHECK(whole.at("batch.left_out_tokens")->as_number() == 0);
  CHECK(whole.at("bound_s")->as_number() == Approx(3 * (0.36 + 1) / 4 + 0.1));
  // With room for all, nothing is cut.
  for (const char* beyond : {"redraw", "cut", "chunk"}) {
    const sim::Node all = run(config("", std::string(R"(, "longest": 1000, "beyond": ")") + beyond + '"'));
    CHECK(all.dump() == run(config()).dump());
  }
  CHECK_THAT(fault(config("", R"(, "longest": 400)")), Contains("a million draws were longer (workload.beyond can"));
  CHECK_THAT(fault(config("", R"(, "beyond": "chunks")")), Contains("did you mean 'chunk'?"));
}

TEST_CASE("uneven batches: what cannot be is said") {
  std::string long_one = config();
  long_one.replace(long_one.find("\"prompt\": 1000"), 14, "\"prompt\": 30000");
  CHECK_THAT(run(long_one).find("reason")->as_string(),
             Contains("no plan for a sequence of 30000 tokens: a device has memory for 6000"));
  std::string six = config();
  six.replace(six.find("\"devices\": 4"), 12, "\"devices\": 6");
  CHECK_THAT(fault(six), Contains("/costs/devices: expected a power of two, got 6"));
  six.replace(six.find("\"devices\": 6"), 12, "\"devices\": 8");
  CHECK_THAT(fault(six), Contains("expected a bandwidth for each of 2, 4 … 8 devices, 3 in all, got 2"));
  std::string small = config();
  small.replace(small.find("10 GB\""), 6, "4 GB\"");
  CHECK(run(small).find("status")->as_string() == "infeasible");
  CHECK_THAT(fault(config("", R"(, "longest": 10)")), Contains("expected a length that is drawn now and then"));
}

namespace {

/// A machine and a model of training in place of constants; `degree` devices for each sequence of `prompt` tokens.
std::string on_machine(std::int64_t prompt, std::int64_t batch, std::int64_t degree,
                       const std::string& plan = R"("recompute": "full")") {
  return fmt::format(
      R"({{"system": "uneven_batches",
    "machine": {{"devices": [{{"part": "h100-sxm5-80gb", "count": 8}}], "node": {{"devices": 8}}}},
    "model": {{"builder": {{"policy": "decoder", "decoder": {{"config": "catalog:llama-3.1-8b", "loss": true}}}}}},
    "plan": {{{}}}, "workload": {{"longest": 131072, "batch": {}, "batches": 1,
      "lengths": {{"policy": "fixed", "fixed": {{"prompt": {}, "output": 1}}}}}},
    "policies": {{"groups": {{"policy": "fixed", "fixed": {{"degree": {}}}}}}}}})",
      plan, batch, prompt, degree);
}

/// The training system's own step of as many sequences as there are groups.
sim::Node trained(std::int64_t prompt, std::int64_t degree) {
  return run(fmt::format(
      R"({{"system": "training",
    "machine": {{"devices": [{{"part": "h100-sxm5-80gb", "count": 8}}], "node": {{"devices": 8}}}},
    "model": {{"builder": {{"policy": "decoder", "decoder": {{"config": "catalog:llama-3.1-8b", "loss": true}}}}}},
    "plan": {{"context_parallel": {}, "context_exchange": "all_to_all", "zero": "weights", "recompute": "full"}},
    "workload": {{"sequence": {}, "global_batch": {}}}}})",
      degree, prompt, 8 / degree));
}

}  // namespace

TEST_CASE("uneven batches: priced on a machine a step is the training system's") {
  // Of lengths on which the line was not fitted; other groups have nothing to do, or the same.
  for (const auto& [prompt, degree] : {std::pair{98304, 4}, {98304, 2}, {49152, 1}, {131072, 8}}) {
    const sim::Node priced = run(on_machine(prompt, 1, degree)), own = trained(prompt, degree);
    INFO(prompt << " tokens on " << degree);
    CHECK(priced.at("costs.fit_error")->as_number() < 0.02);
    CHECK(priced.at("iteration_s")->as_number() == Approx(own.at("iteration_s")->as_number()).epsilon(0.02));
  }
  // Memory is what the training system finds at its fullest: a piece more no longer fits.
  const sim::Node one = run(on_machine(1024, 1, 1));
  const auto room = static_cast<std::int64_t>(one.at("costs.device_tokens")->as_number());
  const auto fits = [&](std::int64_t tokens) { return trained(tokens, 1).find("status")->as_string() == "ok"; };
  CHECK(fits(room));
  CHECK_FALSE(fits(room + 64));
}

TEST_CASE("uneven batches: a micro-batch takes at least what goes on beside its kernels") {
  // One short sequence: weights are gathered twice and gradients summed all the same.
  const sim::Node summary = run(on_machine(64, 1, 1));
  CHECK(summary.at("iteration_s")->as_number() ==
        Approx(summary.at("costs.least_s")->as_number() + summary.at("costs.fixed_s")->as_number() +
               summary.at("costs.update_s")->as_number()));
  CHECK(summary.at("costs.least_s")->as_number() > 0);
  // Kernels that wait for it come after it.
  const sim::Node waits = run(on_machine(64, 1, 1, R"("recompute": "full", "overlap": false)"));
  CHECK(waits.at("costs.least_s")->as_number() == 0);
  CHECK(waits.at("costs.fixed_s")->as_number() == Approx(summary.at("costs.least_s")->as_number()));
  const auto cost = [&](const char* name) { return waits.at(std::string("costs.") + name)->as_number(); };
  CHECK(waits.at("iteration_s")->as_number() ==
        Approx(cost("fixed_s") + 64 * cost("linear_s") + 64 * 64 * cost("square_s") + cost("update_s")));
}

TEST_CASE("uneven batches: degrees end where heads do") {
  // Eight heads of keys: of 16 devices groups have at most 8.
  std::string sixteen = on_machine(1024, 16, 16);
  sixteen.replace(sixteen.find("\"count\": 8"), 10, "\"count\": 16");
  sixteen.replace(sixteen.find("{\"devices\": 8}"), 14, "{\"devices\": 16}");
  CHECK(run(sixteen).find("status")->as_string() == "infeasible");
  sixteen.replace(sixteen.find("\"degree\": 16"), 12, "\"degree\": 8");
  const sim::Node eight = run(sixteen);
  CHECK(eight.find("token_share")->find("8")->as_number() == 1);
  CHECK(eight.find("token_share")->find("16") == nullptr);
  sixteen.replace(sixteen.find("131072"), 6, "16777216");
  CHECK_THAT(run(sixteen).find("reason")->as_string(),
             Contains("the longest sequences want more than ") && Contains("of context parallelism do not divide"));
}

TEST_CASE("uneven batches: a machine that cannot be is said") {
  CHECK_THAT(fault(on_machine(64, 1, 1, R"("context_exchange": "ring")")),
             Contains("/plan/context_exchange: expected all_to_all or all_gather"));
  CHECK_THAT(fault(R"({"system": "uneven_batches"})"),
             Contains("expected either 'costs', or a 'machine' and a 'model'"));
  std::string both = config();
  both.replace(both.find("\"workload\""), 10, R"("machine": {"devices": [{"part": "a100-sxm4-80gb"}]}, "workload")");
  CHECK_THAT(fault(both), Contains("expected either 'costs', or a 'machine' and a 'model'"));
  std::string six = on_machine(64, 1, 1);
  six.replace(six.find("\"count\": 8"), 10, "\"count\": 6");
  CHECK_THAT(fault(six), Contains("/machine/devices: expected a power of two, got 6 devices"));
  std::string small = on_machine(64, 1, 1);
  small.replace(small.find("h100-sxm5-80gb\", \"count\": 8"), 27, "l4\", \"count\": 1");
  CHECK_THAT(run(small).find("reason")->as_string(), Contains("no memory for model states and 64 tokens"));
}

}  // namespace test_uneven
