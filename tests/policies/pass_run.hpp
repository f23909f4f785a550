// Running a pass from its name and parameters as a config would.
#pragma once

#include <algorithm>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "policies/base/graph_pass.hpp"
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

/// Lines in order of text: graphs of equal ops that stand in different orders of execution print alike.
inline std::string sorted_lines(const std::string& text) {
  std::vector<std::string> lines;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = text.find('\n', begin);
    lines.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  std::sort(lines.begin(), lines.end());
  std::string all;
  for (const std::string& line : lines) all += line + "\n";
  return all;
}

}  // namespace orrery::policies::test
