#include "experiments/systems/serving/pricing/layouts.hpp"

#include <catch2/catch.hpp>

#include "experiments/systems/serving/config/config.hpp"
#include "experiments/systems/serving/system.hpp"
#include "sim/base/home.hpp"
#include "tests/experiments/bench_replica.hpp"
#include "tests/experiments/support.hpp"
#include "tests/systems.hpp"

namespace test_layouts {

using namespace orrery;
using namespace orrery::experiments;
using namespace orrery::experiments::test;

namespace {

/// t = 1 us a token and 1 ns a token of context.
class Linear final : public IterationModel {
 public:
  void cost(const BatchShape& shape, IterationCost& out) override {
    for (const Segment& s : shape.segments) out.class_ps[0] += 1'000'000 * s.tokens + 1'000 * s.decode.context_tokens;
    out.time_ps = out.class_ps[0];
    out.compute_pj = 10 * shape.sequences;
  }
};

LayoutIteration layouts(std::vector<LayoutParams> modes, const hw::LinkParams& link) {
  models::ModelConfig config;
  config.layers = 4;
  config.hidden_size = config.intermediate_size = 8;
  config.heads = config.kv_heads = 4;
  config.head_dim = 2;
  config.vocab_size = 16;
  config.max_position_embeddings = 64;
  std::vector<LayoutIteration::Mode> all;
  for (const LayoutParams& layout : modes)
    all.push_back({layout, models::build_transformer(config, hw::DType::fp16, layout.tensor_parallel),
                   std::make_unique<Linear>()});
  return LayoutIteration(std::move(all), link, 16, 1e9);
}

BatchShape decodes(std::int64_t sequences, std::int64_t context, std::int32_t mode) {
  BatchShape shape;
  shape.mode = mode;
  shape.sequences = shape.logit_rows = sequences;
  shape.segments.push_back({.first = 0, .last = 4, .tokens = sequences, .decode = {sequences, context}});
  return shape;
}

std::string seesaw_config(const std::string& more) {
  return R"({"kind": "experiment", "version": 1, "system": "serving",
    "machine": {"devices": [{"part": "a10g", "count": 4}]}, "model": {"config": "catalog:llama3-15b"},
    "workload": {"generator": {"requests": 60, "limits": {"total_max": 4096},
      "arrivals": {"policy": "poisson", "poisson": {"rate": "20 1/s"}},
      "lengths": {"policy": "log_normal", "log_normal": {"prompt_mean": 1500, "output_mean": 200}}}},
    "policies": {"batching": {"policy": "seesaw"}}, "replica": {"max_context": 4096},
    "layouts": {"modes": [{"pipeline_parallel": 4}, {"tensor_parallel": 4}])" +
         more + "}}";
}

ServingResult run(const std::string& text) {
  sim::Faults faults;
  const ServingConfig config = read_serving_config(sim::parse_json(text, "test"), test_systems().registries(), faults);
  faults.throw_if_any();
  return ServingSetup(config).run(nullptr);
}

}  // namespace

TEST_CASE("layouts: a pipeline costs a stage a batch of prompts, and a round of stages a batch of decodes", "[unit]") {
  hw::LinkParams link;
  link.bandwidth = 1e30;  // hand-over for nothing but its start
  link.peer.send_base_s = 1e-9;
  link.peer.send_ramp_s = 0;
  LayoutIteration model = layouts({{1, 1}, {1, 2}, {1, 3}}, link);
  const std::int64_t hop = 1'000;
  const auto time = [&](const BatchShape& shape) {
    IterationCost out;
    model.cost(shape, out);
    return out.time_ps;
  };
  CHECK(time(decodes(8, 800, 0)) == 8'800'000);
  // Two micro-batches of 4 sequences and 400 tokens: 4.4 us for all layers, half of it in a stage, twice.
  CHECK(std::abs(time(decodes(8, 800, 1)) - (4'400'000 + 2 * hop)) <= 2);
  // Three stages of 4 layers: the fullest has 2. Micro-batches of 3 sequences and 267 tokens.
  CHECK(std::abs(time(decodes(8, 800, 2)) - (3 * 3'267'000 * 2 / 4 + 3 * hop)) <= 3);
  BatchShape prompt;
  prompt.mode = 1;
  prompt.segments.push_back({.first = 0, .last = 4, .tokens = 100});
  CHECK(std::abs(time(prompt) - (100'000'000 / 2 + hop)) <= 2);
}

TEST_CASE("layouts: a switch loads the shard of the layout it goes to", "[unit]") {
  LayoutIteration model = layouts({{1, 4}, {2, 2}}, {});
  CHECK(model.switch_ps(0, 0) == 0);
  // bytes / (1 GB/s) = 1 ns a byte
  CHECK(model.switch_ps(0, 1) == model.weight_bytes(1) * 1000);
  CHECK(model.switch_ps(1, 0) == model.weight_bytes(0) * 1000);
}

TEST_CASE("host store: a copy runs beside the next iteration, and stalls the one after by what is left", "[unit]") {
  sim::Engine engine;
  HostStore store(engine, 1, 100, 1e12);  // a byte a ps
  CHECK(store.swap_out(1, 60, 0, 0) == 0);
  CHECK(store.swap_out(2, 30, 0, 0) == 0);  // behind it on the link: until 90
  CHECK_FALSE(store.swap_out(3, 11, 0, 0));
  struct Nothing final : sim::EventHandler {
    void on_event(std::uint64_t) override {}
  } nothing;
  engine.schedule_at(sim::Time{50}, nothing, 0);
  engine.run();
  CHECK(store.swap_in(1, 60, 0, 0) == 0);  // the other direction is idle
  CHECK(store.swap_out(3, 70, 0, 0) == 40);
  store.drop(2);
  store.drop(3);
  CHECK(store.swap_out(4, 100, 0, 0) == 0);
}

TEST_CASE("a stage's device holds the weights of the fullest stage", "[unit]") {
  // Llama-2-7B in two stages: 16 layers of 202,383,360 parameters each; the first has the embeddings too, 32,000 x
  // 4,096, the last the head, as large and 4,096 of a norm more: 3,369,209,856 of two bytes.
  sim::Node root = sim::parse_json(small_config(R"(, "cluster": {"replicas": [{"pipeline_parallel": 2}]})"), "test");
  sim::assign(root, R"(workload={"generator": {"requests": 1, "arrivals": {"policy": "poisson"},
      "lengths": {"policy": "log_normal"}}})");
  sim::assign(root, "machine.devices.0.count=2");
  sim::Faults faults;
  const ServingConfig config = read_serving_config(root, test_systems().registries(), faults);
  faults.throw_if_any();
  const ServingResult result = ServingSetup(config).run(nullptr);
  REQUIRE(result.machine.groups.size() == 1);
  CHECK(result.machine.groups[0].weight_bytes == 2 * 3'369'209'856);
}

TEST_CASE("a resolved config names what the catalog has by the catalog", "[unit]") {
  const std::string file = (sim::home_folder() / "models/catalog/llama-2-7b.json").string();
  sim::Node root = sim::parse_json(seesaw_config(""), "test");
  root.set("model", sim::Node::object()).set("config", sim::Node::string(file));
  sim::Faults faults;
  const ServingConfig config = read_serving_config(root, test_systems().registries(), faults);
  faults.throw_if_any();
  const sim::Node& resolved = config.resolved;
  CHECK(resolved.at("model.config")->as_string() == "catalog:llama-2-7b");
  CHECK(resolved.at("machine.devices")->items()[0].at("part")->as_string() == "catalog:a10g");
}

TEST_CASE("seesaw: leaping and stepping give the same, nothing is lost", "[prop]") {
  // A store of some 2,000 tokens a device (131,072 bytes a token, a quarter on each), so that it switches often.
  for (const char* more : {"", R"(, "host_memory": "64 MiB")", R"(, "host_memory": "0 B")"}) {
    const std::string text = seesaw_config(more);
    std::string stepping = text;
    stepping.insert(stepping.rfind('}'), R"(, "run": {"leap": false})");
    const ServingResult a = run(text), b = run(stepping);
    CHECK(a.metrics.completed == 60);
    CHECK(a.free_blocks == a.total_blocks);
    CHECK(a.metrics.iterations == b.metrics.iterations);
    sim::TickScale scale;
    sim::Node left = summarise(a, scale), right = summarise(b, scale);
    left.set("events", sim::Node::integer(0));
    right.set("events", sim::Node::integer(0));
    CHECK(left.dump() == right.dump());
  }
}

TEST_CASE("layouts: those that do not fit the machine or the model are results", "[unit]") {
  const auto reason = [](const std::string& modes) {
    std::string text = seesaw_config("");
    const std::string is = R"([{"pipeline_parallel": 4}, {"tensor_parallel": 4}])";
    text.replace(text.find(is), is.size(), modes);
    sim::Faults faults;
    const ServingConfig config =
        read_serving_config(sim::parse_json(text, "test"), test_systems().registries(), faults);
    faults.throw_if_any();
    const ServingSetup setup(config);
    return setup.infeasible() ? setup.infeasible()->reason : "none";
  };
  CHECK(reason(R"([{"pipeline_parallel": 2}, {"tensor_parallel": 4}])") ==
        "a layout of 4 x 1 is for 4 devices, a replica has 2");
  CHECK(reason(R"([{"tensor_parallel": 8}])") == "tensor parallelism of 8 needs as many devices, the machine has 4");
  CHECK(reason(R"([{"tensor_parallel": 4}])") == "none");
}

TEST_CASE("layouts: replicas have no parallelism of their own beside them", "[unit]") {
  for (const std::string own : {R"("data_parallel": 2)", R"("pipeline_parallel": 2)"}) {
    std::string text = seesaw_config("");
    text.back() = ',';
    text += R"("cluster": {"replicas": [{)" + own + "}]}}";
    sim::Faults faults;
    read_serving_config(sim::parse_json(text, "test"), test_systems().registries(), faults);
    REQUIRE(faults.all().size() == 1);
    CHECK(faults.all()[0].text() ==
          "test:/cluster/replicas/0: expected no pipeline or data parallelism of its own beside 'layouts'");
  }
}

}  // namespace test_layouts
