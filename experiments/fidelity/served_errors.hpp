// Errors of whole serving runs by part, engine and kind of model: what `orrery run` tells of how far to trust it.
//
// Gathered from the tables of `serving/`, whose rows say what they are runs of (ServedRun). What ships is
// experiments/measured/serving.json, written by `orrery fidelity DIR --served FILE`; experiments/systems/serving reads
// it (expected_error.hpp).
#pragma once

#include <compare>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "experiments/fidelity/fidelity.hpp"

namespace orrery::experiments {

class ServedErrors {
 public:
  /// Adds the rows of a column that are runs; others are none.
  void add(const MeasuredTable& table, const Predictions::Column& column);
  /// {"runs": [{"part", "engine", "policy", "model", "tables": [], "ttft": {"rows", "mape", "bias"}, "tpot": …}]},
  /// sorted; errors are fractions with four digits. A figure that no row has is null.
  sim::Node node() const;

 private:
  struct Group {
    std::string part, policy, engine;
    bool experts = false;
    auto operator<=>(const Group&) const = default;
  };
  struct Errors {
    std::set<std::string> tables;
    std::map<std::string, std::vector<double>, std::less<>> by_figure;
  };
  std::map<Group, Errors> groups_;
};

}  // namespace orrery::experiments
