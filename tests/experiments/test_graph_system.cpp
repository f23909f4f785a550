// The system `graph`: what a request costs by hand, execution policies, the largest batch, files, and faults of
// configs.
#include <catch2/catch.hpp>

#include "experiments/base/experiment.hpp"
#include "experiments/systems/graph/run.hpp"
#include "sim/csv_table.hpp"
#include "tests/experiments/support.hpp"
#include "tests/systems.hpp"

namespace test_graph_system {

using namespace orrery;
using namespace orrery::experiments;
using namespace orrery::experiments::graph;
using namespace orrery::experiments::test;
using Catch::Contains;

namespace {

/// Three linear layers without biases on an A100 whose host takes 10 us an operator and 3 us a call.
fs::path write_config(const Scratch& scratch) {
  return scratch.write("g.json", R"({"kind": "experiment", "version": 1, "system": "graph",
  "machine": {"device": {"part": "a100-sxm4-80gb"},
              "dispatch": {"operator": "10 us", "view": "0 s", "call": "3 us", "latency": "2 us"}},
  "model": {"builder": {"policy": "mlp", "mlp": {"widths": [64, 64, 64, 64], "bias": false, "dtype": "fp16"}}},
  "workload": {"bind": {"batch": 16}, "requests": 4},
  "run": {"timeline": true}})");
}

GraphConfig config_of(const std::vector<std::string>& assignments = {}) {
  const Scratch scratch;
  sim::Faults faults;
  GraphConfig config =
      read_graph_config(sim::read_config(write_config(scratch), assignments), *test_systems().registries(), faults);
  faults.throw_if_any();
  return config;
}

GraphResult result_of(const std::vector<std::string>& assignments = {}) {
  return run_graph(config_of(assignments));
}

double seconds(sim::Duration time) {
  return static_cast<double>(time.ticks) * 1e-12;
}

}  // namespace

TEST_CASE("graph: an eager request of a few small kernels takes what the host takes", "[unit]") {
  // 5 kernels (3 products, 2 ReLUs), each 13 us of host time and a few us of device time: the host bounds all but the
  // last kernel's latency and duration. 4 x 13 + 10 + [2 us latency + duration] after the last call began at 62 us.
  const GraphResult result = result_of();
  REQUIRE(result.requests.size() == 4);
  CHECK(result.launches.kernels == 20);
  CHECK(result.launches.launches == 20);
  const graph::RequestRecord& first = result.requests.front();
  const double length_s = seconds(first.finished - first.started);
  const double last_s = seconds(result.trace.timings.back().end - result.trace.timings.back().begin);
  CHECK(length_s == Approx(62e-6 + std::max(3e-6, 2e-6 + last_s)).epsilon(1e-9));
  CHECK(result.host_s == Approx(4 * 5 * 13e-6));
  // Without arrivals each request starts when the one before is done.
  CHECK(result.requests[1].started == first.finished);
}

TEST_CASE("graph: traffic and memory by hand", "[unit]") {
  const GraphResult result = result_of();
  // Per request 3 products read [16,64] and [64,64] of 2 bytes and write [16,64]; 2 ReLUs read and write [16,64].
  const double activation = 16 * 64 * 2, weights = 64 * 64 * 2;
  CHECK(result.read_bytes == 4 * (5 * activation + 3 * weights));
  CHECK(result.write_bytes == 4 * 5 * activation);
  CHECK(result.flops == 4 * (3.0 * 2 * 16 * 64 * 64 + 2 * 16 * 64));
  CHECK(result.memory.parameters == 3 * 64 * 64 * 2);
  CHECK(result.memory.inputs == 16 * 64 * 2);
  CHECK(result.memory.live <= result.memory.planned);
  CHECK(result.samples == 64);
}

TEST_CASE("graph: kernels.csv has the first request's launches, with work, bound and roof", "[unit]") {
  const Scratch scratch;
  fs::create_directory(scratch / "run");
  read_experiment(test_systems(), write_config(scratch), {})->run({scratch / "run", {}});
  const sim::CsvTable table = sim::CsvTable::read(scratch / "run", "kernels.csv");
  const GraphResult result = result_of();
  REQUIRE(table.rows() == 5);
  double flops = 0, busy_s = 0;
  for (std::size_t row = 0; row < table.rows(); ++row) {
    flops += table.number(row, "flops");
    busy_s += table.number(row, "end_s") - table.number(row, "start_s");
    CHECK(table.number(row, "start_s") >= table.number(row, "call_s"));
    CHECK(table.number(row, "bandwidth") == Approx(2.039e12));
    // No kernel is quicker than its roof.
    CHECK(std::max(table.number(row, "flops") / table.number(row, "peak_flops"),
                   table.number(row, "bytes") / table.number(row, "bandwidth")) <=
          table.number(row, "end_s") - table.number(row, "start_s"));
  }
  CHECK(flops == Approx(3.0 * 2 * 16 * 64 * 64 + 2 * 16 * 64));
  CHECK(busy_s == Approx(result.launches.gpu_busy_s / 4));
  // Products run on matrix units (312 TFLOP/s in fp16), ReLUs on the others (19.5).
  CHECK(table.number(0, "peak_flops") == Approx(312e12));
  CHECK(table.number(1, "peak_flops") == Approx(19.5e12));
}

TEST_CASE("graph: execution policies stall, pad and launch as they say", "[unit]") {
  const std::string vary = R"(workload.vary={"batch": {"distribution": "list", "values": [16, 17, 16, 33]}})";
  const auto run = [&](const std::string& name, const std::string& more = "run.seed=1") {
    return result_of({"workload.bind={}", vary, "policies.execution.policy=" + name, more});
  };
  SECTION("jit compiles 3 shapes of 5 kernels") {
    const GraphResult result = run("jit", R"(policies.execution.jit={"kernel": "2 s", "graph": "0.5 s"})");
    CHECK(result.compiled == 15);
    CHECK(result.compile_s == Approx(3 * (0.5 + 5 * 2)));
    CHECK(result.worst_stall_s == Approx(10.5));
    CHECK(seconds(result.requests[2].stall) == 0);
  }
  SECTION("jit once compiles for all") {
    CHECK(run("jit", R"(policies.execution.jit={"once": true})").compiled == 5);
  }
  SECTION("jit forgets what its cache does not hold") {
    CHECK(run("jit", R"(policies.execution.jit={"entries": 1})").compiled == 20);
  }
  SECTION("aot pads 16, 17, 16, 33 to 16, 32, 16, 48") {
    const GraphResult result = run("aot", R"(policies.execution.aot={"symbol": "batch", "step": 16})");
    CHECK(result.requests[1].run_as.at(models::Symbol("batch")) == 32);
    CHECK(result.requests[3].run_as.at(models::Symbol("batch")) == 48);
    CHECK(result.flops / result.asked_flops == Approx((16.0 + 32 + 16 + 48) / (16 + 17 + 16 + 33)));
    CHECK(result.compile_s == 0);
    CHECK(result.startup_s == Approx(2.0 * 5));
  }
  SECTION("aot compiles what is past its last bucket") {
    CHECK(run("aot", R"(policies.execution.aot={"symbol": "batch", "buckets": [16, 32]})").compiled == 5);
  }
  SECTION("aot compiles sizes of dimensions that it does not pad, but for the first") {
    CHECK(run("aot", R"(policies.execution.aot={"symbol": "tokens"})").compiled == 10);
  }
  SECTION("a captured graph is one launch") {
    const GraphResult result = run("graph");
    CHECK(result.launches.launches == 4);
    CHECK(result.launches.kernels == 20);
    CHECK(result.compiled == 15);
  }
  SECTION("bytecode is encoded once a shape, without a stall") {
    const GraphResult result =
        run("vm", R"(policies.execution.vm={"normalize": "20 us", "encode": "30 us", "instruction": "5 us"})");
    // Products have 2 operands, 1 result, 1 op: 4 instructions; ReLUs 3. 3 shapes of 3 products and 2 ReLUs.
    CHECK(result.compile_s == Approx(3 * (5 * 50e-6 + (3 * 4 + 2 * 3) * 5e-6)));
    CHECK(result.worst_stall_s == 0);
  }
}

TEST_CASE("graph: decoding adds what a kernel's work does not hide", "[unit]") {
  const auto decode = [](const std::string& time) {
    return result_of({"policies.execution.policy=vm", "policies.execution.vm={\"decode\": \"" + time + "\"}"}).decode_s;
  };
  CHECK(decode("0 s") == 0);
  CHECK(decode("1 us") > decode("500 ns"));
  // 1 ms an instruction: every kernel waits for all of its 4 or 3 instructions, one tile: 4 requests of 18 ms.
  CHECK(decode("1 ms") == Approx(4 * 18e-3).epsilon(0.01));
}

TEST_CASE("graph: kernels that share a launch stay kernels", "[unit]") {
  const GraphResult apart = result_of();
  const auto with = [](const std::string& passes, const std::string& more = "run.seed=1") {
    return result_of({"policies.passes.order=[" + passes + "]", more});
  };
  const auto same_work = [&](const GraphResult& result) {
    CHECK(result.launches.kernels == apart.launches.kernels);
    CHECK(result.flops == apart.flops);
    CHECK(result.read_bytes == apart.read_bytes);
    CHECK(result.end <= apart.end);
  };
  SECTION("all five leaves of a request are one stacked launch") {
    const GraphResult result = with(R"("stacking")");
    CHECK(result.launches.launches == 4);
    CHECK(result.host_s == Approx(4 * 13e-6));
    same_work(result);
  }
  SECTION("stacks of two: 2 + 2 + 1 leaves; neighbours of different numbers do not chain") {
    const GraphResult result = with(R"("stacking")", "policies.passes.stacking.max_leaves=2");
    CHECK(result.launches.launches == 4 * 3);
    same_work(result);
  }
  SECTION("product, ReLU, product, ReLU, product: a pair that always follows is found twice") {
    const GraphResult result =
        with(R"("proximity_fusion")", "policies.passes.proximity_fusion={\"length\": 2, \"threshold\": 0.5}");
    CHECK(result.launches.launches == 4 * 3);
    same_work(result);
  }
  SECTION("a captured graph holds the stacks in it") {
    const GraphResult result = with(R"("stacking", "graph_capture")");
    CHECK(result.launches.launches == 4);
    CHECK(result.launches.kernels == 20);
  }
}

TEST_CASE("graph: the largest batch fits and the next does not", "[unit]") {
  const std::vector<std::string> grow{"workload.bind={}",
                                      "workload.max_batch={\"enabled\": true, \"limit\": 1000000000}",
                                      "machine.device.override={\"memory\": \"2 GiB\"}", "workload.requests=1"};
  const GraphConfig config = config_of(grow);
  const GraphResult result = run_graph(config);
  REQUIRE(result.status == "ok");
  const auto planner = config.planner.make();
  const auto peak = [&](std::int64_t batch) {
    return memory_of(config.model, models::Bindings{{"batch", batch}}, *planner).peak();
  };
  CHECK(peak(result.max_batch) <= std::int64_t{2} << 30);
  CHECK(peak(result.max_batch + 1) > std::int64_t{2} << 30);
}

TEST_CASE("graph: what does not fit is a result", "[unit]") {
  const Scratch scratch;
  const auto experiment = read_experiment(test_systems(), write_config(scratch),
                                          {"workload.bind={\"batch\": 1000000000}", "workload.requests=1"});
  const Outcome outcome = experiment->run({});
  CHECK_FALSE(outcome.feasible());
  CHECK(outcome.summary.find("needed_bytes")->as_integer() > outcome.summary.find("available_bytes")->as_integer());
}

TEST_CASE("graph: files and repeatability", "[unit]") {
  const Scratch scratch, other;
  const auto experiment = read_experiment(
      test_systems(), write_config(scratch),
      {"workload.bind={}", R"(workload.vary={"batch": {"distribution": "uniform", "low": 1, "high": 64}})"});
  const Outcome outcome = experiment->run({.folder = other / ""});
  CHECK(outcome.summary.dump(0) == experiment->run({}).summary.dump(0));
  const std::vector<Row> rows = read_csv(other / "requests.csv");
  REQUIRE(rows.size() == 4);
  CHECK(rows[0].at("batch") == rows[0].at("batch_run"));
  double joules = 0;
  for (const Row& row : read_csv(other / "energy.csv")) joules += std::stod(row.at("energy_j"));
  CHECK(joules == Approx(outcome.summary.find("energy_j")->find("total")->as_number()).epsilon(1e-6));
  CHECK(fs::file_size(other / "timeline.pftrace") > 100);
}

TEST_CASE("graph: faults of a config", "[unit]") {
  const auto fault_of = [](const std::string& assignment) -> std::string {
    const Scratch scratch;
    sim::Faults faults;
    read_graph_config(sim::read_config(write_config(scratch), std::vector<std::string>{assignment}),
                      *test_systems().registries(), faults);
    REQUIRE(faults.size() == 1);
    return faults.all().front().where.pointer + ": " + faults.all().front().message;
  };
  CHECK_THAT(fault_of("machine.device.part=nvlink4"),
             Contains("/kind: expected a part that computes (gpu, npu, cpu, fpga, upmem, bank_pim, attention_pim), got "
                      "one of kind 'link'"));
  CHECK_THAT(fault_of("machine.cost.policy=npu"),
             Contains("/machine/cost: expected a cost model of parts of kind gpu for a100-sxm4-80gb, got 'npu'"));
  CHECK_THAT(fault_of("machine.platform={\"part\": \"platform-gh200\"}"),
             Contains("/machine: expected either a 'platform' or a 'device'"));
  CHECK_THAT(fault_of("workload.bind={\"batch\": 1, \"btach\": 2}"),
             Contains("/workload/bind/btach: the graph has no dimension 'btach'"));
  CHECK_THAT(fault_of("workload.bind={}"), Contains("/workload/bind: dimension 'batch' of the graph has no size"));
  CHECK_THAT(fault_of("workload.bind.batch=-1"), Contains("expected a size, an integer of at least 0"));
  CHECK_THAT(fault_of("policies.passes.order=[\"loop_fusoin\"]"),
             Contains("/policies/passes/order/0: unknown pass policy 'loop_fusoin'"));
  CHECK_THAT(fault_of("policies.passes.loop_fusion.colour=red"), Contains("/policies/passes/loop_fusion/colour"));
  CHECK_THAT(fault_of("policies.execution.policy=lazy"), Contains("unknown execution policy 'lazy'"));
  CHECK_THAT(fault_of("model.builder.policy=bart"), Contains("unknown builder policy 'bart'"));
  CHECK_THAT(fault_of("model.import={\"path\": \"x.onnx\"}"),
             Contains("/model: expected either a 'builder' or an 'import'"));
  CHECK_THAT(fault_of("workload.max_batch={\"enabled\": true, \"symbol\": \"rows\"}"),
             Contains("/workload/max_batch/symbol: the graph has no dimension 'rows'"));
  CHECK_THAT(fault_of("workload.vary={\"batch\": {\"distribution\": \"list\"}}"),
             Contains("expected 'values' for a list"));
}

}  // namespace test_graph_system
