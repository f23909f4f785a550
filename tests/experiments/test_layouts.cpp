#include <fmt/format.h>

#include <catch2/catch.hpp>

#include "experiments/systems/serving/config/config.hpp"
#include "experiments/systems/serving/pricing/host_store.hpp"
#include "experiments/systems/serving/pricing/modal_iteration.hpp"
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

TEST_CASE("modes: each is priced by its own model; a switch takes what its layout takes to load", "[unit]") {
  class Fixed final : public IterationModel {
   public:
    explicit Fixed(std::int64_t ps) : ps_(ps) {}
    void cost(const BatchShape&, IterationCost& out) override { out.time_ps = ps_; }

   private:
    std::int64_t ps_;
  };
  const auto models = [] {
    std::vector<std::unique_ptr<IterationModel>> all;
    all.push_back(std::make_unique<Fixed>(10));
    all.push_back(std::make_unique<Fixed>(20));
    return all;
  };
  ModalIteration model(models(), {300, 400});
  BatchShape shape;
  for (const std::int32_t mode : {0, 1}) {
    shape.mode = mode;
    IterationCost cost;
    model.cost(shape, cost);
    CHECK(cost.time_ps == 10 * (mode + 1));
    CHECK(model.switch_ps(mode, mode) == 0);
  }
  CHECK(model.switch_ps(0, 1) == 400);
  CHECK(model.switch_ps(1, 0) == 300);
  CHECK(ModalIteration(models()).switch_ps(0, 1) == 0);
}

TEST_CASE("layouts: a pipeline is the same however it is written", "[unit]") {
  const auto with = [](const std::string& written, const std::string& batching) {
    std::string text = seesaw_config("");
    const std::string layouts = text.substr(text.find(R"("layouts")"));
    text.replace(text.find(layouts), layouts.size(), written + "}");
    text.replace(text.find("seesaw"), 6, batching);
    return run(text);
  };
  for (const std::string batching : {"vllm_v0", "sarathi"})
    for (const auto& [tensor, stages] : {std::pair{1, 4}, {2, 2}, {4, 1}}) {
      CAPTURE(batching, tensor, stages);
      const std::string layout = fmt::format(R"({{"tensor_parallel": {}, "pipeline_parallel": {}}})", tensor, stages);
      const ServingResult a = with(R"("layouts": {"host_memory": "0 B", "modes": [)" + layout + "]}", batching);
      const ServingResult b = with(R"("cluster": {"replicas": [)" + layout + "]}", batching);
      CHECK(a.metrics.completed == 60);
      sim::TickScale scale;
      CHECK(summarise(a, scale).dump() == summarise(b, scale).dump());
    }
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
  CHECK(reason(R"([{"tensor_parallel": 4}, {"pipeline_parallel": 4}])") == "none");
  CHECK(reason(R"([{"tensor_parallel": 4}])") ==
        "seesaw switches to mode 1 (prefill_mode, decode_mode), counted from 0, and the replica has 1 (layouts.modes)");
}

TEST_CASE("seesaw: layouts of unlike stages, nothing stalls in a lane that a layout has not", "[prop]") {
  // The scheduler ends the run (std::logic_error) where a sequence runs in a lane past the layout's stages.
  for (const char* modes : {R"([{"pipeline_parallel": 4}, {"tensor_parallel": 4}])",
                            R"([{"tensor_parallel": 4}, {"pipeline_parallel": 4}])",
                            R"([{"pipeline_parallel": 4}, {"tensor_parallel": 2, "pipeline_parallel": 2}])"})
    for (const char* memory : {"", R"(, "host_memory": "64 MiB")", R"(, "host_memory": "1 GiB")"}) {
      CAPTURE(modes, memory);
      std::string text = seesaw_config(memory);
      const std::string is = R"([{"pipeline_parallel": 4}, {"tensor_parallel": 4}])";
      text.replace(text.find(is), is.size(), modes);
      const ServingResult result = run(text);
      CHECK(result.metrics.completed == 60);
      CHECK(result.free_blocks == result.total_blocks);
      CHECK(result.metrics.processed_tokens >= result.metrics.prompt_tokens + result.metrics.output_tokens - 60);
    }
}

TEST_CASE("layouts: what several of them do not go with", "[unit]") {
  for (const auto& [own, message] :
       {std::pair{R"("micro_batches": 2)",
                  "/micro_batches: expected none beside several layouts, which have a batch in "
                  "flight for each of their stages"},
        {R"("queue": "per_lane")",
         "/queue: expected shared beside several layouts: all lanes change their layout together"}}) {
    std::string text = seesaw_config("");
    text.back() = ',';
    text += std::string(R"("cluster": {"replicas": [{"tensor_parallel": 4, )") + own + "}]}}";
    sim::Faults faults;
    read_serving_config(sim::parse_json(text, "test"), test_systems().registries(), faults);
    REQUIRE(faults.all().size() == 1);
    CHECK(faults.all()[0].text() == std::string("test:/cluster/replicas/0") + message);
  }
}

TEST_CASE("queues of lanes want lanes", "[unit]") {
  const auto faults_of = [](const std::string& replica) {
    std::string text = seesaw_config("");
    text.resize(text.find(R"("layouts")"));
    text.replace(text.find("seesaw"), 6, "sarathi");
    text += R"("cluster": {"replicas": [{"queue": "per_lane", )" + replica + "}]}}";
    sim::Faults faults;
    read_serving_config(sim::parse_json(text, "test"), test_systems().registries(), faults);
    return faults;
  };
  const sim::Faults alone = faults_of(R"("tensor_parallel": 4)");
  REQUIRE(alone.all().size() == 1);
  CHECK(alone.all()[0].text() ==
        "test:/cluster/replicas/0/queue: expected shared without pipeline stages: there is one lane");
  CHECK(faults_of(R"("pipeline_parallel": 2)").empty());
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
