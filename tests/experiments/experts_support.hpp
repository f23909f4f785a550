// Configs of the experts system, and what comes of them.
#pragma once

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "experiments/base/experiment.hpp"
#include "experiments/systems/experts/run.hpp"
#include "tests/systems.hpp"

namespace orrery::experiments::test {

/// Qwen3-30B-A3B in 4 bits on an RTX 4090 with a host.
inline const char* const kExpertsConfig = R"({"system": "experts",
  "machine": {"part": "rtx-4090", "host": {"part": "xeon-6454s", "sockets": 2}, "link": "pcie4-x16"},
  "model": {"config": "catalog:qwen3-30b-a3b", "weight_format": "int4"},
  "workload": {"router": {"generator": {"tokens": 64, "layers": 4, "scores": "informed"}}},
  "policies": {"share": 0.25}})";

inline sim::Node experts_config(const std::vector<std::string>& assignments = {}) {
  sim::Node root = sim::parse_json(kExpertsConfig, "c.json");
  for (const std::string& assignment : assignments) sim::assign(root, assignment);
  return root;
}

inline sim::Node run_experts(const std::vector<std::string>& assignments = {}) {
  return read_experiment(test_systems(), experts_config(assignments))->run({}).summary;
}

inline double number(const sim::Node& node, std::string_view path) {
  const sim::Node* value = node.at(path);
  REQUIRE(value != nullptr);
  return value->as_number();
}

inline std::string text(const sim::Node& node, std::string_view name) {
  const sim::Node* value = node.find(name);
  REQUIRE(value != nullptr);
  return value->as_string();
}

inline std::string experts_fault(const std::vector<std::string>& assignments) {
  try {
    (void)read_experiment(test_systems(), experts_config(assignments));
  } catch (const sim::ConfigError& error) {
    return error.what();
  }
  return "nothing thrown";
}

inline experts::Config parsed_experts(const std::vector<std::string>& assignments = {}) {
  sim::Faults faults;
  experts::Config out = experts::read_config(experts_config(assignments), *test_systems().registries(), faults);
  faults.throw_if_any();
  experts::draw_choices(out);
  return out;
}

}  // namespace orrery::experiments::test
