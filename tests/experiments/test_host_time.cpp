// What the CPU does between iterations: stages, what hides them, and that leaps stay exact.
#include "experiments/systems/serving/pricing/host_time.hpp"

#include <catch2/catch.hpp>

#include "tests/experiments/bench_replica.hpp"

namespace test_host_time {

using namespace orrery;
using namespace orrery::experiments;
using namespace orrery::experiments::test;
using orrery::policies::test::make_batching;

namespace {

constexpr std::int64_t kUs = 1'000'000;  // ps

HostStages stages() {
  return {.schedule_s = 10e-6,
          .schedule_sequence_s = 1e-6,
          .prepare_s = 20e-6,
          .prepare_token_s = 0.5e-6,
          .launch_layer_s = 2e-6,
          .graph_launch_s = 5e-6,
          .graph_tokens = 8,
          .sample_s = 3e-6,
          .detokenise_sequence_s = 4e-6};
}

BatchShape decodes(std::int64_t n) {
  BatchShape shape;
  shape.sequences = shape.logit_rows = n;
  Segment segment{.first = 0, .last = 32, .tokens = n};
  segment.decode = {n, 100 * n};
  shape.segments.push_back(segment);
  return shape;
}

}  // namespace

TEST_CASE("stages of the host add up unless they are hidden", "[unit]") {
  // Four decodes: schedule 10 + 4, prepare 20 + 2, sample 3, detokenise 16 us: 55; the graph takes 5 to launch.
  const StagedHostTime serial(stages(), {});
  IterationPrice price{.time_ps = 100 * kUs, .step_ps = 7, .horizon = 50};
  serial.apply(decodes(4), price);
  CHECK(price.time_ps == 155 * kUs);
  CHECK(price.step_ps == 7);
  CHECK(price.horizon == 50);

  // Nine tokens are past the graphs: 32 layers at 2 us are launched one by one, which takes longer than 50 us of
  // kernels. Exposed: 10 + 9 + 20 + 4.5 + 3 + 36 = 82.5.
  price = {.time_ps = 50 * kUs, .step_ps = 0, .horizon = 50};
  serial.apply(decodes(9), price);
  CHECK(price.time_ps == 64 * kUs + 82 * kUs + kUs / 2);

  // All hidden: 55 + 5 = 60 us of CPU beside the devices.
  const StagedHostTime hidden(stages(), {true, true, true, true, true});
  price = {.time_ps = 100 * kUs, .step_ps = 7, .horizon = 50};
  hidden.apply(decodes(4), price);
  CHECK(price.time_ps == 100 * kUs);
  CHECK(price.horizon == 50);
  CHECK(hidden.decides_ahead());
}

TEST_CASE("launching kernels one by one is a floor, and graphs are none", "[unit]") {
  HostStages one_by_one = stages();
  one_by_one.launch_layer_s = 0;
  one_by_one.launch_kernel_s = 3e-6;
  const StagedHostTime host(one_by_one, {});
  // Nine tokens are past the graphs: 400 kernels at 3 us are 1.2 ms, longer than 0.5 ms of devices. Exposed 82.5 us.
  IterationPrice price{.time_ps = 500 * kUs, .launches = 400};
  host.apply(decodes(9), price);
  CHECK(price.time_ps == 1200 * kUs + 82 * kUs + kUs / 2);
  // Where devices take longer launches do not show.
  price = {.time_ps = 2000 * kUs, .launches = 400};
  host.apply(decodes(9), price);
  CHECK(price.time_ps == 2000 * kUs + 82 * kUs + kUs / 2);
  // Four are a graph: 5 us to launch.
  price = {.time_ps = 100 * kUs, .launches = 400};
  host.apply(decodes(4), price);
  CHECK(price.time_ps == 155 * kUs);
}

TEST_CASE("the profile of vLLM of 2024: graphs for decodes alone, requests that take their time", "[unit]") {
  HostRegistry registry("host");
  register_host_times(registry);
  sim::Faults faults;
  const auto host = registry.prepare("vllm_2024", nullptr, {}, faults).make(std::nullopt);
  CHECK(host->request_s() == Approx(14e-3));
  CHECK_FALSE(host->decides_ahead());
  IterationPrice price{.time_ps = 20'000 * kUs, .launches = 1000};
  host->apply(decodes(4), price);
  CHECK(price.time_ps == (20'000 + 1600 + 4 * 270) * kUs);
  BatchShape mixed = decodes(4);
  mixed.segments[0].prefill.add(10, 0);
  price = {.time_ps = 10'000 * kUs, .launches = 1000};
  host->apply(mixed, price);
  CHECK(price.time_ps == (17'000 + 1600 + 4 * 270) * kUs);  // 1,000 kernels at 17 us
}

TEST_CASE("the profile of TensorRT-LLM: a step ahead, graphs for decodes, kernels of prompts one by one", "[unit]") {
  HostRegistry registry("host");
  register_host_times(registry);
  sim::Faults faults;
  const auto host = registry.prepare("tensorrt_llm", nullptr, {}, faults).make(std::nullopt);
  CHECK(host->request_s() == Approx(22e-3));
  CHECK(host->decides_ahead());
  IterationPrice price{.time_ps = 5'000 * kUs, .launches = 1000};
  host->apply(decodes(4), price);
  CHECK(price.time_ps == (5'000 + 4 * 2) * kUs);
  BatchShape mixed = decodes(4);
  mixed.segments[0].prefill.add(10, 0);
  price = {.time_ps = 10'000 * kUs, .launches = 1000};
  host->apply(mixed, price);
  CHECK(price.time_ps == (30'000 + 4 * 2) * kUs);  // 1,000 kernels at 30 us
}

TEST_CASE("the profiles of engines in C++: launches at the driver's pace, a scheduler's messages", "[unit]") {
  HostRegistry registry("host");
  register_host_times(registry);
  sim::Faults faults;
  const auto time_us = [&](const char* name, std::int64_t device_us) {
    IterationPrice price{.time_ps = device_us * kUs, .launches = 1000};
    registry.prepare(name, nullptr, {}, faults).make(std::nullopt)->apply(decodes(4), price);
    return static_cast<double>(price.time_ps) / static_cast<double>(kUs);
  };
  // 1,000 kernels at 2.62 us are 2.62 ms: longer than devices of 2 ms, hidden under 5 ms.
  CHECK(time_us("fastertransformer", 2'000) == Approx(2'620));
  CHECK(time_us("fastertransformer", 5'000) == Approx(5'000));
  CHECK(time_us("orca", 5'000) == Approx(5'100));
}

TEST_CASE("launching counts every layer once, however the batch is cut", "[unit]") {
  // Kernels one by one: 7 us and 2 us a layer; a graph: 5 us and 3 us a layer. 32 layers in one segment, or in two of 8
  // and 24, take 71 or 101 us beside the devices' 10; the last 24 alone 55 or 77 us.
  HostStages host;
  host.launch_s = 7e-6;
  host.launch_layer_s = 2e-6;
  host.graph_launch_s = 5e-6;
  host.graph_launch_layer_s = 3e-6;
  host.graph_tokens = 8;
  host.graph_prompts = false;
  const StagedHostTime time(host, {});
  const auto length = [&](const BatchShape& shape) {
    IterationPrice price{.time_ps = 10 * kUs};
    time.apply(shape, price);
    return price.time_ps / kUs;
  };
  for (const std::int64_t n : {8, 9}) {  // as a graph, or not
    CAPTURE(n);
    CHECK(length(decodes(n)) == (n == 8 ? 101 : 71));
    BatchShape cut = decodes(n);
    cut.segments.push_back(cut.segments.front());
    cut.segments[0].last = cut.segments[1].first = 8;
    CHECK(length(cut) == (n == 8 ? 101 : 71));
    cut.segments.erase(cut.segments.begin());
    CHECK(length(cut) == (n == 8 ? 77 : 55));
  }
  BatchShape prompt = decodes(4);  // a prompt is no part of these graphs
  prompt.segments[0].prefill.add(4, 0);
  CHECK(length(prompt) == 71);
}

TEST_CASE("a pace set by the CPU ends where the devices overtake it", "[unit]") {
  // CPU 60 us; devices 57 + i us: the CPU's pace for i = 0, 1, 2; at i = 3 both are 60, and the devices' line begins.
  const StagedHostTime hidden(stages(), {true, true, true, true, true});
  IterationPrice price{.time_ps = 57 * kUs, .step_ps = kUs, .horizon = 50};
  hidden.apply(decodes(4), price);
  CHECK(price.time_ps == 60 * kUs);
  CHECK(price.step_ps == 0);
  CHECK(price.horizon == 3);
  // A picosecond more to wait is a further iteration: 58 us less 1 ps + i us for i = 0, 1, 2.
  price = {.time_ps = 58 * kUs - 1, .step_ps = kUs, .horizon = 50};
  hidden.apply(decodes(4), price);
  CHECK(price.time_ps == 60 * kUs);
  CHECK(price.horizon == 3);
  // Devices that grow faster with context: 62 - i us hold for i = 0, 1, 2.
  price = {.time_ps = 62 * kUs, .step_ps = -kUs, .horizon = 50};
  hidden.apply(decodes(4), price);
  CHECK(price.time_ps == 62 * kUs);
  CHECK(price.horizon == 3);
}

TEST_CASE("every horizon of a host is true", "[prop]") {
  const StagedHostTime host(stages(), {false, true, true, false, true});
  for (std::int64_t time = 1; time < 90; time += 4) {
    for (const std::int64_t step : {-3, 0, 2, 5}) {
      IterationPrice price{.time_ps = time * kUs, .step_ps = step * kUs, .horizon = step < 0 ? time / 3 + 1 : 40};
      const std::int64_t whole = price.horizon;
      host.apply(decodes(6), price);
      REQUIRE(price.horizon >= 1);
      REQUIRE(price.horizon <= whole);
      for (std::int64_t i = 0; i < price.horizon; ++i) {
        IterationPrice alone{.time_ps = (time + i * step) * kUs};
        host.apply(decodes(6), alone);
        CHECK(alone.time_ps == price.time_ps + i * price.step_ps);
      }
    }
  }
}

TEST_CASE("who decides ahead admits whoever came before the last iteration began", "[unit]") {
  // Iterations of 2 s. The first request decodes from 2 s on; the second comes at 5 s, in the iteration [4,6), when
  // [6,8) is settled: it runs in [8,10). Without, it would run in [6,8).
  HostRegistry registry("host");
  register_host_times(registry);
  for (const bool ahead : {false, true}) {
    sim::Faults faults;
    const sim::Node params = sim::parse_json(ahead ? R"({"ahead": true})" : R"({"ahead": false})", "test");
    const auto host = registry.prepare("overlapped", &params, {}, faults).make(std::nullopt);
    faults.throw_if_any();
    BenchReplica bench(make_batching("orca", R"({"reservation": "oracle"})"), 1000, nullptr, host.get());
    bench.model.cost_ps = [](const BatchShape&) { return 2 * kSecond; };
    bench.arrive(0, 10, 8);
    bench.arrive(5, 10, 1);
    bench.run();
    const RequestRecord& second = bench.log.requests[0];
    CHECK(second.id == 1);
    CHECK(bench.seconds(second.first_token) == (ahead ? 10 : 8));
    CHECK(bench.metrics.completed == 2);
    CHECK(bench.replica->idle());
  }
}

TEST_CASE("a replica that decides ahead and idles takes whoever comes at once", "[unit]") {
  const StagedHostTime host({}, {true, true, true, true, true});
  BenchReplica bench(make_batching("vllm_v0"), 20, nullptr, &host);
  bench.model.cost_ps = [](const BatchShape&) { return 2 * kSecond; };
  bench.arrive(0, 400, 10);  // 25 blocks of 20: never
  bench.arrive(1, 10, 1);    // [1,3)
  bench.arrive(2, 10, 1);    // all that ran has ended at 3: it starts then
  bench.run();
  CHECK(bench.log.statuses == std::vector<std::string>{"rejected:unschedulable", "completed", "completed"});
  CHECK(bench.seconds(bench.log.requests[1].first_token) == 3);
  CHECK(bench.seconds(bench.log.requests[2].first_token) == 5);
}

}  // namespace test_host_time
