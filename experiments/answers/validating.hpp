// The check of a file, whatever it is: an experiment, a study, a claim study, a search for expressions, a part.
#pragma once

#include <string>
#include <vector>

#include "experiments/base/experiment.hpp"

namespace orrery::experiments {

/// Checks a file and every experiment that it makes (of a large study some). Throws sim::ConfigError with all faults.
void validate_file(const Systems& systems, const std::string& file, const std::vector<std::string>& assignments);

}  // namespace orrery::experiments
