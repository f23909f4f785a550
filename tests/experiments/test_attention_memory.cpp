// Replicas whose devices have attention of decodes done in memory beside them.
#include "experiments/systems/serving/pricing/attention_memory.hpp"
#include "experiments/systems/serving/pricing/device_iteration.hpp"
#include "hw/cost/cost_model.hpp"
#include "hw/pim/decode_overlap.hpp"
#include "tests/experiments/leaps.hpp"
#include "tests/serving/run_config.hpp"

namespace test_attention_memory {

using namespace orrery;
using namespace orrery::experiments;
using namespace orrery::experiments::test;

namespace {

template <class P>
P part(const std::string& name) {
  return hw::read_part<P>(home_folder() / ("hw/catalog/" + name + ".json")).part;
}
models::Transformer llama() {
  return models::build_transformer(models::load_model("catalog:llama-7b", home_folder() / "models/catalog"),
                                   hw::DType::fp16, 1);
}
BatchShape shape_of(std::int64_t decodes, std::int64_t context, std::int64_t prompt = 0, std::int64_t past = 0) {
  BatchShape shape;
  Segment segment{.first = 0, .last = 32, .tokens = decodes + prompt};
  segment.decode = {decodes, decodes * context};
  if (prompt > 0) segment.prefill.add(prompt, past);
  shape.segments.push_back(segment);
  shape.sequences = shape.logit_rows = decodes + (prompt > 0 ? 1 : 0);
  return shape;
}
IterationCost cost_of(IterationModel& model, const BatchShape& shape) {
  IterationCost cost;
  model.cost(shape, cost);
  return cost;
}
AttentionMemory beside(const hw::AttentionPimParams& memory, AttentionSchedule schedule,
                       std::int64_t kv_bytes = 16'384) {
  const hw::Device device = hw::with_attention_memory(hw::device_of(part<hw::GpuParams>("a100-sxm4-80gb")), memory);
  return {std::make_unique<DeviceIterationModel>(llama(), device), memory, schedule, kv_bytes, 1};
}

/// Requests of 200 tokens and 100 more on `machine`.
std::string config(const std::string& devices, const std::string& more = "") {
  return R"({"system": "serving", "machine": {"devices": [)" + devices + R"(]},
    "model": {"config": "catalog:llama-7b", "dtype": "fp16"},
    "workload": {"generator": {"requests": 24, "arrivals": {"policy": "poisson", "poisson": {"rate": "8 1/s"}},
      "lengths": {"policy": "fixed", "fixed": {"prompt": 200, "output": 100}}}},
    "policies": {"batching": {"policy": "vllm_v1"}}, "replica": {"max_context": 2048})" +
         more + "}";
}
std::string a100(int count, const std::string& attention) {
  return R"({"part": "a100-sxm4-80gb", "count": )" + std::to_string(count) + R"(, "attention": )" + attention + "}";
}

}  // namespace

TEST_CASE("one after the other: products on the device, attention of decodes in its memory", "[unit]") {
  const auto memory = part<hw::AttentionPimParams>("attacc-bank");
  DeviceIterationModel alone(llama(), hw::device_of(part<hw::GpuParams>("a100-sxm4-80gb")));
  AttentionMemory together = beside(memory, AttentionSchedule::serial);
  for (const std::int64_t batch : {16, 64}) {
    const BatchShape shape = shape_of(batch, 4096);
    const IterationCost gpu = cost_of(alone, shape), both = cost_of(together, shape);
    const hw::Cost attention = hw::attention_cost(
        memory, {.sequences = batch, .context_tokens = batch * 4096, .heads = 32, .kv_heads = 32, .head_dim = 128},
        hw::DType::fp16);
    const auto place = static_cast<std::size_t>(hw::OpClass::attention_decode);
    CHECK(static_cast<double>(both.class_ps[place]) == Approx(32 * attention.time_s * 1e12).epsilon(1e-7));
    CHECK(both.time_ps - both.class_ps[place] == gpu.time_ps - gpu.class_ps[place]);
    CHECK(both.time_ps < gpu.time_ps);
    CHECK(static_cast<double>(both.class_pj[place]) ==
          Approx(32 * (attention.compute_energy_j + attention.memory_energy_j) * 1e12).epsilon(1e-9));
    CHECK(both.flops == gpu.flops);
  }
}

TEST_CASE("two halves that take turns last as long as the longer of products and attention, twice a layer", "[unit]") {
  const auto memory = part<hw::AttentionPimParams>("attacc-bank");
  AttentionMemory serial = beside(memory, AttentionSchedule::serial);
  AttentionMemory turns = beside(memory, AttentionSchedule::interleaved);
  AttentionMemory fastest = beside(memory, AttentionSchedule::fastest);
  bool gains = false, loses = false;
  for (const std::int64_t batch : {2, 64, 255, 1024}) {
    CAPTURE(batch);
    const BatchShape whole = shape_of(batch, 1024);
    BatchShape half = shape_of((batch + 1) / 2, 1024);
    half.logit_rows = 0;
    BatchShape products = half;
    products.segments.front().decode = {};
    BatchShape head = whole;
    head.segments.clear();
    const double p = static_cast<double>(cost_of(serial, products).time_ps);
    const double a = static_cast<double>(cost_of(serial, half).time_ps) - p;
    const IterationCost cost = cost_of(turns, whole);
    // 64 turns of the longer, one of the shorter at an end, and the head. Memory of its own: nobody waits at the banks.
    CHECK(static_cast<double>(cost.time_ps) ==
          Approx(2 * std::max(p, a) + std::min(p, a) / 32 + static_cast<double>(cost_of(serial, head).time_ps))
              .epsilon(1e-6));
    // Both halves read all weights.
    CHECK(cost.dram_bytes > cost_of(serial, whole).dram_bytes);
    const IterationCost one = cost_of(serial, whole);
    CHECK(cost_of(fastest, whole).time_ps == std::min(one.time_ps, cost.time_ps));
    gains = gains || cost.time_ps < one.time_ps;
    loses = loses || cost.time_ps > one.time_ps;
  }
  CHECK(gains);
  CHECK(loses);
  // One decode has no halves, and prompts leave all as it is.
  CHECK(cost_of(turns, shape_of(1, 1024)).time_ps == cost_of(serial, shape_of(1, 1024)).time_ps);
  CHECK(cost_of(turns, shape_of(64, 1024, 512)).time_ps == cost_of(serial, shape_of(64, 1024, 512)).time_ps);
}

TEST_CASE("halves in the device's own memory wait for each other unless rows have two buffers", "[unit]") {
  auto memory = part<hw::AttentionPimParams>("neupims");
  AttentionMemory two = beside(memory, AttentionSchedule::interleaved);
  memory.dual_row_buffer = false;
  AttentionMemory blocked = beside(memory, AttentionSchedule::interleaved);
  CHECK(cost_of(blocked, shape_of(256, 1024)).time_ps > cost_of(two, shape_of(256, 1024)).time_ps);
}

TEST_CASE("memory that is too slow leaves attention to the device, which reads the keys over the link", "[unit]") {
  auto memory = part<hw::AttentionPimParams>("attacc-bank");
  memory.launch_s = 0.1;
  AttentionMemory serial = beside(memory, AttentionSchedule::serial);
  AttentionMemory turns = beside(memory, AttentionSchedule::interleaved);
  const BatchShape shape = shape_of(64, 1024);
  // 64 sequences of 1,024 tokens, 16,384 bytes of keys and values a token and layer: 3.6 ms over 300 GB/s, 32 times.
  const IterationCost cost = cost_of(serial, shape);
  const auto place = static_cast<std::size_t>(hw::OpClass::attention_decode);
  CHECK(static_cast<double>(cost.class_ps[place]) == Approx(32e12 * (64 * 1024 * 16384 / 300e9 + 2e-6)).epsilon(1e-6));
  CHECK(cost.beside_ps == 0);
  // Nothing runs beside the device, so that halves only read the weights twice.
  CHECK(cost_of(turns, shape).time_ps > cost.time_ps);
}

TEST_CASE("keys and values of prompts go over the link beside the iteration", "[unit]") {
  const auto memory = part<hw::AttentionPimParams>("attacc-bank");
  AttentionMemory usual = beside(memory, AttentionSchedule::serial);
  // 1,000 new tokens and 500 before them, 32 layers, 1 GB a token and layer: 48,000 GB over 300 GB/s are 160 s.
  AttentionMemory huge = beside(memory, AttentionSchedule::serial, 1'000'000'000);
  CHECK(cost_of(huge, shape_of(0, 0, 1000, 500)).time_ps == 160'000'000'000'000);
  // 16,384 bytes a token and layer: 2.6 ms, less than what the prompt takes; decodes send theirs in their launch.
  CHECK(cost_of(usual, shape_of(0, 0, 1000, 500)).time_ps > 3'000'000'000);
  CHECK(cost_of(huge, shape_of(8, 1024)).time_ps == cost_of(usual, shape_of(8, 1024)).time_ps);
}

TEST_CASE("caches are in the stacks, weights in the device, and both have to fit", "[unit]") {
  const auto facts = [&](const std::string& devices, const std::string& more = "") {
    sim::Faults faults;
    const ServingConfig read =
        read_serving_config(sim::parse_json(config(devices, more), "test"), test_systems().registries(), faults);
    faults.throw_if_any();
    const ServingSetup setup(read);
    return setup.infeasible() ? setup.infeasible()->reason
                              : std::to_string(setup.machine().groups.front().kv_capacity_bytes);
  };
  // Five stacks of 16 GiB, of which a tenth is kept: 72 GiB, whatever the weights are.
  CHECK(facts(a100(1, R"({"part": "attacc-bank"})")) == std::to_string(static_cast<std::int64_t>(72.0 * (1 << 30))));
  CHECK(facts(R"({"part": "a100-sxm4-80gb", "override": {"memory": "10 GB"}, "attention": {"part": "attacc-bank"}})") ==
        "weights do not fit the memory of a100-sxm4-80gb, beside which the KV cache is");
  // NeuPIMs' stack of 32 GiB is the NPU's own memory: 28.8 GiB less 13,476,831,232 bytes of weights.
  CHECK(facts(R"({"part": "neupims-npu", "attention": {"part": "neupims"}})") ==
        std::to_string(static_cast<std::int64_t>(0.9 * 32 * (1 << 30)) - 13'476'831'232));
}

TEST_CASE("mixed devices leap as they step and lose no energy, in one replica, in stages and in passes", "[prop]") {
  for (const char* schedule : {"serial", "interleaved", "fastest"}) {
    const std::string attention = std::string(R"({"part": "attacc-bank", "schedule": ")") + schedule + R"("})";
    for (const std::string& text :
         {config(a100(1, attention)), config(a100(2, attention)),
          config(a100(2, attention), R"(, "cluster": {"replicas": [{"tensor_parallel": 1, "pipeline_parallel": 2}]})"),
          config(R"({"part": "neupims-npu", "attention": {"part": "neupims", "schedule": ")" + std::string(schedule) +
                 R"("}})"),
          config(a100(1, attention) + R"(, {"part": "ascend-910b1"})",
                 R"(, "cluster": {"replicas": [{"device_group": 0}, {"device_group": 1}]})")}) {
      CAPTURE(text);
      const sim::Node summary = same_with_leaps(text);
      conserved(summary);
      CHECK(number(summary, "energy_j.total") ==
            Approx(number(summary, "energy_j.idle") + number(summary, "energy_j.compute") +
                   number(summary, "energy_j.memory") + number(summary, "energy_j.network")));
    }
  }
  std::string graph = config(a100(1, R"({"part": "attacc-bank"})"));
  const std::string before = R"("policies": {)";
  graph.replace(graph.find(before), before.size(), before + R"("passes": {"order": []}, )");
  conserved(same_with_leaps(graph));
}

TEST_CASE("the background of stacks beside a device is drawn always", "[unit]") {
  // 60 W of an A100 and 6 W for each of five stacks.
  const auto idle = [](const std::string& devices) {
    const sim::Node summary = summarise(run_config(config(devices)), sim::TickScale{});
    return number(summary, "energy_j.idle") / number(summary, "simulated_s");
  };
  CHECK(idle(R"({"part": "a100-sxm4-80gb"})") == Approx(60));
  CHECK(idle(a100(1, R"({"part": "attacc-bank"})")) == Approx(90));
  CHECK(idle(R"({"part": "neupims-npu", "attention": {"part": "neupims"}})") == Approx(50));
}

TEST_CASE("faults of attention in memory name its place", "[unit]") {
  CHECK(faults_of(config(a100(1, R"({"part": "attacc-bnak"})")))
            .starts_with("my.json:/machine/devices/0/attention/part: expected a part of the catalog"));
  CHECK(faults_of(config(a100(1, R"({"part": "gddr6-aim"})"))) ==
        "my.json:/machine/devices/0/attention/part: expected a part of kind attention_pim, 'gddr6-aim' is of kind "
        "bank_pim\n");
  CHECK(faults_of(config(a100(1, R"({"part": "attacc-bank", "schedule": "turns"})")))
            .starts_with("my.json:/machine/devices/0/attention/schedule: expected"));
  CHECK(faults_of(config(a100(1, R"({"part": "attacc-bank", "override": {"stacks": 0}})"))).find("stacks") !=
        std::string::npos);
}

}  // namespace test_attention_memory
