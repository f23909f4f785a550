// The `orrery` command. Data goes to stdout, everything else to stderr. Exit codes: 0 done (an infeasible design too),
// 1 internal fault, 2 faulty input.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <exception>
#include <string>
#include <vector>

#include "experiments/all/systems.hpp"
#include "sim/base/fault.hpp"
#include "tools/orrery/command_line.hpp"
#include "tools/orrery/commands.hpp"
#include "tools/orrery/ending.hpp"
#include "tools/orrery/plugin_option.hpp"

int main(int argc, char** argv) {
  using namespace orrery;
  CLI::App app("Discrete-event simulator and design-space explorer for AI systems.", "orrery");
  app.set_version_flag("--version", std::string(experiments::version()));
  app.require_subcommand(1);
  app.footer(
      "Exit codes:  0 done (an infeasible design too), 1 internal fault, 2 faulty input, 3 not ok (with "
      "--fail-infeasible), 130 interrupted\n"
      "Environment: ORRERY_HOME folder of catalogs and studies, ORRERY_PYTHON interpreter of reports, ORRERY_PLUGINS "
      "plugins to load (a:b), ORRERY_INPUT_LIMIT most bytes of a file that is read whole (512 MiB)");
  tools::Action action;
  tools::add_run(app, action);
  tools::add_capacity(app, action);
  tools::add_goodput(app, action);
  tools::add_progress(app, action);
  tools::add_slo(app, action);
  tools::add_plans(app, action);
  tools::add_sweep(app, action);
  tools::add_search(app, action);
  tools::add_best(app, action);
  tools::add_analyse(app, action);
  tools::add_export(app, action);
  tools::add_evolve(app, action);
  tools::add_reproduce(app, action);
  tools::add_fidelity(app, action);
  tools::add_list(app, action);
  tools::add_describe(app, action);
  tools::add_report(app, action);
  tools::add_serve(app, action);
  tools::add_trace(app, action);
  tools::add_graph(app, action);
  tools::add_plan(app, action);
  tools::add_experts(app, action);
  tools::add_fits(app, action);
  tools::add_train(app, action);
  tools::add_play(app, action);
  tools::add_validate(app, action);
  tools::add_schema(app, action);
  tools::add_import(app, action);
  tools::add_calibrate(app, action);
  tools::add_evaluate_points(app, action);
  tools::add_doctor(app, action);
  tools::add_completion(app, action);
  tools::add_manual(app, action);
  tools::group_commands(app);
  std::vector<std::string> plugins;
  tools::add_plugin_option(app, plugins);
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands({})) names.push_back(command->get_name());
  if (argc > 1 && argv[1][0] != '-' && std::find(names.begin(), names.end(), argv[1]) == names.end()) {
    fmt::print(stderr, "orrery: unknown command '{}' ({})\n", argv[1], sim::name_hint(argv[1], names));
    return 2;
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::ExtrasError&) {
    for (const std::string& line : tools::unknown_words(app)) fmt::print(stderr, "{}\n", line);
    return 2;
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  try {
    tools::load_plugins(plugins);
    return tools::written(action(experiments::all_systems(policies::loaded_plugins())));
  } catch (...) {
    return tools::told_exception();
  }
}
