#include "sim/base/home.hpp"

#include <cstdlib>

namespace orrery::sim {

std::filesystem::path home_folder() {
  const char* chosen = std::getenv("ORRERY_HOME");
  return chosen != nullptr ? chosen : ORRERY_HOME_FOLDER;
}

}  // namespace orrery::sim
