// Operator graphs whose regions run on other devices of the machine, with copies over their links.
#include <fmt/format.h>

#include "experiments/base/experiment.hpp"
#include "tests/experiments/support.hpp"
#include "tests/systems.hpp"

namespace test_placed_graph {

using namespace orrery;
using namespace orrery::experiments;
using namespace orrery::experiments::test;

namespace {

/// A model on an EPYC with an Ascend beside it that runs the given kinds of op; launching takes no time.
std::string config(const std::string& model, const std::string& ops, const std::string& byoc = "",
                   const std::string& targets = "", const std::string& more = "") {
  const std::string one = R"({"name": "npu", "part": "ascend-910b1", "call": "10 us",
    "link": {"bandwidth": "25 GB/s", "latency": "10 us"}})";
  return fmt::format(R"({{"system": "graph",
    "machine": {{"device": {{"part": "epyc-9654"}}, "targets": [{}],
      "dispatch": {{"operator": "0 s", "view": "0 s", "call": "0 s", "latency": "0 s"}}}},
    "model": {{"builder": {}}}, "workload": {{"bind": {}, "requests": 2}},
    "policies": {{"passes": {{"order": ["byoc"], "byoc": {{"targets": [{{"name": "npu", "ops": {}}}]{}}}}}{}}}}})",
                     targets.empty() ? one : targets, model,
                     model.find("resnet") != std::string::npos ? R"({"batch": 8})" : R"({"batch": 8, "tokens": 64})",
                     ops, byoc, more);
}
const std::string kBert = R"({"policy": "bert", "bert": {"layers": 2}})", kResnet = R"({"policy": "resnet"})";
const std::string kAll =
    R"(["matmul", "conv2d", "add", "relu", "gelu", "batch_norm", "max_pool2d", "avg_pool2d", "reduce_mean", "layer_norm", "softmax"])";

struct Done {
  sim::Node summary;
  std::map<std::string, double> joules, busy_s;  // by device and class
  double number(const char* path) const {
    INFO(path);
    REQUIRE(summary.at(path) != nullptr);
    return summary.at(path)->as_number();
  }
};
Done run(const std::string& text) {
  const Scratch scratch;
  RunSink sink;
  sink.folder = scratch / "";
  Done done{read_experiment(test_systems(), sim::parse_json(text, "placed"))->run(sink).summary, {}, {}};
  if (done.summary.find("status")->as_string() == "ok")
    for (const Row& row : read_csv(scratch / "energy.csv"))
      done.joules[row.at("device") + " " + row.at("class")] = std::stod(row.at("energy_j"));
  return done;
}

}  // namespace

TEST_CASE("a region on another device takes what the pass said: call, work and both copies", "[unit]") {
  const Done whole = run(config(kResnet, kAll, R"(, "accept": "cost")"));
  CHECK(whole.number("passes.byoc.regions") == 1);
  CHECK(whole.number("passes.byoc.transfers") == 2);
  CHECK(whole.number("latency_s.mean") == Approx(whole.number("passes.byoc.latency_s")).epsilon(1e-8));
  // Without anything to take, the device does all, as it would alone.
  const Done none = run(config(kResnet, R"(["fft"])"));
  CHECK(none.number("passes.byoc.regions") == 0);
  CHECK(none.number("latency_s.mean") == Approx(none.number("passes.byoc.host_latency_s")).epsilon(1e-6));
  CHECK(whole.number("latency_s.mean") < none.number("latency_s.mean"));
}

TEST_CASE("many regions take no longer than one after the other, and less where they can overlap", "[prop]") {
  bool overlapped = false;
  for (const std::string& model : {kBert, kResnet})
    for (const char* ops : {R"(["matmul"])", R"(["matmul", "add"])", R"(["conv2d"])", R"(["layer_norm", "softmax"])",
                            R"(["conv2d", "batch_norm", "relu"])"})
      for (const char* merge : {"none", "adjacent"}) {
        CAPTURE(model, ops, merge);
        const Done done = run(config(model, ops, fmt::format(R"(, "merge": "{}", "accept": "all")", merge)));
        const double latency = done.number("latency_s.mean"), told = done.number("passes.byoc.latency_s");
        const double copies =
            done.number("passes.byoc.transfers") * 10e-6 + done.number("passes.byoc.transfer_bytes") / 25e9;
        CHECK(latency <= told * (1 + 1e-8));
        // No shorter than the calls of the target, or than half of all copies, which go one way at a time.
        CHECK(latency >= done.number("passes.byoc.regions") * 10e-6);
        CHECK(latency >= copies / 2 * (1 - 1e-9));
        overlapped = overlapped || latency < 0.99 * told;
      }
  CHECK(overlapped);
}

TEST_CASE("stages that a schedule cuts run on two devices, and send over the link", "[unit]") {
  // Four layers of BERT on an A100; the last two on another one, or an H100, behind 25 GB/s and 10 us.
  const auto staged = [](const std::string& part, bool train, const std::string& link = "25 GB/s") {
    return run(fmt::format(R"({{"system": "graph",
      "machine": {{"device": {{"part": "a100-sxm4-80gb"}}, "targets": [{{"name": "stage.1", "part": "{}", "call": "0 s",
          "link": {{"bandwidth": "{}", "latency": "10 us"}}}}],
        "dispatch": {{"operator": "0 s", "view": "0 s", "call": "0 s", "latency": "0 s"}}}},
      "model": {{"builder": {{"policy": "bert", "bert": {{"layers": 4}}}}}},
      "workload": {{"bind": {{"batch": 8, "tokens": 64}}, "requests": 1}},
      "policies": {{"passes": {{"order": [{}"slapo"], "slapo": {{"schedule": [
        {{"pipeline": {{"cuts": ["layer.2"]}}}}]}}}}}}}})",
                           part, link, train ? R"("autodiff", )" : ""));
  };
  // One after the other: the kernels of both (those of a target come without their launches), and 8 x 64 rows of 768
  // values of 2 bytes on the link.
  const double bytes = 8 * 64 * 768 * 2, copy = 10e-6 + bytes / 25e9;
  const Done both = staged("a100-sxm4-80gb", false);
  CHECK(both.number("latency_s.mean") < both.number("passes.slapo.kernels_s") + copy);
  CHECK(both.number("latency_s.mean") > 0.9 * both.number("passes.slapo.kernels_s") + copy);
  CHECK(staged("a100-sxm4-80gb", false, "1 GB/s").number("latency_s.mean") - both.number("latency_s.mean") ==
        Approx(bytes / 1e9 - bytes / 25e9));
  CHECK(staged("h100-sxm5-80gb", false).number("latency_s.mean") < both.number("latency_s.mean"));
  CHECK(both.joules.at("stage.1 compute") > 0);
  // A step: gradients come back, and the second device steps its optimizer while the first goes backward.
  const Done step = staged("a100-sxm4-80gb", true);
  const double in_turn = step.number("passes.slapo.kernels_s") + 2 * copy;
  CHECK(step.number("passes.slapo.sent_bytes") == 2 * 8 * 64 * 768 * 2);
  CHECK(step.number("latency_s.mean") < 0.95 * in_turn);
  CHECK(step.number("latency_s.mean") > 0.5 * in_turn);
}

TEST_CASE("each device of a placed graph draws its own energy", "[unit]") {
  const Done whole = run(config(kResnet, kAll, R"(, "accept": "cost")")), none = run(config(kResnet, R"(["fft"])"));
  CHECK(whole.joules.at("epyc-9654 compute") == 0);
  CHECK(whole.joules.at("npu compute") > 0);
  CHECK(none.joules.at("npu compute") == 0);
  CHECK(none.joules.at("epyc-9654 compute") > 0);
  // 90 W of an idle Ascend, all the time.
  CHECK(whole.joules.at("npu idle") == Approx(90 * 2 * whole.number("latency_s.mean")).epsilon(1e-6));
  for (const Done* done : {&whole, &none}) {
    double all = 0;
    for (const auto& [account, joules] : done->joules) all += joules;
    CHECK(done->number("energy_j.total") == Approx(all).epsilon(1e-8));
  }
}

TEST_CASE("what a target cannot do is said", "[unit]") {
  const Done compiled = run(config(kBert, R"(["matmul"])", "", "", R"(, "execution": {"policy": "graph"})"));
  CHECK(compiled.summary.find("status")->as_string() == "infeasible");
  CHECK(compiled.summary.find("reason")->as_string() ==
        "ops of the machine's targets are launched one by one: policies.execution must be eager");
  // Memory with units takes no convolutions: its table may name them, they stay on the host.
  const Done memory = run(config(kResnet, R"(["conv2d", "relu"])", "", R"({"name": "npu", "part": "gddr6-aim"})"));
  CHECK(memory.number("passes.byoc.supported_share") == 0);
  CHECK(memory.number("latency_s.mean") == Approx(memory.number("passes.byoc.host_latency_s")).epsilon(1e-6));
  const auto faults_of = [](const std::string& text) {
    try {
      (void)read_experiment(test_systems(), sim::parse_json(text, "my.json"));
    } catch (const sim::ConfigError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  const std::string one = R"({"name": "npu", "part": "ascend-910b1"})";
  CHECK(faults_of(config(kBert, R"(["matmul"])", "", one + ", " + one))
            .find("my.json:/machine/targets/1/name: expected another name, 'npu' is that of one before") !=
        std::string::npos);
  CHECK(faults_of(config(kBert, R"(["matmul"])", "", R"({"name": "npu", "part": "ascend-910"})"))
            .find("my.json:/machine/targets/0/part: ") != std::string::npos);
}

}  // namespace test_placed_graph
