// `orrery sweep STUDY`: every point of a study's sweep (docs/explain/studies.md).
#include "tools/orrery/explore_command.hpp"

namespace orrery::tools {

void add_sweep(CLI::App& app, Action& action) {
  add_explore(app, action, "sweep", "Run every point of a study's sweep into a store", false);
}

}  // namespace orrery::tools
