// What binds and why: hand-made iterations and requests, the arithmetic in the comments.
#include <catch2/catch.hpp>

#include "experiments/systems/serving/system.hpp"

namespace test_latency_causes {

using namespace orrery;
using namespace orrery::experiments;
using Catch::Contains;

namespace {

constexpr std::int64_t kMs = 1'000'000'000;  // ps, and ticks

IterationRun iterations(std::int64_t ms, std::int64_t prefill, std::int64_t decodes, std::int64_t count = 1,
                        std::int64_t step_us = 0) {
  IterationRun run;
  run.time_ps = ms * kMs;
  run.step_ps = step_us * kMs / 1000;
  run.count = count;
  run.prefill_tokens = prefill;
  run.decodes = decodes;
  return run;
}

RequestRecord request(std::int64_t admitted_ms, std::int64_t first_ms, std::int64_t prompt = 100) {
  RequestRecord record;
  record.prompt_tokens = prompt;
  record.admitted = sim::Time{admitted_ms * kMs};
  record.first_token = sim::Time{first_ms * kMs};
  record.finished = sim::Time{first_ms * kMs + 1};
  record.status = "completed";
  return record;
}

/// A result in which so many of 100 requests miss each target.
ServingResult missed(std::int64_t ttft, std::int64_t tbt) {
  ServingResult result;
  result.metrics.arrived = result.metrics.measured = 100;
  result.metrics.verdicts.missed_ttft = ttft;
  result.metrics.verdicts.missed_tbt = tbt;
  return result;
}

}  // namespace

TEST_CASE("Gaps above the target are counted by their decodes and divided by prompt chunks", "[unit]") {
  LatencyCauses causes({.tbt_s = 0.05}, nullptr);
  causes.iterations_ended(iterations(100, 2000, 10));  // ten gaps of 100 ms
  causes.iterations_ended(iterations(200, 1000, 30));  // thirty of 200 ms
  causes.iterations_ended(iterations(60, 0, 10));      // ten of decodes alone
  causes.iterations_ended(iterations(40, 500, 50));    // within the target
  causes.iterations_ended(iterations(300, 4000, 0));   // nobody waits
  const Binding binding = causes.binding(missed(0, 20).watched());
  CHECK(binding.target == "tbt");
  CHECK(binding.cause == Cause::prompt_chunk);
  CHECK(binding.missed == Approx(0.2));
  // Means over gaps: (10 * 2000 + 30 * 1000) / 40 = 1250 prompt tokens, (10 * 10 + 30 * 30) / 40 = 25 decodes,
  // (10 * 100 + 30 * 200) / 40 = 175 ms; 40 of 50 gaps.
  CHECK(binding.text ==
        "iterations with a chunk of prompt tokens (mean 1250, at most 2000) beside 25 decodes take 175 ms; "
        "they are 80 % of the gaps above the target");
}

TEST_CASE("Of iterations that get longer, the last ones are above the target", "[unit]") {
  LatencyCauses causes({.tbt_s = 0.05}, nullptr);
  // 48 ms, 49, 50, 51, 52 ms: two of five, of 51.5 ms in the mean.
  causes.iterations_ended(iterations(48, 0, 8, 5, 1000));
  const Binding binding = causes.binding(missed(0, 1).watched());
  CHECK(binding.cause == Cause::decode_batch);
  CHECK(binding.text == "iterations of 8 decodes alone take 51.5 ms; they are 100 % of the gaps above the target");
}

TEST_CASE("Who misses TTFT in the queue, and who by the prompt itself", "[unit]") {
  LatencyCauses queue({.ttft_s = 1}, nullptr);
  queue.request_ended(request(1500, 2000));  // 1.5 s of 2 s in the queue
  queue.request_ended(request(2500, 3000));
  queue.request_ended(request(10, 900, 9999));  // within the target
  const Binding queued = queue.binding(missed(2, 0).watched());
  CHECK(queued.target == "ttft");
  CHECK(queued.cause == Cause::queueing);
  CHECK_THAT(queued.text, Contains("wait 2 s of 2.5 s"));
  LatencyCauses prompts({.ttft_s = 1}, nullptr);
  prompts.request_ended(request(100, 2100, 8000));
  const Binding long_prompt = prompts.binding(missed(1, 0).watched());
  CHECK(long_prompt.cause == Cause::prompt);
  CHECK_THAT(long_prompt.text, Contains("8000 prompt tokens") && Contains("2 s from admission"));
}

TEST_CASE("A queue behind a full KV cache is the cache's", "[unit]") {
  LatencyCauses causes({.ttft_s = 1}, nullptr);
  causes.request_ended(request(1500, 2000));
  ServingResult result = missed(1, 0);
  result.machine.groups.push_back({.kv_capacity_bytes = 100});
  result.replicas.push_back({.kv_peak_bytes = 99});
  CHECK(causes.binding(result.watched()).cause == Cause::kv_blocks);
  result.replicas.front().kv_peak_bytes = 90;
  CHECK(causes.binding(result.watched()).cause == Cause::queueing);
}

TEST_CASE("The target that more requests miss binds; rejections and preemptions go before", "[unit]") {
  LatencyCauses causes({.ttft_s = 1, .tbt_s = 0.05}, nullptr);
  causes.request_ended(request(1500, 2000));
  causes.iterations_ended(iterations(100, 2000, 10));
  CHECK(causes.binding(missed(3, 2).watched()).target == "ttft");
  CHECK(causes.binding(missed(2, 3).watched()).target == "tbt");
  CHECK(causes.binding(missed(0, 0).watched()).target.empty());
  ServingResult result = missed(3, 2);
  result.metrics.rejected = 4;
  CHECK(causes.binding(result.watched()).cause == Cause::rejection);
  result = missed(0, 4);
  result.metrics.verdicts.missed_tbt_preempted = 3;
  CHECK(causes.binding(result.watched()).cause == Cause::preemption);
}

TEST_CASE("Long gaps of devices that wait for the host are the host's", "[unit]") {
  LatencyCauses causes({.tbt_s = 0.05}, nullptr);
  causes.iterations_ended(iterations(100, 0, 4));
  ServingResult result = missed(0, 1);
  result.metrics.busy_ps = 100 * kMs;
  result.metrics.cost.time_ps = 20 * kMs;  // 80 of 100 ms are not the devices'
  const Binding binding = causes.binding(result.watched());
  CHECK(binding.cause == Cause::host);
  CHECK_THAT(binding.text, Contains("80 % of their time devices wait for the host"));
  result.metrics.cost.time_ps = 60 * kMs;
  CHECK(causes.binding(result.watched()).cause == Cause::decode_batch);
}

TEST_CASE("Iterations that mostly wait for weights outside device memory are these weights'", "[unit]") {
  LatencyCauses causes({.ttft_s = 1, .tbt_s = 0.05}, nullptr);
  causes.iterations_ended(iterations(100, 0, 4));
  causes.request_ended(request(100, 2100, 8000));
  ServingResult result = missed(0, 1);
  result.metrics.busy_ps = result.metrics.cost.time_ps = 100 * kMs;
  result.metrics.cost.class_ps[static_cast<std::size_t>(hw::OpClass::copy)] = 60 * kMs;
  CHECK(causes.binding(result.watched()).cause == Cause::host_memory);
  CHECK(causes.binding(result.watched()).text ==
        "iterations take 100 ms: devices wait for weights that are not in their memory for 60 % of their time");
  result.metrics.cost.class_ps[static_cast<std::size_t>(hw::OpClass::copy)] = 40 * kMs;
  CHECK(causes.binding(result.watched()).cause == Cause::decode_batch);
  ServingResult late = missed(1, 0);
  late.metrics.busy_ps = late.metrics.cost.time_ps = 100 * kMs;
  late.metrics.cost.class_ps[static_cast<std::size_t>(hw::OpClass::copy)] = 60 * kMs;
  CHECK(causes.binding(late.watched()).cause == Cause::host_memory);
  CHECK_THAT(causes.binding(late.watched()).text,
             Contains("prompts take 2 s from admission to the first token: devices wait") && Contains("60 %"));
  // Four stages of a pipeline that are at work side by side: 60 of their 400 ms.
  result.metrics.cost.class_ps[static_cast<std::size_t>(hw::OpClass::copy)] = 60 * kMs;
  result.metrics.cost.time_ps = 400 * kMs;
  CHECK(causes.binding(result.watched()).cause == Cause::decode_batch);
}

TEST_CASE("Iterations of prompts alone count by the decodes that wait for them", "[unit]") {
  LatencyCauses causes({.tbt_s = 0.05}, nullptr);
  IterationRun prompts = iterations(120, 3000, 0);
  prompts.running = 12;
  prompts.chunks = 2;  // ten wait
  causes.iterations_ended(prompts);
  const Binding binding = causes.binding(missed(0, 1).watched());
  CHECK(binding.cause == Cause::prompt_first);
  CHECK_THAT(binding.text, Contains("3000 tokens") && Contains("120 ms while 10 decodes wait"));
}

TEST_CASE("What is seen does not depend on how iterations are grouped", "[prop]") {
  LatencyCauses together({.tbt_s = 0.05}, nullptr);
  LatencyCauses apart({.tbt_s = 0.05}, nullptr);
  together.iterations_ended(iterations(45, 0, 7, 20, 700));
  for (std::int64_t i = 0; i < 20; ++i) {
    IterationRun one = iterations(45, 0, 7);
    one.time_ps += i * 700 * kMs / 1000;
    apart.iterations_ended(one);
  }
  CHECK(together.binding(missed(0, 1).watched()).text == apart.binding(missed(0, 1).watched()).text);
}

}  // namespace test_latency_causes
