// A small study for tests: Llama-2-7B on ten requests, three policies by two rates.
#pragma once

#include <string>

#include "experiments/study/explore.hpp"
#include "experiments/study/results.hpp"
#include "tests/experiments/support.hpp"
#include "tests/systems.hpp"

namespace orrery::experiments::study::test {

using namespace experiments::test;

/// The base and nothing that varies; `rest` are the members from "parameters" on.
inline std::string study_json(const std::string& rest) {
  return R"({"kind": "study", "version": 1, "base": {"system": "serving",
  "machine": {"devices": [{"part": "a100-sxm4-80gb", "count": 1}]},
  "model": {"config": "catalog:llama-2-7b"},
  "workload": {"trace": {"path": "trace.csv", "format": "orrery_csv"}},
  "run": {"timeline": {"enabled": false}}}, )" +
         rest + "}";
}

inline const std::string kParameters = R"("parameters": [
  {"name": "policy", "path": "policies.batching.policy", "values": ["sarathi", "vllm_v0"]},
  {"name": "budget", "path": "policies.batching.sarathi.token_budget", "values": [256, 512], "when": "policy == 'sarathi'"},
  {"name": "rate", "path": "workload.rate_scale", "range": [0.5, 2], "scale": "log", "steps": 3}])";
inline const std::string kGoals = R"("measures": {"ttft": "ttft_s.p99", "speed": "throughput.output_tokens_per_s"},
  "objectives": [{"minimise": "ttft"}, {"maximise": "speed"}])";

/// (2 budgets + 1) x 3 rates: nine points.
inline std::string small_study() {
  return study_json(kParameters + ", " + kGoals);
}

inline Study read(const Scratch& scratch, const std::string& text, const std::vector<std::string>& set = {}) {
  scratch.write("trace.csv", small_trace());
  return read_study(test_systems(), scratch.write("s.json", text), set);
}

/// All tables of a store as text, in order: what must be equal whatever happened on the way.
inline std::string dump(const std::filesystem::path& file) {
  std::string text;
  Database database(file, false);
  for (const char* table : {"facts", "columns", "inputs", "runs", "points", "point_runs"}) {
    Statement rows = database.prepare(std::string("SELECT * FROM ") + table + " ORDER BY 1, 2");
    text += std::string(table) + "\n";
    while (rows.step()) {
      for (int i = 0; i < rows.columns(); ++i) text += text_of(rows.cell(i)) + "|";
      text += "\n";
    }
  }
  return text;
}

/// Faults of a study's text, one line each.
inline std::string faults_of(const Scratch& scratch, const std::string& text) {
  try {
    (void)read(scratch, text);
  } catch (const sim::ConfigError& error) {
    std::string all;
    for (const sim::Fault& fault : error.faults()) all += fault.text() + "\n";
    return all;
  }
  return {};
}

}  // namespace orrery::experiments::study::test
