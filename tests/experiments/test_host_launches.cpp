// Launches counted from kernels: the floor under iterations and stages, TKLQT, and when it makes no difference.
#include <fmt/format.h>

#include "experiments/systems/serving/pricing/device_iteration.hpp"
#include "experiments/systems/serving/pricing/host_time.hpp"
#include "hw/cost/cost_model.hpp"
#include "hw/coupling/launch_figures.hpp"
#include "hw/coupling/launch_program.hpp"
#include "tests/experiments/leaps.hpp"
#include "tests/serving/run_config.hpp"

namespace test_host_launches {

using namespace orrery;
using namespace orrery::experiments;
using namespace orrery::experiments::test;

namespace {

constexpr std::int64_t kUs = 1'000'000;  // ps

BatchShape decodes(std::int64_t n, std::int32_t layers = 32) {
  BatchShape shape;
  shape.sequences = shape.logit_rows = n;
  Segment segment{.first = 0, .last = layers, .tokens = n};
  segment.decode = {n, 100 * n};
  shape.segments.push_back(segment);
  return shape;
}

/// Requests of 128 tokens and 128 more, up to 16 at a time.
std::string config(const std::string& machine, const std::string& more = "", int requests = 16) {
  return R"({"system": "serving", "machine": {)" + machine + R"(},
    "model": {"config": "catalog:llama-3.1-8b", "dtype": "fp16"},
    "workload": {"generator": {"requests": )" +
         std::to_string(requests) + R"(, "arrivals": {"policy": "fixed", "fixed": {"rate": "1e9 1/s"}},
      "lengths": {"policy": "fixed", "fixed": {"prompt": 128, "output": 128}}}},
    "policies": {"batching": {"policy": "static", "static": {"max_sequences": 16, "reservation": "oracle"}}})" +
         more + "}";
}
std::string gh200(const std::string& platform = "", int count = 1) {
  return R"("devices": [{"part": "gh200-96gb", "count": )" + std::to_string(count) +
         R"(}], "platform": {"part": "platform-gh200")" + platform + "}";
}

}  // namespace

TEST_CASE("a price tells what host and devices had to do, and how long kernels wait for their turn", "[unit]") {
  // Devices 100 us and 7 us more an iteration, the host 30 us of launches and 10 us beside; 20 us that devices wait.
  const HostWork work{.exposed_ps = 20 * kUs,
                      .hidden_ps = 10 * kUs,
                      .launch_ps = 30 * kUs,
                      .calls = 11,
                      .latency_ps = 2 * kUs,
                      .longer_ps = 5 * kUs};
  IterationPrice price{.time_ps = 95 * kUs, .step_ps = 7 * kUs, .horizon = 50};
  lengthen(work, price);
  CHECK(price.time_ps == 120 * kUs);
  CHECK(price.step_ps == 7 * kUs);
  CHECK(price.horizon == 50);
  CHECK(price.host.exposed_ps == 20 * kUs);
  CHECK(price.host.beside_ps == 40 * kUs);
  CHECK(price.host.device_ps == 100 * kUs);
  CHECK(price.host.device_step_ps == 7 * kUs);
  // Each call 2 us; the i-th of 11 kernels is i/10 of the 60 us late by which the host is ahead: 60 x 10/2 us.
  CHECK(price.host.queued2_ps == 2 * (11 * 2 + 300) * kUs);
  CHECK(price.host.queued2_step_ps == 10 * 7 * kUs);

  // Devices of 20 us: the host sets the pace, and kernels wait for nothing but their latency.
  price = {.time_ps = 15 * kUs, .step_ps = 3 * kUs, .horizon = 50};
  lengthen(work, price);
  CHECK(price.time_ps == (40 + 20) * kUs);
  CHECK(price.step_ps == 0);
  CHECK(price.horizon == 7);  // 20 + 3 i < 40 for i < 7
  CHECK(price.host.device_ps == 20 * kUs);
  CHECK(price.host.device_step_ps == 3 * kUs);
  CHECK(price.host.queued2_ps == 2 * 11 * 2 * kUs);
  CHECK(price.host.queued2_step_ps == 0);

  // At equality the devices do: nothing is late yet. No calls at all leave nothing to wait.
  price = {.time_ps = 35 * kUs, .step_ps = 0, .horizon = 9};
  lengthen(work, price);
  CHECK(price.time_ps == 60 * kUs);
  CHECK(price.horizon == 9);
  CHECK(price.host.queued2_ps == 2 * 11 * 2 * kUs);
  price = {.time_ps = 50 * kUs};
  lengthen({.launch_ps = kUs}, price);
  CHECK(price.host.queued2_ps == 0);
}

TEST_CASE("launches are counted by kernel, by graph, by pieces of graphs, and for each pass of a draft", "[unit]") {
  const LaunchCosts platform{
      .kernel_s = 15e-6, .graph_call_s = 2.5e-6, .latency_s = 3e-6, .node_s = 0.5e-6, .core_speed = 0.5};
  HostStages stages{.schedule_s = 10e-6, .launch_s = 1, .launch_layer_s = 1, .graph_launch_s = 1, .graph_tokens = 8};
  const IterationPrice target{.launches = 388};
  // Three draft steps of 2 layers and 20 kernels each.
  const IterationPrice drafted{.launches = 388 + 60, .draft_passes = 3, .draft_layers = 6};

  const StagedHostTime serial(stages, {}, platform);
  HostWork work = serial.work(decodes(9), target);  // past the graphs: 388 x 15 us
  CHECK(work.launch_ps == 5820 * kUs);
  CHECK(work.calls == 388);
  CHECK(work.longer_ps == 0);
  CHECK(work.latency_ps == 3 * kUs);
  CHECK(work.exposed_ps == (20 + 3) * kUs);  // 10 us of a core of half the speed; an idle device waits for its first
  CHECK(serial.work(decodes(9), drafted).launch_ps == (5820 + 900) * kUs);

  work = serial.work(decodes(8), target);  // one call; 388 nodes of 0.5 us more
  CHECK(work.launch_ps == 2 * kUs + kUs / 2);
  CHECK(work.calls == 1);
  CHECK(work.longer_ps == 194 * kUs);
  work = serial.work(decodes(8), drafted);  // four graphs
  CHECK(work.launch_ps == 10 * kUs);
  CHECK(work.calls == 4);

  stages.graph_launch_layer_s = 1;  // in pieces: 32 layers x (2.5 + 15) us, and the call of the rest
  const StagedHostTime pieces(stages, {}, platform);
  work = pieces.work(decodes(8), target);
  CHECK(work.launch_ps == (560 + 2) * kUs + kUs / 2);
  CHECK(work.calls == 1 + 2 * 32);
  CHECK(pieces.work(decodes(8), drafted).calls == 4 + 2 * 38);

  // Who decides ahead has handed over more before the devices are idle.
  const StagedHostTime ahead(stages, {true, true, true, true, true}, platform);
  CHECK(ahead.work(decodes(9), target).exposed_ps == 0);
  CHECK(ahead.work(decodes(9), target).hidden_ps == 20 * kUs);

  // Without a platform drafts cost their passes and layers: 388 kernels are no more than 388 calls.
  const StagedHostTime own({.launch_s = 7e-6, .launch_layer_s = 2e-6}, {});
  CHECK(own.work(decodes(9), target).launch_ps == (7 + 64) * kUs);
  CHECK(own.work(decodes(9), drafted).launch_ps == (4 * 7 + 38 * 2) * kUs);
  CHECK(own.work(decodes(9), drafted).calls == 448);
}

TEST_CASE("figures of a leap are those of its iterations", "[prop]") {
  for (const std::int64_t step : {-3, 0, 4}) {
    IterationPrice price{.time_ps = 400 * kUs, .step_ps = step, .horizon = 60};
    lengthen({.exposed_ps = 5, .hidden_ps = 7, .launch_ps = 100 * kUs, .calls = 12, .latency_ps = 9}, price);
    HostRegime leap, steps;
    leap.book(price.host, 0, 17);
    leap.book(price.host, 17, 23);
    for (std::int64_t i = 0; i < 40; ++i) {
      IterationPrice alone{.time_ps = 400 * kUs + i * step, .horizon = 1};
      lengthen({.exposed_ps = 5, .hidden_ps = 7, .launch_ps = 100 * kUs, .calls = 12, .latency_ps = 9}, alone);
      steps.book(alone.host, 0, 1);
    }
    CHECK(leap.iterations == 40);
    CHECK(leap.calls == 480);
    CHECK(leap.exposed_ps == steps.exposed_ps);
    CHECK(leap.beside_ps == steps.beside_ps);
    CHECK(leap.device_ps == steps.device_ps);
    CHECK(leap.queued2_ps == steps.queued2_ps);
    CHECK(leap.host_paced == 0);
  }
  HostRegime paced;
  paced.book({.beside_ps = 3, .device_ps = 2}, 0, 5);
  paced.book({.beside_ps = 2, .device_ps = 2}, 0, 4);  // neither waits for the other
  CHECK(paced.host_paced == 5);
}

TEST_CASE("the slower of host and device is what launching kernel by kernel comes to", "[prop]") {
  // Every kernel of a decode step of Llama-3.1-8B through the recurrence of a stream. What the closed form leaves out
  // is that the last kernels cannot run before they are launched: the head's product, 0.3 of the 5.9 ms of a host-bound
  // step on a GH200.
  const auto catalog = home_folder() / "hw/catalog";
  const models::Transformer model = models::build_transformer(
      models::load_model("catalog:llama-3.1-8b", home_folder() / "models/catalog"), hw::DType::fp16, 1);
  const auto kernels = model_kernels(model);
  const sim::TickScale scale;
  for (const char* name : {"platform-a100-epyc7313", "platform-h100pcie-xeon8468v", "platform-gh200"}) {
    const hw::Platform platform = hw::read_platform(name, catalog);
    const hw::Device device = hw::device_of(platform.gpu);
    DeviceIterationModel exactly(model, hw::with_launch(device, platform.params.launch.null_kernel_s));
    IterationModel& devices = exactly;
    const double kernel_s = hw::dispatch_time(platform, 0) + platform.params.launch.call_s;
    const StagedHostTime host({}, {}, LaunchCosts{.kernel_s = kernel_s, .latency_s = platform.params.launch.latency_s});
    for (const std::int64_t batch : {1, 8, 64, 256}) {
      CAPTURE(name, batch);
      models::Launches launches;
      kernels->embedding(batch, launches);
      for (const std::int32_t kind : kernels->kind_of()) {
        kernels->dense(static_cast<std::size_t>(kind), {.decode = batch}, launches);
        kernels->attention(static_cast<std::size_t>(kind), {}, {batch, 100 * batch}, launches);
      }
      kernels->head(batch, launches);
      std::vector<hw::LaunchedKernel> launched;
      for (const hw::Kernel& kernel : launches.kernels) launched.push_back({.name = "", .kernel = kernel});
      const auto program = hw::build_program(platform, *device.model, launched, hw::LaunchStyle::stream, scale);
      const auto timings = hw::single_stream(hw::limits_of(platform, scale), program);
      const hw::LaunchFigures exact = hw::analyse(program, timings, scale);

      IterationPrice price = devices.price(decodes(batch));
      CHECK(price.launches == std::ssize(program));
      host.apply(decodes(batch), price);
      CHECK(static_cast<double>(price.host.device_ps) * 1e-12 == Approx(exact.gpu_busy_s).epsilon(1e-6));
      CHECK(static_cast<double>(price.host.beside_ps) * 1e-12 == Approx(exact.cpu_busy_s).epsilon(1e-6));
      const double closed_s = static_cast<double>(price.time_ps) * 1e-12;
      CHECK(closed_s < exact.il_s * 1.001);
      CHECK(closed_s > exact.il_s * 0.94);
    }
  }
}

TEST_CASE("a platform whose host takes no time changes nothing by a byte", "[unit]") {
  // The null kernel is what the GH200's model has for its launch, and so is a node; no call takes time.
  const double launch_s = hw::read_platform("platform-gh200", home_folder() / "hw/catalog").gpu.launch_s();
  const std::string launch = fmt::format("{} s", launch_s);
  const std::string free = R"(, "override": {"dispatch": {"operator": "0 s", "view": "0 s"}, "launch": {"call": "0 s",
    "latency": "0 s", "graph_call": "0 s", "null_kernel": ")" +
                           launch + R"(", "graph_node": ")" + launch + R"("}})";
  const std::string bare = R"("devices": [{"part": "gh200-96gb", "count": 1}])";
  for (const char* policy : {"serial", "overlapped", "staged"}) {
    const std::string host = std::string(R"(, "host": {"policy": ")") + policy + R"("})";
    const sim::Node with = summary_of(config(gh200(free), host));
    CHECK(with.dump() == summary_of(config(bare, host)).dump());
    CHECK(with.find("host") == nullptr);
  }
}

TEST_CASE("launches that are dear enough are the time", "[unit]") {
  // 388 kernels an iteration (12 a layer, embedding, norm, product and choice of the head), 1 ms each on a core of
  // speed 1: 388 ms, and 3 us from the call to the kernel on an idle device.
  const std::string dear =
      R"(, "single_thread": 1, "override": {"dispatch": {"operator": "1 ms"}, "launch": {"call": "0 s", "latency": "3 us"}})";
  const sim::Node summary = summary_of(config(gh200(dear), "", 1));
  CHECK(number(summary, "host.decode.iterations") == 127);
  CHECK(number(summary, "host.decode.launches") == 127 * 388);
  CHECK(number(summary, "tpot_s.mean") == Approx(0.388003).epsilon(1e-9));
  CHECK(number(summary, "host.decode.host_s") == Approx(127 * 0.388).epsilon(1e-9));
  CHECK(number(summary, "host.decode.host_paced") == 1);
  CHECK(summary.at("host.decode.bound")->as_string() == "host");
  CHECK(number(summary, "host.decode.tklqt_s") == Approx(127 * 388 * 3e-6).epsilon(1e-9));
  CHECK(number(summary, "host.prompt.iterations") == 1);
  CHECK(number(summary, "ttft_s.mean") == Approx(0.388003).epsilon(1e-9));
  // A captured graph is one call: the devices' time again.
  const sim::Node graph =
      summary_of(config(gh200(dear), R"(, "host": {"policy": "serial", "serial": {"graph_tokens": 16}})", 1));
  CHECK(graph.at("host.decode.bound")->as_string() == "device");
  CHECK(number(graph, "host.decode.launches") == 127);
  CHECK(graph.at("host.prompt.bound")->as_string() == "host");
  CHECK(number(graph, "tpot_s.mean") < 0.01);
}

TEST_CASE("more devices gain nothing under a launch floor, and do without one", "[unit]") {
  const auto tpot = [&](int devices, const std::string& host) {
    return number(summary_of(config(gh200("", devices), host)), "tpot_s.mean");
  };
  const std::string graph = R"(, "host": {"policy": "serial", "serial": {"graph_tokens": 64}})";
  CHECK(tpot(2, "") >= tpot(1, ""));  // 65 collectives are launched too
  CHECK(tpot(2, graph) < 0.75 * tpot(1, graph));
}

TEST_CASE("each stage of a pipeline launches its own layers", "[unit]") {
  // Two stages of 16 layers: 1 + 16 x 12 and 16 x 12 + 3 kernels at 1 ms. One batch of 16 sequences passes both: 193 +
  // 195 ms a token. With two batches of 8 in flight each stage has the other meanwhile: a token takes two turns of the
  // slower stage, 390 ms, where one thread for all launches would take 776.
  const std::string dear =
      R"(, "single_thread": 1, "override": {"dispatch": {"operator": "1 ms"}, "launch": {"call": "0 s", "latency": "0 s"}})";
  const auto tpot = [&](int batch) {
    std::string text = config(gh200(dear, 2), R"(, "cluster": {"replicas": [{"tensor_parallel": 1,
      "pipeline_parallel": 2, "queue": "per_lane", "micro_batches": )" +
                                                  std::to_string(16 / batch) + "}]}");
    text.replace(text.find(R"("max_sequences": 16)"), 19, R"("max_sequences": )" + std::to_string(batch));
    const sim::Node summary = summary_of(text);
    CHECK(number(summary, "requests.completed") == 16);
    CHECK(summary.at("host.decode.bound")->as_string() == "host");
    return number(summary, "tpot_s.mean");
  };
  CHECK(tpot(16) == Approx(0.388).epsilon(1e-3));
  CHECK(tpot(8) == Approx(0.390).epsilon(1e-2));
}

TEST_CASE("draft steps are launched too", "[unit]") {
  // Four steps of one layer (12 kernels) and the draft's edges before each verification of 388 kernels.
  const std::string dear =
      R"(, "single_thread": 1, "override": {"dispatch": {"operator": "1 ms"}, "launch": {"call": "0 s", "latency": "0 s"}})";
  std::string text = config(gh200(dear));
  const std::string before = R"("policies": {)";
  text.replace(text.find(before), before.size(),
               before + R"("speculation": {"policy": "mtp", "mtp": {"drafts": 4, "acceptance": 0}}, )");
  const sim::Node summary = summary_of(text);
  const double iterations = number(summary, "host.decode.iterations");
  const double a_step = number(summary, "host.decode.launches") / iterations;
  CHECK(a_step > 388 + 4 * 12);
  CHECK(a_step < 388 + 4 * 17);
  CHECK(number(summary, "host.decode.host_s") == Approx(a_step * iterations * 1e-3).epsilon(1e-9));
}

TEST_CASE("counted launches leap as they step, under every profile", "[prop]") {
  HostRegistry registry("host");
  register_host_times(registry);
  for (const sim::ComponentInfo& profile : registry.components()) {
    CAPTURE(profile.name);
    const std::string host = R"(, "host": {"policy": ")" + profile.name + R"("})";
    // Contexts grow until the devices of 16 sequences take as long as the launches; arrivals spread over the run.
    std::string text = config(gh200(R"(, "single_thread": 0.75)"), host);
    const std::string arrivals = R"({"policy": "fixed", "fixed": {"rate": "1e9 1/s"}})";
    text.replace(text.find(arrivals), arrivals.size(), R"({"policy": "poisson", "poisson": {"rate": "20 1/s"}})");
    const sim::Node summary = same_with_leaps(text);
    conserved(summary);
    CHECK(number(summary, "host.decode.iterations") > 0);
  }
}

TEST_CASE("faults of a platform name its place", "[unit]") {
  CHECK(faults_of(config(R"("devices": [{"part": "h100-pcie-80gb", "count": 1}],
    "platform": {"part": "platform-gh200"})")) ==
        "my.json:/machine/platform: expected a platform of h100-pcie-80gb, platform-gh200 launches on gh200-96gb (its "
        "`override` may name another gpu)\n");
  CHECK(faults_of(config(R"("devices": [{"part": "gh200-96gb", "count": 1}], "platform": {"part": "gh200-96gb"})")) ==
        "my.json:/machine/platform/part: expected a part of kind platform, 'gh200-96gb' is of kind gpu\n");
  CHECK(faults_of(config(R"("devices": [{"part": "ascend-910b1", "count": 1}],
    "platform": {"part": "platform-gh200", "override": {"gpu": "ascend-910b1"}})"))
            .find("ascend-910b1.json:/kind: expected \"gpu\", got \"npu\"") != std::string::npos);
  // With the part overridden it is one.
  CHECK(faults_of(config(R"("devices": [{"part": "h100-pcie-80gb", "count": 1}],
    "platform": {"part": "platform-gh200", "override": {"gpu": "h100-pcie-80gb"}})")) == "");
}

}  // namespace test_host_launches
