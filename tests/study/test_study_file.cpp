// Study files: what they mean, and every fault with its place.
#include <catch2/catch.hpp>

#include "study_support.hpp"

namespace orrery::experiments::study::test_study_file {
namespace {

using namespace test;
using Catch::Contains;

std::string points_text(const Study& study) {
  std::string text;
  for (const Point& point : sweep_points(study)) text += study.space.text(point) + "\n";
  return text;
}

std::string numbers(const std::string& parameters, const std::string& more = "") {
  return study_json("\"parameters\": [" + parameters + "], \"measures\": {\"t\": \"simulated_s\"}" + more);
}

TEST_CASE("without a sweep section: the grid of all parameters, equal points once", "[study]") {
  Scratch scratch;
  const Study study = read(scratch, small_study());
  // [0.5, 2] in three steps of equal ratio: 0.5, 1, 2. The budget does not count under vllm_v0.
  CHECK(points_text(study) ==
        "policy=sarathi, budget=256, rate=0.5\npolicy=sarathi, budget=256, rate=1\npolicy=sarathi, budget=256, rate=2\n"
        "policy=sarathi, budget=512, rate=0.5\npolicy=sarathi, budget=512, rate=1\npolicy=sarathi, budget=512, rate=2\n"
        "policy=vllm_v0, rate=0.5\npolicy=vllm_v0, rate=1\npolicy=vllm_v0, rate=2\n");
  const sim::Node config = study.config(sweep_points(study)[4], 1, 7);
  CHECK(config.at("policies.batching.policy")->as_string() == "sarathi");
  CHECK(config.at("policies.batching.sarathi.token_budget")->as_integer() == 512);
  CHECK(config.at("workload.rate_scale")->as_number() == 1);
  CHECK(config.at("run.seed") == nullptr);  // no section of seeds: the base decides
}

TEST_CASE("grid, zip and list multiply; a constraint leaves points out", "[study]") {
  Scratch scratch;
  const std::string parameters =
      R"({"name": "a", "values": [1, 2]}, {"name": "b", "values": [10, 20]}, {"name": "c", "range": [1, 3], "type": "integer"},
         {"name": "d", "values": ["x", "y"]})";
  const Study zipped = read(scratch, numbers(parameters, R"(, "sweep": [{"zip": ["a", "b"]}, {"grid": ["d"]}])"));
  CHECK(sweep_points(zipped).size() == 2 * 2 * 3);  // (a, b) x d x c, which no part names
  const Study listed =
      read(scratch, numbers(parameters,
                            R"(, "sweep": [{"list": [{"a": 1, "d": "y"}, {"a": 2, "d": "x"}]}, {"grid": ["b", "c"]}],
                          "constraints": ["a + c <= 4", "d == 'x' || b > 10"])"));
  std::size_t forbidden = 0;
  const auto points = sweep_points(listed, &forbidden);
  // (1, y): b = 20 only, c = 1 … 3; (2, x): b = 10 or 20, c = 1 or 2. Twelve in all.
  CHECK(points.size() == 3 + 4);
  CHECK(forbidden == 5);
  CHECK(listed.space.text(points[0]) == "a=1, b=20, c=1, d=y");
}

TEST_CASE("quantities keep their dimension, derived figures follow, seeds and fidelity go to their paths", "[study]") {
  Scratch scratch;
  const Study study = read(
      scratch, numbers(R"({"name": "memory", "path": "x.memory", "range": ["1 GiB", "4 GiB"], "steps": 2},
                          {"name": "tp", "path": "x.tp", "values": [1, 2]},
                          {"name": "dp", "path": ["x.dp", "y.dp"], "formula": "8 / tp", "type": "integer"},
                          {"name": "cell", "values": [{"is": "big", "set": {"x.size": 3}}]})",
                       R"(, "seeds": {"count": 3, "first": 5}, "fidelity": {"path": "workload.limit", "full": 1000})"));
  const auto points = sweep_points(study);
  REQUIRE(points.size() == 4);
  const sim::Node config = study.config(points[3], 0.25, 6);
  CHECK(config.at("x.memory")->as_string() == "4294967296 B");  // 4 * 2^30
  CHECK(config.at("x.dp")->as_integer() == 4);                  // 8 / 2
  CHECK(config.at("y.dp")->as_integer() == 4);
  CHECK(config.at("x.size")->as_integer() == 3);
  CHECK(config.at("run.seed")->as_integer() == 6);
  CHECK(config.at("workload.limit")->as_integer() == 250);  // a quarter of 1000
}

TEST_CASE("figures that follow may stand among the parameters", "[study]") {
  Scratch scratch;
  const Study study =
      read(scratch, numbers(R"({"name": "a", "values": [1, 2]}, {"name": "ten", "path": "x.ten", "formula": "10 * a"},
                          {"name": "c", "values": [5, 6]}, {"name": "sum", "path": "x.sum", "formula": "ten + c"})",
                            R"(, "constraints": ["sum != 16"])"));
  const auto points = sweep_points(study);
  REQUIRE(points.size() == 3);  // 15, 25, 26; 16 is forbidden
  CHECK(study.config(points[2], 1, 1).at("x.ten")->as_number() == 20);
  CHECK(study.config(points[2], 1, 1).at("x.sum")->as_number() == 26);
}

TEST_CASE("objectives, limits and bottlenecks of measured figures", "[study]") {
  Scratch scratch;
  const Study study = read(scratch, study_json(kParameters + R"(,
    "measures": {"ttft": "ttft_s.p99", "speed": "throughput.x"},
    "objectives": [{"minimise": "ttft"}, {"name": "gain", "maximise": "speed * rate"}],
    "limits": [{"name": "slo", "value": "ttft", "most": "2 s"}, {"value": "speed", "least": 10}],
    "bottlenecks": {"queue": {"share": "ttft / 10", "move": ["rate"]}})"));
  const Point point = sweep_points(study)[2];  // rate 2
  const auto good = study.judge(point, std::vector<double>{1, 20});
  CHECK(good.objectives == std::vector<double>{1, -40});  // maximised: -(20 * 2)
  CHECK(good.margins == std::vector<double>{-0.5, -1});   // (1 - 2) / 2, (10 - 20) / 10: room, not only that it is met
  CHECK(good.violation() == 0);
  CHECK(good.breakdown[0].second == 0.1);
  CHECK(study.bottlenecks[0].move == std::vector<std::size_t>{2});
  const auto over = study.judge(point, std::vector<double>{3, 5});
  CHECK(over.margins == std::vector<double>{0.5, 0.5});  // (3 - 2) / 2, (10 - 5) / 10
  const auto none = study.judge(point, std::vector<double>{1, std::nan("")});
  CHECK(none.status == TrialStatus::failed);
  CHECK(none.reason == "objective 'gain' is not a number: measure 'speed' is not there (throughput.x)");
}

TEST_CASE("faults of a study name file, place and what was expected", "[study]") {
  Scratch scratch;
  const auto check = [&](const std::string& text, const std::string& message) {
    const std::string faults = faults_of(scratch, text);
    CAPTURE(text);
    CHECK_THAT(faults, Contains(message));
  };
  check(numbers(""), "s.json:/parameters: expected at least one parameter: the space is empty");
  check(numbers(R"({"name": "n", "formula": "2"})"), "/parameters: expected a parameter with 'values' or a 'range'");
  check(numbers(R"({"name": "n", "values": []})"), "s.json:/parameters/0/values: expected at least one value");
  check(numbers(R"({"name": "n", "values": [1, 1]})"), "/parameters/0/values/1: '1' is on this axis already");
  check(numbers(R"({"name": "n"})"), "/parameters/0: expected one of 'values', 'range' and 'formula'");
  check(numbers(R"({"name": "n", "range": [3, 1]})"), "expected a range [low, high] of 'n' with low <= high");
  check(numbers(R"({"name": "n", "range": [0, 1], "scale": "log"})"), "expected a range above 0");
  check(numbers(R"({"name": "n", "range": ["1 s", "2 B"]})"), "expected two ends of one dimension");
  check(numbers(R"({"name": "n", "range": [1, 2], "typ": "real"})"), "unknown key 'typ' (did you mean 'type'?)");
  check(numbers(R"({"name": "n", "range": [1, 2.5], "type": "integer"})"), "expected whole numbers");
  check(numbers(R"({"name": "n", "values": ["a", "b"]}, {"name": "m", "values": [1], "when": "n == 'c'"})"),
        "s.json:/parameters/1/when: ");
  check(numbers(R"({"name": "n", "values": [1]}, {"name": "N", "values": [1]})"), "'n' is taken");
  check(numbers(R"({"name": "status", "values": [1]})"), "'status' is taken: it names a column of the store");
  check(numbers(R"({"name": "n", "values": [1]})", R"(, "constraints": ["m > 1"])"), "s.json:/constraints/0: ");
  check(numbers(R"({"name": "n", "values": [1]})", R"(, "objectives": [{"minimise": "tt"}])"),
        "s.json:/objectives/0/minimise: ");
  check(numbers(R"({"name": "n", "values": [1]})", R"(, "objectives": [{"minimise": "t + 1"}])"),
        "s.json:/objectives/0/name: expected a text");
  check(numbers(R"({"name": "n", "values": [1]})", R"(, "limits": [{"value": "t"}])"),
        "expected 'most', 'least' or both");
  const auto limit = [&](const std::string& text, const std::string& rest = "") {
    return study_json(R"("parameters": [{"name": "n", "values": [1]}], "measures": {"t": "ttft_s.p99", "b": "tbt_s.p99",
                      "a": "slo.attainment"}, "limits": [)" +
                      text + "]" + rest);
  };
  check(limit(R"({"value": "t", "most": 2, "end_at": 0.5})"),
        "s.json:/limits/0/end_at: expected a multiple of 'most', 1 or more, got 0.5");
  check(limit(R"({"value": "a", "least": 0.9, "end_at": 2})"), "expected a multiple of 'least', up to 1, got 2");
  check(limit(R"({"value": "t", "most": 2, "least": 1, "end_at": 1})"), "expected one of 'most' and 'least' beside it");
  check(limit(R"({"name": "l", "value": "t + 1", "most": 2, "end_at": 1})"),
        "expected a 'value' that is one measure, not a formula");
  check(limit(R"({"value": "b", "most": 2, "end_at": 1})"),
        "expected a figure that can be certain before a run ends, got 'tbt_s.p99' (mean, p50, p90, p95, p99 or max of "
        "ttft_s, tpot_s, e2e_s, queueing_s, normalised_latency_s)");
  check(limit(R"({"value": "a", "most": 0.9, "end_at": 1})"), "got 'slo.attainment'");
  check(limit(R"({"value": "t", "least": 0.9, "end_at": 1})"), "got 'ttft_s.p99' (slo.attainment)");
  check(limit(R"({"value": "t", "most": 2, "end_at": 1})", R"(, "seeds": {"count": 2})"), "expected one seed");
  check(R"({"kind": "study", "version": 1, "base": {"system": "function"}, "parameters": [{"name": "n", "values": [1]}],
            "measures": {"t": "ttft_s.p99"}, "limits": [{"value": "t", "most": 2, "end_at": 1}]})",
        "expected a system whose runs can end before their time (runs of 'serving' can)");
  check(numbers(R"({"name": "n", "values": [1]})", R"(, "search": {"driver": {"policy": "radnom"}})"),
        "s.json:/search/driver/policy: unknown driver policy 'radnom' (did you mean 'random'?)");
  check(numbers(R"({"name": "n", "values": [1]})", R"(, "search": {"budget": 0})"), "s.json:/search/budget: expected");
  check(numbers(R"({"name": "n", "values": [1]}, {"name": "m", "values": [1, 2]})",
                R"(, "sweep": [{"zip": ["n", "m"]}])"),
        "s.json:/sweep/0/zip/1: expected as many values as of 'n', 1, got 2 of 'm'");
  check(numbers(R"({"name": "n", "values": [1]})", R"(, "sweep": [{"list": [{"n": 3}]}])"),
        "s.json:/sweep/0/list/0/n: expected a value of 'n', got 3");
  check(numbers(R"({"name": "n", "range": [1, 4], "type": "integer"})", R"(, "sweep": [{"list": [{"n": 2.5}]}])"),
        "s.json:/sweep/0/list/0/n: expected a value of 'n', got 2.5");
  check(numbers(R"({"name": "n", "values": [1]}, {"name": "m", "formula": "n", "type": "int"})"),
        "s.json:/parameters/1/type: unknown type 'int' of a formula");
  check(numbers(R"({"name": "n", "range": [-1e308, 1e308]})"), "expected a range of 'n' whose width is a number");
  check(numbers(R"({"name": "n", "range": [1, 2]})", R"(, "sweep": [{"grid": ["n"]}])"),
        "expected 'steps' for a sweep");
  check(study_json(R"("parameters": [{"name": "n", "values": [1]}])"), "s.json:/measures: expected an object");
}

TEST_CASE("what can be read but not explored", "[study]") {
  Scratch scratch;
  const std::string two = R"({"name": "n", "values": [1, 2]})";
  const auto fault = [&](const std::string& text, bool search) {
    try {
      (void)check_explorable(read(scratch, text), search);
    } catch (const sim::ConfigError& error) {
      return error.faults().front().text();
    }
    return std::string();
  };
  CHECK_THAT(fault(numbers(two, R"(, "constraints": ["n > 2"])"), false),
             Contains("/constraints: no point of the sweep"));
  CHECK_THAT(fault(numbers(two, R"(, "constraints": ["n > 2"], "objectives": [{"minimise": "t"}])"), true),
             Contains("/constraints: no point of the space meets them"));
  CHECK_THAT(fault(numbers(two), true), Contains("/objectives: expected at least one objective"));
  CHECK_THAT(fault(numbers(R"({"name": "n", "range": [1, 2]})"), false), Contains("the study has no sweep"));
  CHECK_THAT(fault(numbers(R"({"name": "n", "path": "modle.x", "values": [1, 2]})"), false),
             Contains("unknown key 'modle'"));
  CHECK(fault(numbers(two), false).empty());
}

}  // namespace
}  // namespace orrery::experiments::study::test_study_file
