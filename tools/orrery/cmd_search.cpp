// `orrery search STUDY`: the points that a driver asks for (docs/explain/studies.md).
#include "tools/orrery/explore_command.hpp"

namespace orrery::tools {

void add_search(CLI::App& app, Action& action) {
  add_explore(app, action, "search", "Search a study's space for its best points", true);
}

}  // namespace orrery::tools
