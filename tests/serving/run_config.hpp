// Whole serving runs from a config's text, leaping and stepping.
#pragma once

#include <catch2/catch.hpp>
#include <string>

#include "experiments/systems/serving/config/config.hpp"
#include "experiments/systems/serving/system.hpp"
#include "tests/systems.hpp"

namespace orrery::experiments::test {

/// Runs it; faults are thrown.
inline ServingResult run_config(const std::string& text) {
  sim::Faults faults;
  const ServingConfig read = read_serving_config(sim::parse_json(text, "test"), test_systems().registries(), faults);
  faults.throw_if_any();
  return ServingSetup(read).run(nullptr);
}

/// The same as its summary.
inline sim::Node summary_of(const std::string& text) {
  INFO(text);
  return summarise(run_config(text), sim::TickScale{});
}

/// A figure of a summary, which is there.
inline double number(const sim::Node& node, const char* path) {
  INFO(path);
  REQUIRE(node.at(path) != nullptr);
  return node.at(path)->as_number();
}

/// Faults of a config that stands in my.json, a line each.
inline std::string faults_of(const std::string& text) {
  sim::Faults faults;
  (void)read_serving_config(sim::parse_json(text, "my.json"), test_systems().registries(), faults);
  std::string all;
  for (const sim::Fault& fault : faults.all()) all += fault.text() + "\n";
  return all;
}

/// The summary but for the number of events, which alone may differ between leaping and stepping.
inline std::string summary_text(const ServingResult& result) {
  sim::Node node = summarise(result, sim::TickScale{});
  node.set("events", sim::Node::integer(0));
  return node.dump();
}

/// `text` with a member more.
inline std::string with(std::string text, const std::string& member) {
  text.insert(text.rfind('}'), ", " + member);
  return text;
}

/// Runs it leaping and stepping: all requests complete, no block is lost, both say the same.
inline ServingResult checked_run(const std::string& text, std::int64_t requests) {
  INFO(text);
  ServingResult leaping = run_config(text);
  const ServingResult stepping = run_config(with(text, R"("run": {"leap": false})"));
  CHECK(leaping.metrics.completed == requests);
  CHECK(leaping.free_blocks == leaping.total_blocks);
  CHECK(summary_text(leaping) == summary_text(stepping));
  return leaping;
}

}  // namespace orrery::experiments::test
