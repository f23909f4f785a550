// What a serving config says that cannot be, word for word and where it stands; and the groups that come of one.
#include <fmt/format.h>

#include "experiments/systems/serving/config/config.hpp"
#include "tests/experiments/support.hpp"
#include "tests/serving/run_config.hpp"

namespace test_serving_faults {

using namespace orrery;
using namespace orrery::experiments;
using namespace orrery::experiments::test;

namespace {

using Changes = std::vector<std::string>;  ///< PATH=VALUE

/// Four A100s and a generator, and what is changed of it.
sim::Node document(const Changes& changes) {
  sim::Node root = sim::parse_json(R"({"system": "serving",
      "machine": {"devices": [{"part": "a100-sxm4-80gb", "count": 4}]},
      "model": {"config": "catalog:llama-2-7b"},
      "workload": {"generator": {"requests": 40, "arrivals": {"policy": "poisson", "poisson": {"rate": "4 1/s"}},
                                 "lengths": {"policy": "log_normal"}}}})",
                                   "c");
  for (const std::string& change : changes) sim::assign(root, change);
  return root;
}

/// Its faults, a line each; "none".
std::string faults(const Changes& changes) {
  sim::Faults faults;
  (void)read_serving_config(document(changes), test_systems().registries(), faults);
  std::string text;
  for (const sim::Fault& fault : faults.all()) text += (text.empty() ? "" : "\n") + fault.text();
  return text.empty() ? "none" : text;
}

ServingConfig config(const Changes& changes) {
  sim::Faults faults;
  ServingConfig config = read_serving_config(document(changes), test_systems().registries(), faults);
  faults.throw_if_any();
  return config;
}

/// count x tensor parallelism x stages, role, and lanes with one scheduler or not, of each group.
std::string groups(const Changes& changes) {
  std::string text;
  for (const ReplicaGroup& group : config(changes).groups)
    text += fmt::format("{}x{}x{} {} {}{} ", group.params.count, group.tensor_parallel, group.stages(),
                        sim::to_string(group.params.role), group.lanes(), group.one_scheduler() ? " shared" : "");
  return text;
}

}  // namespace

TEST_CASE("a workload is one of three, and nothing stands beside it that it has itself", "[unit]") {
  const std::string none = "workload.generator=null";
  const std::string trace = R"(workload.trace={"path": "/nowhere/trace.csv", "format": "orrery_csv"})";
  const std::string program = R"(workload.program={"does": {"policy": "conversation"}})";
  CHECK(faults({}) == "none");
  CHECK(faults({none}) == "c:/workload: missing: expected 'trace', 'generator' or 'program'");
  CHECK(faults({trace}) == "c:/workload: expected one of 'trace', 'generator' and 'program', got several");
  CHECK(faults({program}) == "c:/workload: expected one of 'trace', 'generator' and 'program', got several");
  CHECK(faults({none, trace, program}) ==
        "c:/workload: expected one of 'trace', 'generator' and 'program', got several");
  CHECK(faults({none, trace}) ==
        "--set:/workload/trace/path: expected a trace file, found none at '/nowhere/trace.csv'");
  CHECK(faults({none, program}) == "none");
  CHECK(faults({none, program, "workload.clients=3"}) ==
        "--set:/workload/clients: expected no 'clients' beside a program (workload.program has its own)");
  CHECK(faults({"workload.clients=3"}) == "none");
  CHECK(faults({R"(workload.arrivals={"policy": "poisson"})"}) ==
        "--set:/workload/arrivals: expected no 'arrivals' beside a generator (it has arrivals of its own)");
  CHECK(faults({none, program, R"(workload.arrivals={"policy": "poisson"})"}) ==
        "--set:/workload/arrivals: expected no 'arrivals' beside a program (it has arrivals of its own)");
  const Scratch scratch;
  const std::string file = scratch.write("trace.csv", small_trace()).string();
  CHECK(faults({none, R"(workload.trace={"format": "orrery_csv", "path": ")" + file + "\"}",
                R"(workload.arrivals={"policy": "poisson"})"}) == "none");
  CHECK(faults({"workload.skip=3"}) ==
        "--set:/workload/skip: expected 0 beside a generator, which has no first requests to leave out");
  CHECK(faults({none, R"(workload.trace={"format": "orrery_csv", "path": ")" + file + "\"}", "workload.skip=1"}) ==
        "none");
}

TEST_CASE("clocks are those of the part, from the highest down, and somebody chooses them", "[unit]") {
  const std::string clocks = "machine.devices.0.clocks=", power = "policies.power.policy=";
  CHECK(faults({clocks + R"(["1.41 GHz", "0.9 GHz"])", power + "prefill_high"}) == "none");
  CHECK(faults({power + "prefill_high"}) ==
        "--set:/policies/power: expected 'clocks' of a group of machine.devices to choose from");
  CHECK(faults({clocks + R"(["1.41 GHz", "1.41 GHz"])"}) ==
        "--set:/machine/devices/0/clocks: expected clocks from the highest down, each once");
  CHECK(faults({clocks + R"(["0.9 GHz", "1.41 GHz", "0.8 GHz", "1 GHz"])"}) ==
        "--set:/machine/devices/0/clocks: expected clocks from the highest down, each once\n"
        "--set:/machine/devices/0/clocks: expected clocks from the highest down, each once");
  CHECK(faults({clocks + R"(["1.5 GHz", "0.1 GHz"])"}) ==
        "--set:/machine/devices/0/clocks: expected a clock from 210 MHz to 1.41 GHz, got 1.5 GHz\n"
        "--set:/machine/devices/0/clocks: expected a clock from 210 MHz to 1.41 GHz, got 100 MHz");
  CHECK(faults({"machine.devices.0.clock=1 GHz"}) == "none");
  CHECK(faults({"machine.devices.0.clock=9 GHz"}) ==
        "--set:/machine/devices/0/clock: expected a clock from 210 MHz to 1.41 GHz, got 9 GHz");
  CHECK(faults({"machine.devices.0.clock=1 GHz", clocks + R"(["0.9 GHz"])"}) ==
        "--set:/machine/devices/0/clocks: expected no 'clocks' beside 'clock'");
  CHECK(faults({"machine.devices.0.part=neupims", "machine.devices.0.clock=3 GHz"}) ==
        "--set:/machine/devices/0/clock: expected 1 GHz, the one clock of neupims, got 3 GHz");
  // The edges of the range are in it.
  const hw::DeviceClocks range = config({}).parts[0].device.clocks;
  const auto at = [](double hertz) { return fmt::format("machine.devices.0.clock={} Hz", hertz); };
  CHECK(faults({at(range.lowest_hz)}) == "none");
  CHECK(faults({at(range.highest_hz)}) == "none");
  CHECK(faults({at(range.lowest_hz - 1e6)}) != "none");
  CHECK(faults({at(range.highest_hz + 1e6)}) != "none");
  const DevicePart part = config({clocks + R"(["1.2 GHz", "0.9 GHz"])"}).parts[0];
  CHECK(part.at_clocks.size() == 2);
  CHECK(part.device.peak(hw::DType::fp16) == part.at_clocks[0].peak(hw::DType::fp16));
  CHECK(part.device.peak(hw::DType::fp16) > part.at_clocks[1].peak(hw::DType::fp16));
}

TEST_CASE("references lead to files, or are told", "[unit]") {
  CHECK(faults({"machine.devices.0.part=a100-sxm4-80gbb"}) ==
        "--set:/machine/devices/0/part: expected a part of the catalog or a file, found no 'a100-sxm4-80gbb' (did you "
        "mean 'a100-sxm4-80gb'?)");
  CHECK(faults({"model.config=catalog:llama-2-7c"}) ==
        "--set:/model/config: expected a model of the catalog or a file, found no 'llama-2-7c' (did you mean "
        "'llama-2-7b'?)");
  CHECK(faults({"machine.devices=[]"}) == "--set:/machine/devices: expected at least one group of devices, got none");
  CHECK(faults({R"(policies.speculation={"policy": "draft_model"})"}) ==
        "--set:/policies/speculation/draft_model: missing: expected the parameters of the draft model, its 'model' at "
        "least");
  CHECK(
      faults({R"(policies.speculation={"policy": "draft_model", "draft_model": {"model": "catalog:llama-2-70c"}})"}) ==
      "--set:/policies/speculation/draft_model/model: expected a model of the catalog or a file, found no "
      "'llama-2-70c' (did you mean 'llama-2-70b'?)");
  CHECK(faults({R"(policies.speculation={"policy": "draft_model", "draft_model": {"model": "catalog:llama-2-7b"}})"}) ==
        "none");
  CHECK(faults({R"(policies.speculation={"policy": "n_gram"})"}) == "none");
}

TEST_CASE("a resolved config names files of the catalog by their names, others by their paths", "[unit]") {
  const Scratch scratch;
  const fs::path home = fs::path(ORRERY_SOURCE_DIR);
  fs::copy_file(home / "models/catalog/llama-2-7b.json", scratch / "mine.json");
  const ServingConfig read = config({"model.config=" + (scratch / "mine.json").string(),
                                     R"(policies.speculation={"policy": "draft_model", "draft_model": {"model":
                                        "catalog:llama-2-7b"}})"});
  CHECK(read.resolved.at("machine.devices")->items()[0].find("part")->as_string() == "catalog:a100-sxm4-80gb");
  CHECK(read.resolved.at("model.config")->as_string() == (scratch / "mine.json").string());
  CHECK(read.resolved.at("policies.speculation.draft_model.model")->as_string() == "catalog:llama-2-7b");
  CHECK(read.draft_file.filename() == "llama-2-7b.json");
}

TEST_CASE("groups of replicas: as the section says, or one of all devices", "[unit]") {
  CHECK(groups({}) == "1x4x1 both 1 ");
  CHECK(groups({"replica.tensor_parallel=2"}) == "1x2x1 both 1 ");
  CHECK(groups({R"(cluster.replicas=[{"count": 2}, {"count": 1, "tensor_parallel": 2}])"}) ==
        "2x1x1 both 1 1x2x1 both 1 ");
  CHECK(groups({"replica.tensor_parallel=2", R"(cluster.replicas=[{}, {"tensor_parallel": 1}])"}) ==
        "1x2x1 both 1 1x1x1 both 1 ");
  CHECK(groups({R"(cluster.replicas=[{"pipeline_parallel": 2, "tensor_parallel": 2}])"}) == "1x2x2 both 2 shared ");
  CHECK(groups({R"(cluster.replicas=[{"pipeline_parallel": 4, "micro_batches": 3, "queue": "per_lane"}])"}) ==
        "1x1x4 both 3 ");
  CHECK(groups({R"(layouts.modes=[{"tensor_parallel": 2}])"}) == "2x2x1 both 1 ");
  CHECK(groups({R"(layouts.modes=[{"tensor_parallel": 3}])"}) == "1x3x1 both 1 ");
  CHECK(groups({R"(layouts.modes=[{"tensor_parallel": 8}])"}) == "1x8x1 both 1 ");
  CHECK(groups({R"(layouts.modes=[{"pipeline_parallel": 4}, {"tensor_parallel": 4}])",
                "policies.batching.policy=seesaw"}) == "1x4x4 both 4 shared ");
  const ServingConfig own = config({R"(cluster.replicas=[{}, {"batching": {"policy": "vllm_v0"}, "kvcache": {"policy":
      "buddy"}}])",
                                    "policies.batching.policy=orca"});
  CHECK(own.groups[0].batching.name == "orca");
  CHECK(own.groups[1].batching.name == "vllm_v0");
  CHECK(own.groups[0].kvcache.name == "paged");
  CHECK(own.groups[1].kvcache.name == "buddy");
}

TEST_CASE("faults of groups of replicas", "[unit]") {
  const auto replicas = [](const std::string& text) { return "cluster.replicas=[" + text + "]"; };
  CHECK(faults({replicas(R"({"device_group": 1})")}) ==
        "--set:/cluster/replicas/0/device_group: expected the number of a group of machine.devices, 0 to 0, got 1");
  CHECK(faults({replicas(R"({"device_group": 0})")}) == "none");
  CHECK(faults({replicas(R"({"data_parallel": 2, "pipeline_parallel": 2})")}) ==
        "--set:/cluster/replicas/0/data_parallel: expected 1 beside pipeline_parallel: lanes share the stages or the "
        "experts, not both");
  CHECK(faults({replicas(R"({"data_parallel": 4})")}) == "none");
  CHECK(faults({replicas(R"({"pipeline_parallel": 4})")}) == "none");
  CHECK(faults({replicas(R"({"queue": "per_lane", "data_parallel": 2})")}) == "none");
  CHECK(faults({replicas(R"({"role": "prefill"})")}) ==
        "--set:/cluster/replicas: expected a group of role 'decode' beside that of role 'prefill'");
  CHECK(faults({replicas(R"({}, {"role": "decode"})")}) ==
        "--set:/cluster/replicas: expected a group of role 'prefill' beside that of role 'decode'");
  CHECK(faults({replicas(R"({"role": "prefill"}, {"role": "decode"})")}) == "none");
  const std::string layouts = R"(layouts.modes=[{"pipeline_parallel": 4}, {"tensor_parallel": 4}])";
  const std::string seesaw = "policies.batching.policy=seesaw";
  CHECK(faults({layouts, seesaw, replicas(R"({"micro_batches": 4, "queue": "per_lane"})")}) ==
        "--set:/cluster/replicas/0/micro_batches: expected none beside several layouts, which have a batch in flight "
        "for each of their stages\n"
        "--set:/cluster/replicas/0/queue: expected shared beside several layouts: all lanes change their layout "
        "together");
  CHECK(faults({layouts, seesaw, replicas(R"({"data_parallel": 2})")}) ==
        "--set:/cluster/replicas/0: expected no pipeline or data parallelism of its own beside 'layouts'");
  CHECK(faults({R"(layouts.modes=[{"pipeline_parallel": 4}])", replicas(R"({"micro_batches": 4})")}) == "none");
  CHECK(faults({R"(layouts.modes=[{"tensor_parallel": 4}])", replicas(R"({"queue": "per_lane"})")}) == "none");
  const std::string outage = R"(cluster.failures.at=[{"replica": 2, "time": "1 s"}, {"replica": 3, "time": "1 s"}])";
  CHECK(faults({replicas(R"({"count": 2}, {"count": 2})"), outage}) == "none");
  CHECK(faults({replicas(R"({"count": 2}, {})"), outage}) ==
        "--set:/cluster/failures/at/1: expected the number of a replica, 0 to 2, got 3");
}

TEST_CASE("faults of what scales", "[unit]") {
  const std::string three = R"(cluster.replicas=[{"count": 2}, {"role": "prefill"}, {"role": "decode"}])";
  const std::string target = "policies.scaling.policy=target", decodes = "policies.decode_scaling.policy=target";
  CHECK(faults({three, target, "cluster.scaling.least=3"}) == "none");
  CHECK(faults({three, target, "cluster.scaling.least=4"}) ==
        "--set:/cluster/scaling/least: expected at most the 3 replicas there are, got 4");
  CHECK(faults({three, "cluster.scaling.least=4"}) == "none");  // nothing scales
  CHECK(faults({three, decodes, "cluster.decode_scaling.least=1"}) == "none");
  CHECK(faults({three, decodes, "cluster.decode_scaling.least=2"}) ==
        "--set:/cluster/decode_scaling/least: expected at most the 1 replicas there are, got 2");
  CHECK(faults({decodes}) ==
        "c:/cluster: expected a group of role 'decode' in 'replicas' where policies.decode_scaling is not 'fixed'");
}

TEST_CASE("faults of tiers", "[unit]") {
  const std::string tiers = R"(kv_tiers.tiers=[{"capacity": "1 GiB", "bandwidth": "10 GB/s"}])";
  CHECK(faults({tiers}) == "none");
  CHECK(faults({tiers, R"(layouts.modes=[{"tensor_parallel": 4}])"}) ==
        "--set:/kv_tiers: expected no 'kv_tiers' beside 'layouts' (layouts have a store of their own)");
  CHECK(faults({tiers, "kv_tiers.prefixes=true"}) ==
        "--set:/kv_tiers/prefixes: expected a cache that hands prefixes on, got 'paged' (policies.kvcache.policy: "
        "block_hash does)");
  CHECK(faults({tiers, "kv_tiers.prefixes=true", "policies.kvcache.policy=block_hash"}) == "none");
  CHECK(faults({tiers, "kv_tiers.prefixes=true", "policies.kvcache.policy=block_hash",
                R"(cluster.replicas=[{}, {"kvcache": {"policy": "paged"}}])"}) ==
        "--set:/kv_tiers/prefixes: expected a cache that hands prefixes on, got 'paged' (policies.kvcache.policy: "
        "block_hash does)");
  CHECK(faults({R"(policies.batching={"policy": "vllm_v1", "vllm_v1": {"preemption": "swap"}})"}) ==
        "--set:/policies/batching/vllm_v1/preemption: vLLM V1 computes preempted sequences again: it has no choice of "
        "preemption (vllm_v0, sarathi and fairness_priority take 'preemption': 'swap')");
}

TEST_CASE("faults of prefixes that are read once", "[unit]") {
  const std::string once = "replica.read_prefix_once=true", hash = "policies.kvcache.policy=block_hash";
  CHECK(faults({once}) ==
        "--set:/replica/read_prefix_once: expected a cache that shares prefixes, got 'paged' (policies.kvcache.policy: "
        "block_hash and radix do)");
  CHECK(faults({once, hash}) == "none");
  CHECK(faults({once, hash, R"(cluster.replicas=[{"pipeline_parallel": 2}])"}) ==
        "--set:/replica/read_prefix_once: expected no stages under one scheduler, whose batches share one cache "
        "(cluster.replicas[].queue: per_lane gives each lane its own)");
  CHECK(faults({once, hash, R"(cluster.replicas=[{"pipeline_parallel": 2, "queue": "per_lane"}])"}) == "none");
}

TEST_CASE("faults of measured tables and of operator graphs beside other things", "[unit]") {
  const std::string tables = "machine.profile.path=" ORRERY_SOURCE_DIR;
  CHECK(faults({tables, R"(machine.devices.0.clocks=["1.41 GHz"])"}) ==
        "--set:/machine/profile: expected no measured tables beside 'clocks' of devices");
  CHECK(faults({tables, R"(replica.host_weights={"share": 0.5})"}) ==
        "--set:/machine/profile: expected no measured tables beside weights in host memory");
  const std::string passes = R"(policies.passes={"order": []})";
  CHECK(faults({tables, passes}) == "--set:/policies/passes: expected no operator graph beside machine.profile");
  CHECK(faults({passes, "model.dtype=int8"}) ==
        "--set:/model/dtype: expected fp32, fp16, bf16 or fp8 for the model's operator graph, got int8");
  CHECK(faults({passes, "model.weight_dtype=fp8", "model.kv_dtype=fp8"}) ==
        "--set:/model/weight_dtype: expected none beside an operator graph, whose tensors have formats of their own\n"
        "--set:/model/kv_dtype: expected none beside an operator graph, whose tensors have formats of their own");
  CHECK(faults({passes, "model.weight_dtype=null"}) == "none");
  CHECK(faults({"model.weight_dtype=fp8"}) == "none");
  CHECK(faults({R"(policies.passes={"order": [], "per_size": ["runtime_fusion"]})"}) ==
        "--set:/policies/passes/per_size: expected no passes per size: a service has one graph for all");
  CHECK(faults({"policies.passes=null", "model.dtype=int8"}) == "none");
  CHECK_FALSE(config({passes}).graph_key.empty());
  CHECK(config({}).graph_key.empty());
}

}  // namespace test_serving_faults
