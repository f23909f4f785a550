// Where shipped data lies: parts, models, rules.
#pragma once

#include <filesystem>

namespace orrery::sim {

/// $ORRERY_HOME, or the source tree that the program was built from.
std::filesystem::path home_folder();

}  // namespace orrery::sim
