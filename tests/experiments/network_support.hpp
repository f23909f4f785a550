// Small network configs and their results, for tests of the system `network`.
#pragma once

#include <string>
#include <vector>

#include "experiments/base/experiment.hpp"
#include "tests/experiments/support.hpp"
#include "tests/systems.hpp"

namespace orrery::experiments::test {

/// A star of eight hosts, 1 GB/s and 1 us a link, so that a message of b bytes takes 2 us + b ns alone. `workload` is
/// the inside of that section; `extra` are further members of the config, each with a leading comma.
inline std::string star_config(const std::string& workload, const std::string& extra = "") {
  return R"({"system": "network", "machine": {"network": {"topology": {"policy": "star",
    "star": {"hosts": 8, "bandwidth": "1 GB/s", "latency": "1 us"}}}}, "workload": {)" +
         workload + "}" + extra + "}";
}

/// A fat tree of 16 hosts.
inline std::string tree_config(const std::string& workload, const std::string& extra = "") {
  return R"({"system": "network", "machine": {"network": {"topology": {"policy": "fat_tree",
    "fat_tree": {"k": 4, "bandwidth": "1 GB/s", "latency": "1 us"}}}}, "workload": {)" +
         workload + "}" + extra + "}";
}

/// What a run leaves behind.
struct NetworkOutcome {
  sim::Node summary;
  std::vector<Row> jobs, flows, links;
  std::vector<std::string> notes;

  std::string status() const { return summary.find("status")->as_string(); }
  double number(std::string_view path) const { return summary.at(path)->as_number(); }
};

/// Runs a config in memory and reads its files back.
inline NetworkOutcome run_network_config(const std::string& json) {
  const Scratch scratch;
  fs::create_directory(scratch / "run");
  const Outcome outcome = read_experiment(test_systems(), sim::parse_json(json, "c.json"))->run({scratch / "run", {}});
  return {outcome.summary, read_csv(scratch / "run/jobs.csv"), read_csv(scratch / "run/flows.csv"),
          read_csv(scratch / "run/links.csv"), outcome.notes};
}

/// A time of a file in whole picoseconds.
inline std::int64_t picoseconds(const std::string& seconds) {
  const std::size_t dot = std::min(seconds.find('.'), seconds.size());
  std::string digits = dot < seconds.size() ? seconds.substr(dot + 1) : "";
  digits.resize(12, '0');
  return std::stoll(seconds.substr(0, dot)) * 1'000'000'000'000 + std::stoll(digits);
}

}  // namespace orrery::experiments::test
