// An assignment: a value for a dotted path of a config, as variants, axes and parameters of studies make them.
#pragma once

#include <string>

#include "sim/base/document.hpp"

namespace orrery::experiments {

/// A value for a dotted path of an experiment's config.
struct Assignment {
  std::string path;
  sim::Node value;
};

/// One value out of a list: what it is called, its number (of a quantity in SI; of a mere text its position), what it
/// sets.
struct Choice {
  std::string label;
  double number = 0;
  bool text = false;  ///< formulas compare it with the label
  std::vector<Assignment> assignments;
};

}  // namespace orrery::experiments
