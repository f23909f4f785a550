// `orrery validate FILE…` and `orrery schema`.
#include <fmt/format.h>

#include <memory>

#include "experiments/all/systems.hpp"
#include "experiments/answers/validating.hpp"
#include "experiments/base/experiment.hpp"
#include "experiments/base/study_file.hpp"
#include "sim/base/fault.hpp"
#include "tools/orrery/commands.hpp"
#include "tools/orrery/ending.hpp"

namespace orrery::tools {
namespace {

struct ValidateOptions {
  std::vector<std::string> configs, assignments;
  bool quiet = false;
};

/// Reports the faults of all files, not only of the first bad one.
int validate(const Systems& systems, const ValidateOptions& options) {
  int exit_code = 0;
  for (const std::string& given : options.configs) {
    try {
      const std::string config = experiments::named_document(given);
      experiments::validate_file(systems, config, options.assignments);
      if (!options.quiet) fmt::print("{}: valid\n", given);
    } catch (const sim::ConfigError& error) {
      tell_faults(error);
      exit_code = 2;
    }
  }
  return exit_code;
}

}  // namespace

void add_validate(CLI::App& app, Action& action) {
  auto options = std::make_shared<ValidateOptions>();
  CLI::App* command = app.add_subcommand("validate", "Check configs and report every fault");
  command
      ->add_option("CONFIG", options->configs,
                   "Experiment configs, studies, claim studies, or parts of a catalog (JSON)")
      ->required();
  command->add_option("--set", options->assignments, "Change a value first: a.b.c=value")->allow_extra_args(false);
  command->add_flag("--quiet", options->quiet, "Print nothing about valid files");
  command->callback(
      [options, &action] { action = [options](const Systems& systems) { return validate(systems, *options); }; });
}

void add_schema(CLI::App& app, Action& action) {
  CLI::App* command = app.add_subcommand("schema", "Print the JSON Schema (draft-07) of experiment configs");
  command->callback([&action] {
    action = [](const Systems& systems) {
      fmt::print("{}\n", experiments::config_schema(systems).dump(2));
      return 0;
    };
  });
}

}  // namespace orrery::tools
