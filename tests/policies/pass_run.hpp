// Running a pass from its name and parameters as a config would.
#pragma once

#include <memory>
#include <string>

#include "policies/graph_pass.hpp"
#include "sim/base/document.hpp"

namespace orrery::policies::test {

/// The pass of that name; `params` is its block as JSON. Throws sim::ConfigError.
inline std::unique_ptr<GraphPass> make_pass(const std::string& name, const std::string& params = "{}") {
  PassRegistry registry("pass");
  register_graph_passes(registry);
  const sim::Node node = sim::parse_json(params, "test.json");
  sim::Faults faults;
  const PassRegistry::Choice choice = registry.prepare(name, &node, {}, faults);
  faults.throw_if_any();
  return choice.make();
}

/// A figure that a pass told. Throws std::out_of_range for one that it did not tell.
inline double figure(const PassReport& report, const std::string& name) {
  for (const auto& [key, value] : report.figures)
    if (key == name) return value;
  throw std::out_of_range(name);
}

}  // namespace orrery::policies::test
