// Any part with any policy: every computing part of the catalog serves and runs a graph, or says why it cannot; every
// batching with every KV cache on a device of each kind. What runs loses no request, no block and no joule, and leaping
// is stepping.
#include <catch2/catch.hpp>
#include <set>

#include "experiments/base/catalog.hpp"
#include "experiments/systems/serving/system.hpp"
#include "hw/device/device.hpp"
#include "policies/batching/batching.hpp"
#include "policies/kvcache/kvcache.hpp"
#include "tests/experiments/support.hpp"
#include "tests/systems.hpp"

namespace test_device_pairs {

using namespace orrery;
using namespace orrery::experiments;

namespace {

/// Names of the catalog's computing parts, and the kind of each.
std::vector<std::pair<std::string, std::string>> computing_parts() {
  std::vector<std::pair<std::string, std::string>> parts;
  for (const std::string& name : part_names()) {
    sim::Faults faults;
    const auto read =
        hw::parse_computing_part(sim::read_config(home_folder() / "hw/catalog" / (name + ".json")), {}, faults);
    if (read) parts.emplace_back(name, hw::kind_of(read->part));
  }
  return parts;
}

/// What is left of a summary once the number of events is out, which alone may differ between leaping and stepping.
std::string told(const sim::Node& summary) {
  sim::Node node = summary;
  node.erase("events");
  return node.dump();
}

sim::Node run_text(const std::string& text) {
  return read_experiment(test_systems(), sim::parse_json(text, "pair"))->run({}).summary;
}

std::string text_of(const sim::Node& summary, const char* name) {
  const sim::Node* node = summary.find(name);
  return node != nullptr && node->is_string() ? node->as_string() : "";
}

double number(const sim::Node& summary, const char* path) {
  return summary.at(path)->as_number();
}

/// A design that cannot be has a reason, and where memory is short the bytes that it lacks.
void check_infeasible(const sim::Node& summary) {
  REQUIRE(text_of(summary, "status") == "infeasible");
  CHECK_FALSE(text_of(summary, "reason").empty());
  if (const sim::Node* needed = summary.find("needed_bytes"); needed != nullptr && needed->as_number() > 0)
    CHECK(needed->as_number() > number(summary, "available_bytes"));
}

/// A Llama of 1.2 B parameters, as every part of the catalog that computes by itself has room for.
const std::string& small_model() {
  static const experiments::test::Scratch scratch;
  static const std::string file = scratch
                                      .write("config.json", R"({"architectures": ["LlamaForCausalLM"],
    "model_type": "llama", "hidden_size": 2048, "intermediate_size": 8192, "num_hidden_layers": 16,
    "num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 32000, "max_position_embeddings": 2048})")
                                      .string();
  return file;
}

/// A serving config of a model with `requests` drawn at random.
std::string serving(const std::string& part, const std::string& batching, const std::string& kvcache,
                    const std::string& model = small_model(), bool leap = true, int requests = 12) {
  return R"({"kind": "experiment", "version": 1, "system": "serving",
    "machine": {"devices": [{"part": ")" +
         part + R"(", "count": 1}]},
    "model": {"config": ")" +
         model + R"("},
    "workload": {"generator": {"requests": )" +
         std::to_string(requests) +
         R"(, "arrivals": {"policy": "poisson", "poisson": {"rate": "4 1/s"}},
      "lengths": {"policy": "uniform", "uniform": {"prompt_min": 16, "prompt_max": 300, "output_min": 2, "output_max": 40}}}},
    "policies": {"batching": {"policy": ")" +
         batching + R"("}, "kvcache": {"policy": ")" + kvcache + R"("}},
    "run": {"leap": )" +
         (leap ? "true" : "false") + R"(, "timeline": {"enabled": false}}})";
}

/// All requests done, energy that adds up, and the same however time advances; or infeasible with a reason. True if it
/// ran.
bool check_serving(const std::string& part, const std::string& batching, const std::string& kvcache,
                   const std::string& model = small_model()) {
  INFO(part << " " << batching << " " << kvcache << " " << model);
  const sim::Node leaping = run_text(serving(part, batching, kvcache, model));
  if (text_of(leaping, "status") != "ok") {
    check_infeasible(leaping);
    return false;
  }
  const sim::Node stepping = run_text(serving(part, batching, kvcache, model, false));
  CHECK(told(leaping) == told(stepping));
  CHECK(number(leaping, "requests.arrived") == 12);
  CHECK(number(leaping, "requests.completed") + number(leaping, "requests.rejected") == 12);
  CHECK(number(leaping, "requests.unfinished") == 0);
  CHECK(number(leaping, "tokens.processed") >=
        number(leaping, "tokens.prompt") + number(leaping, "tokens.output") - number(leaping, "requests.completed"));
  CHECK(number(leaping, "energy_j.total") ==
        Approx(number(leaping, "energy_j.idle") + number(leaping, "energy_j.compute") +
               number(leaping, "energy_j.memory") + number(leaping, "energy_j.network")));
  CHECK(number(leaping, "energy_j.compute") + number(leaping, "energy_j.memory") > 0);
  return true;
}

/// A part of each kind that serves by itself.
const char* const kServing[] = {"a100-sxm4-80gb", "tpu-v4", "epyc-9654", "alveo-u280"};

}  // namespace

TEST_CASE("every computing part serves, or says why it cannot", "[device]") {
  std::set<std::string> kinds;
  for (const auto& [part, kind] : computing_parts()) {
    INFO(part);
    kinds.insert(kind);
    const bool needs_host = kind == "upmem" || kind == "bank_pim" || kind == "attention_pim";
    CHECK(check_serving(part, "sarathi", "paged") == !needs_host);
  }
  CHECK(kinds.size() == std::variant_size_v<hw::Part>);
}

TEST_CASE("a model too large for a part is told the bytes that it lacks", "[device]") {
  const sim::Node summary = run_text(serving("alveo-u280", "sarathi", "paged", "catalog:llama-2-7b"));
  check_infeasible(summary);
  CHECK(number(summary, "needed_bytes") > 13e9);  // 6.7 B parameters of two bytes
  CHECK(number(summary, "available_bytes") < 8.6e9);
  CHECK(text_of(run_text(serving("gddr6-aim", "sarathi", "paged")), "reason") ==
        "gddr6-aim computes what a host sends it and is no machine by itself");
}

TEST_CASE("layouts, pim and passes ask what a part can do first", "[device]") {
  const auto reason = [](const sim::Node& summary) {
    CHECK(text_of(summary, "status") == "infeasible");
    return text_of(summary, "reason");
  };
  const auto layouts = [](const std::string& part, int count, const std::string& mode) {
    std::string text = serving(part, "seesaw", "paged");
    text.replace(text.find(R"("count": 1)"), 10, R"("count": )" + std::to_string(count));
    return text.insert(text.rfind('}'), R"(, "layouts": {"modes": [)" + mode + "]}");
  };
  CHECK(reason(run_text(layouts("gddr6-aim", 1, R"({"tensor_parallel": 1})"))) ==
        "gddr6-aim computes what a host sends it and is no machine by itself");
  CHECK(reason(run_text(layouts("epyc-9654", 2, R"({"tensor_parallel": 2})"))) ==
        "epyc-9654 has no link over which 2 of them could share a layer");
  CHECK(reason(run_text(layouts("epyc-9654", 2, R"({"pipeline_parallel": 2})"))) ==
        "epyc-9654 has no link over which 2 of them could share a layer");
  const auto pim = [](const std::string& device) {
    return R"({"kind": "experiment", "version": 1, "system": "pim",
      "machine": {"device": {"part": ")" +
           device + R"("}, "pim": {"part": "attacc-bank"}},
      "model": {"config": "catalog:llama-2-7b"}, "workload": {"batch": 8, "context": 512}})";
  };
  for (const char* device : {"upmem-ddr4-2400", "attacc-bank"})
    CHECK(reason(run_text(pim(device))) ==
          std::string(device) + " computes what a host sends it and is no machine by itself");
  for (const char* device : {"a100-sxm4-80gb", "tpu-v4", "epyc-9654"})
    CHECK(text_of(run_text(pim(device)), "status") == "ok");
  for (const char* pass : {"loop_fusion", "dp_fusion", "pattern_fusion"})
    CHECK(reason(run_text(R"({"kind": "experiment", "version": 1, "system": "graph",
      "machine": {"device": {"part": "gddr6-aim"}},
      "model": {"builder": {"policy": "decoder", "decoder": {"layers": 1}}},
      "workload": {"bind": {"batch": 1, "tokens": 4}}, "policies": {"passes": {"order": [")" +
                          std::string(pass) + R"("]}}})"))
              .starts_with("gddr6-aim: units at the banks run"));
}

TEST_CASE("a GPU, an NPU and a CPU serve behind one router", "[device]") {
  const auto run = [](const char* policy, const char* leap) {
    sim::Node root = sim::read_config(
        home_folder() / "experiments/studies/mixed_devices.json",
        std::vector<std::string>{std::string("policies.routing.policy=") + policy, std::string("run.leap=") + leap,
                                 "workload.limit=90", "run.timeline.enabled=false"});
    return read_experiment(test_systems(), root)->run({}).summary;
  };
  const sim::Node turns = run("round_robin", "true"), aware = run("slo_aware", "true");
  CHECK(told(turns) == told(run("round_robin", "false")));
  double dynamic_j = 0;
  for (std::size_t i = 0; i < 3; ++i) {
    const sim::Node& replica = turns.find("replicas")->items()[i];
    CHECK(replica.find("completed")->as_integer() == 30);
    dynamic_j += replica.find("dynamic_energy_j")->as_number();
  }
  CHECK(number(turns, "energy_j.total") == Approx(dynamic_j + number(turns, "energy_j.idle")));
  // Requests in turn wait for the CPU; a router that knows how fast each is sends it few.
  CHECK(aware.find("replicas")->items()[2].find("completed")->as_integer() < 15);
  CHECK(number(aware, "tbt_s.mean") < 0.5 * number(turns, "tbt_s.mean"));
}

TEST_CASE("every batching with every KV cache on every kind of device", "[device][pairs]") {
  const sim::RegistrySet& registries = *test_systems().registries();
  std::size_t ran = 0, all = 0;
  for (const char* part : kServing)
    for (const std::string& batching : registries.get<policies::BatchingRegistry>().names())
      for (const std::string& kvcache : registries.get<policies::KvCacheRegistry>().names()) {
        if (batching == "learned") continue;  // it needs a file: tests/rl/test_policies.cpp
        ++all;
        if (check_serving(part, batching, kvcache)) ++ran;
      }
  CHECK(all >= 4 * 100);
  CHECK(ran == all);  // what one batching asks of another section has a default
}

TEST_CASE("every computing part runs a graph, or says why it cannot", "[device]") {
  std::set<std::string> ran;
  for (const auto& [part, kind] : computing_parts()) {
    INFO(part);
    const sim::Node summary = run_text(R"({"kind": "experiment", "version": 1, "system": "graph",
      "machine": {"device": {"part": ")" +
                                       part + R"("}},
      "model": {"builder": {"policy": "decoder", "decoder": {"layers": 2, "hidden": 256, "heads": 4, "kv_heads": 2,
        "intermediate": 512, "vocab": 1000, "dtype": "fp16"}}},
      "workload": {"bind": {"batch": 2, "tokens": 32}, "requests": 3},
      "run": {"timeline": false}})");
    if (text_of(summary, "status") != "ok") {
      check_infeasible(summary);
      continue;
    }
    ran.insert(kind);
    CHECK(number(summary, "requests.completed") == 3);
    CHECK(number(summary, "energy_j.total") ==
          Approx(number(summary, "energy_j.compute") + number(summary, "energy_j.memory") +
                 number(summary, "energy_j.idle")));
    CHECK(number(summary, "device_busy_s") > 0);
  }
  CHECK(ran == std::set<std::string>{"cpu", "fpga", "gpu", "npu", "upmem"});
}

}  // namespace test_device_pairs
