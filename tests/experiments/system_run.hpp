// A config of one system with some values changed: its summary, a figure of it, its faults.
#pragma once

#include <string>
#include <vector>

#include "experiments/base/experiment.hpp"
#include "tests/systems.hpp"

namespace orrery::experiments::test {

/// The summary of a run of `text`, a config, with assignments "a.b=value" over it. Throws sim::ConfigError.
inline sim::Node summary_of(const std::string& text, const std::vector<std::string>& assignments) {
  sim::Node root = sim::parse_json(text, "config.json");
  for (const std::string& one : assignments) sim::assign(root, one);
  return read_experiment(test_systems(), root)->run({}).summary;
}

inline double figure(const sim::Node& summary, const char* path) {
  return summary.at(path)->as_number();
}

/// The faults that `run` throws, a line each; "none" without one.
template <class Run>
std::string faults_of_run(const Run& run) {
  try {
    (void)run();
  } catch (const sim::ConfigError& error) {
    std::string all;
    for (const sim::Fault& one : error.faults()) all += one.text() + "\n";
    return all;
  }
  return "none";
}

}  // namespace orrery::experiments::test
