// Replays of measured arrivals by hand, and the table of whole vLLM runs against the serving system itself.
#include "experiments/fidelity/replay.hpp"

#include <fmt/format.h>

#include "experiments/base/experiment.hpp"
#include "experiments/fidelity/table_kind.hpp"
#include "sim/base/random.hpp"
#include "tests/experiments/bench_replica.hpp"
#include "tests/experiments/support.hpp"
#include "tests/serving/run_config.hpp"

namespace test_replay {

using namespace orrery;
using namespace orrery::experiments;
using namespace orrery::experiments::test;

namespace {

/// Blocks of 16 tokens, contexts up to 4,096; every iteration takes as long as the model says.
ReplayParts parts(IterationModel& model, std::int64_t blocks = 1000) {
  ReplayParts parts;
  parts.model = &model;
  sim::Faults faults;
  policies::BatchingRegistry batchings("batching");
  policies::register_batching_policies(batchings);
  parts.batching = batchings.prepare("vllm_v1", nullptr, {}, faults);
  policies::KvCacheRegistry caches("kvcache");
  policies::register_kv_caches(caches);
  parts.kvcache = caches.prepare("block_hash", nullptr, {}, faults);
  faults.throw_if_any();
  parts.geometry = {.bytes_per_token = 1, .bytes_available = blocks * 16};
  parts.limits = {.max_context = 4096, .layers = 32};
  return parts;
}

const Predictions::Column& column(const Predictions& out, const std::string& metric) {
  for (const Predictions::Column& c : out.columns())
    if (c.metric == metric) return c;
  throw std::logic_error("no such metric");
}

}  // namespace

TEST_CASE("A replay by hand: iterations of a second", "[unit]") {
  FakeModel model;
  // 0 s: both prefill in one iteration, tokens at 1, 2, 3 s. The third comes in the middle of the second iteration,
  // prefills in the third (2 to 3 s) beside the others' last tokens, and ends with its second token at 4 s.
  const auto times = replay(parts(model), {{0, 100, 3}, {0, 50, 3}, {1.5, 80, 2}});
  REQUIRE(times.size() == 3);
  for (const std::size_t i : {0, 1}) {
    REQUIRE(times[i]);
    CHECK(times[i]->first_token_s == Approx(1));
    CHECK(times[i]->last_token_s == Approx(3));
    CHECK(times[i]->preemptions == 0);
  }
  REQUIRE(times[2]);
  CHECK(times[2]->first_token_s == Approx(1.5));
  CHECK(times[2]->last_token_s == Approx(2.5));
}

TEST_CASE("A replay leaves out what is rejected and counts preemptions", "[unit]") {
  FakeModel model;
  // 4,090 + 10 tokens are more than the context.
  const auto times = replay(parts(model), {{0, 4090, 10}, {0, 100, 3}});
  CHECK_FALSE(times[0]);
  REQUIRE(times[1]);
  CHECK(times[1]->last_token_s == Approx(3));
  // 5 blocks hold two prompts of 32 tokens (2 blocks each) and one block more: both want a third for the 33rd token,
  // the later one goes and comes again when the first has ended.
  const auto few = replay(parts(model, 5), {{0, 32, 8}, {0, 32, 8}});
  REQUIRE(few[0]);
  REQUIRE(few[1]);
  CHECK(few[0]->preemptions == 0);
  CHECK(few[1]->preemptions == 1);
  CHECK(few[0]->last_token_s == Approx(8));
  CHECK(few[1]->last_token_s > 8);
}

TEST_CASE("A replay over several replicas sends requests in turn", "[unit]") {
  FakeModel model;
  model.cost_ps = [](const BatchShape& shape) { return kSecond * shape.sequences; };  // a second a sequence
  const std::vector<ReplayRequest> four(4, {0, 10, 1});
  ReplayParts two = parts(model);
  two.replicas = 2;
  for (const auto& times : replay(two, four)) CHECK(times.value().first_token_s == Approx(2));
  for (const auto& times : replay(parts(model), four)) CHECK(times.value().first_token_s == Approx(4));
}

TEST_CASE("Ranks that share experts wait for the fullest", "[unit]") {
  FakeModel model;
  model.cost_ps = [](const BatchShape& shape) { return kSecond * shape.sequences; };  // a second a sequence
  // Requests 0 and 2 lie on rank 0, 1 on rank 1: two sequences against one. Alone rank 1 takes two seconds for two
  // tokens; in lock step each of its iterations lasts as long as the other's, two seconds.
  const std::vector<ReplayRequest> three(3, {0, 10, 2});
  ReplayParts apart = parts(model);
  apart.replicas = 2;
  ReplayParts together = apart;
  together.lock_step = true;
  CHECK(replay(apart, three)[1].value().last_token_s == Approx(2));
  for (const auto& times : replay(together, three)) CHECK(times.value().last_token_s == Approx(4));
  // One that comes in the middle of a step, to an idle rank, waits for its end: at 1 s, for 2 s.
  const auto late = replay(together, {{0, 10, 2}, {0, 10, 1}, {0, 10, 2}, {1, 10, 1}});
  CHECK(late[3].value().first_token_s == Approx(3));
  // Control: equal ranks wait for nobody.
  const std::vector<ReplayRequest> four(4, {0, 10, 2});
  for (std::size_t i = 0; i < four.size(); ++i)
    CHECK(replay(together, four)[i].value().last_token_s == Approx(replay(apart, four)[i].value().last_token_s));
}

TEST_CASE("Replays leap exactly", "[prop]") {
  FakeModel model;
  sim::RandomStream random(7, "replay");
  std::vector<ReplayRequest> requests;
  double now = 0;
  for (int i = 0; i < 100; ++i) {
    now += static_cast<double>(random.below(5000)) * 1e-3;
    requests.push_back(
        {now, 1 + static_cast<std::int64_t>(random.below(300)), 1 + static_cast<std::int64_t>(random.below(60))});
  }
  ReplayParts leaping = parts(model, 60), stepping = parts(model, 60);
  stepping.leap = false;
  const auto a = replay(leaping, requests), b = replay(stepping, requests);
  std::int64_t preemptions = 0;
  for (std::size_t i = 0; i < requests.size(); ++i) {
    REQUIRE(a[i].has_value() == b[i].has_value());
    if (!a[i]) continue;
    CHECK(a[i]->first_token_s == b[i]->first_token_s);
    CHECK(a[i]->last_token_s == b[i]->last_token_s);
    CHECK(a[i]->preemptions == b[i]->preemptions);
    preemptions += a[i]->preemptions;
  }
  CHECK(preemptions > 0);
}

TEST_CASE("A table of a vLLM run says what the serving system says of the same requests", "[golden]") {
  const Scratch scratch;
  fs::create_directories(scratch / "serving");
  std::string rows = "request,arrived_at,num_prefill_tokens,num_decode_tokens,first_token_at,last_token_at\n";
  std::string trace = "arrived_s,prompt_tokens,output_tokens\n";
  for (int i = 0; i < 30; ++i) {
    const double at = 0.25 * i;
    const int prompt = 50 + 37 * i, output = 2 + 5 * i;
    rows += fmt::format("r{},{},{},{},{},{}\n", i, at, prompt, output, at + 0.1, at + 0.1 + 0.02 * (output - 1));
    trace += fmt::format("{},{},{}\n", at, prompt, output);
  }
  scratch.write("serving/vllm_RTX4090_Llama-3.1-8B.csv", rows);
  scratch.write("serving/vllm_RTX4090_Llama-3.1-8B.meta.json",
                R"({"model": "meta-llama/Llama-3.1-8B", "engine_kwargs": {"max_num_seqs": 64,
                    "max_num_batched_tokens": 1024, "max_model_len": 4096}, "kv_cache": {"num_gpu_blocks": 2001}})");
  const fs::path log = scratch.write("trace.csv", trace);

  const PartShelf shelf(home_folder() / "hw/catalog");
  Predictions out;
  serving_vllm_tables()->predict(MeasuredTable::read(scratch / "", "serving/vllm_RTX4090_Llama-3.1-8B.csv"), shelf,
                                 out);
  const Predictions::Column& ttft = column(out, "ttft.model");
  REQUIRE(ttft.rows.size() == 30);
  for (const Predictions::Row& row : ttft.rows) CHECK(row.measured == Approx(0.1));
  for (const Predictions::Row& row : column(out, "tpot.model").rows) CHECK(row.measured == Approx(0.02));
  // There are no operator tables in the folder.
  CHECK(column(out, "ttft.tables").uncovered == 30);
  CHECK(column(out, "ttft.tables").rows.empty());

  // A block is never handed out: 2,000 of the 2,001.
  const ServingResult run = run_config(
      R"({"kind": "experiment", "version": 1, "system": "serving", "machine": {"devices": [{"part": "rtx-4090"}]},
        "model": {"config": "catalog:llama-3.1-8b", "dtype": "bf16", "sampler": "random"},
        "workload": {"trace": {"format": "orrery_csv", "path": ")" +
      log.string() +
      R"("}}, "policies": {"batching": {"policy": "vllm_v1", "vllm_v1": {"max_num_batched_tokens": 1024,
        "max_num_seqs": 64, "room_for_prompt": true}}, "kvcache": {"policy": "block_hash"}},
        "host": {"policy": "vllm_v1"}, "replica": {"max_context": 4096, "kv_blocks": 2000}})");
  REQUIRE(run.metrics.completed == 30);
  const sim::Node summary = summarise(run, sim::TickScale{});
  const auto mean = [&](const char* metric) { return column(out, metric).rows.at(0).predicted; };
  CHECK(mean("mean_ttft.model") == Approx(summary.at("ttft_s.mean")->as_number()).epsilon(1e-9));
  CHECK(mean("mean_tpot.model") == Approx(summary.at("tpot_s.mean")->as_number()).epsilon(1e-9));
  CHECK(mean("mean_e2e.model") == Approx(summary.at("e2e_s.mean")->as_number()).epsilon(1e-9));
}

}  // namespace test_replay
