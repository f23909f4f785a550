// `orrery evaluate-points`: the helper that evaluates points for another process (docs/explain/studies.md). Hidden: not
// typed by people.
#include <iostream>

#include "experiments/study/protocol.hpp"
#include "tools/orrery/commands.hpp"

namespace orrery::tools {

void add_evaluate_points(CLI::App& app, Action& action) {
  CLI::App* command = app.add_subcommand("evaluate-points", "Evaluate configs given as JSON lines on stdin");
  command->group("");
  command->callback([&action] {
    action = [](const Systems& systems) {
      std::ios::sync_with_stdio(false);  // so that it can tell whether more lines are there
      experiments::study::evaluate_points(systems, std::cin, std::cout);
      return std::cout ? 0 : 1;
    };
  });
}

}  // namespace orrery::tools
