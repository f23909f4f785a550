// How far off measured runs like a config's were: which runs are like it, and what is said.
#include <catch2/catch.hpp>

#include "experiments/base/catalog.hpp"
#include "experiments/base/experiment.hpp"
#include "experiments/fidelity/served_errors.hpp"
#include "experiments/systems/serving/expected_error.hpp"

namespace test_expected_error {

using namespace orrery;
using namespace orrery::experiments;

namespace {

sim::Node measured() {
  return sim::parse_json(R"({"runs": [
    {"part": "a", "engine": "vLLM 1", "policy": "vllm_v1", "model": "dense", "tables": [],
     "ttft": {"rows": 1, "mape": 0.03, "bias": -0.03}, "tpot": {"rows": 1, "mape": 0.02, "bias": 0.02}},
    {"part": "a", "engine": "SGLang", "policy": "sglang", "model": "dense", "tables": [],
     "ttft": null, "tpot": {"rows": 9, "mape": 0.2, "bias": 0.1}},
    {"part": "a", "engine": "TensorRT-LLM", "policy": null, "model": "experts", "tables": [],
     "ttft": {"rows": 40, "mape": 0.256, "bias": -0.104}, "tpot": {"rows": 40, "mape": 0.07, "bias": 0.012}}]})",
                         "measured");
}

}  // namespace

TEST_CASE("the runs most like a config tell its error, and what differs is said", "[unit]") {
  const sim::Node all = measured();
  CHECK(expected_error({"a", "vllm_v1", false}, all) ==
        "TTFT -3 %, TPOT +2 % in 1 measurement of vLLM 1 with dense models on this part");
  CHECK(expected_error({"a", "sglang", false}, all) ==
        "TPOT 20 % off (mean +10 %) in 9 measurements of SGLang with dense models on this part");
  // The kind of model goes before the engine.
  CHECK(expected_error({"a", "vllm_v1", true}, all) ==
        "TTFT 26 % off (mean -10 %), TPOT 7 % off (mean +1 %) in 40 measurements of TensorRT-LLM with "
        "mixture-of-experts models on this part; none under vllm_v1");
  // Of two that are as much alike the one with more measurements.
  CHECK(expected_error({"a", "orca", false}, all) ==
        "TPOT 20 % off (mean +10 %) in 9 measurements of SGLang with dense models on this part; none under orca");
  CHECK(expected_error({"b", "vllm_v1", false}, all) == "nothing like it was measured: no serving run on b");
  CHECK(expected_error({"", "vllm_v1", false}, all) ==
        "nothing like it was measured: no serving run on unlike devices");
}

TEST_CASE("runs of one part, engine and kind of model are summed up together", "[unit]") {
  const MeasuredTable table = MeasuredTable::parse("a\n1\n", "serving/x.csv");
  Predictions predictions;
  const ServedRun dense{"tpot", "a", "vLLM 1", "vllm_v1"};
  predictions.add("tpot", 0, 10, 11, {}, dense);  // + 10 %
  predictions.add("tpot", 1, 10, 7, {}, dense);   // - 30 %: MAPE 20 %, bias - 10 %
  predictions.add("tpot", 2, 10, 10);             // of no run
  predictions.add("ttft", 0, 10, 10, {}, ServedRun{"ttft", "a", "TensorRT-LLM", "", true});
  ServedErrors errors;
  for (const Predictions::Column& column : predictions.columns()) errors.add(table, column);
  CHECK(errors.node().dump() == sim::parse_json(R"({"runs": [
    {"part": "a", "engine": "TensorRT-LLM", "policy": null, "model": "experts", "tables": ["serving/x.csv"],
     "ttft": {"rows": 1, "mape": 0.0, "bias": 0.0}, "tpot": null},
    {"part": "a", "engine": "vLLM 1", "policy": "vllm_v1", "model": "dense", "tables": ["serving/x.csv"],
     "ttft": null, "tpot": {"rows": 2, "mape": 0.2, "bias": -0.1}}]})",
                                                "wanted")
                                    .dump());
}

TEST_CASE("what ships names parts of the catalog and policies that there are", "[unit]") {
  const sim::Node shipped = sim::read_json(home_folder() / "experiments/measured/serving.json");
  const std::vector<std::string> parts = part_names();
  CHECK(shipped.find("runs")->items().size() >= 10);
  for (const sim::Node& run : shipped.find("runs")->items()) {
    CHECK(std::count(parts.begin(), parts.end(), run.find("part")->as_string()) == 1);
    CHECK((run.find("ttft")->is_object() || run.find("tpot")->is_object()));
  }
}

}  // namespace test_expected_error
