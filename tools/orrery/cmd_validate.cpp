// `orrery validate FILE…` and `orrery schema`.
#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "experiments/claims/runner.hpp"
#include "experiments/evolve/evaluator.hpp"
#include "experiments/experiment.hpp"
#include "experiments/study/explore.hpp"
#include "experiments/study_file.hpp"
#include "hw/catalog.hpp"
#include "tools/orrery/commands.hpp"

namespace orrery::tools {
namespace {

constexpr std::size_t kMostPoints = 1000;  ///< of a study that are read

struct ValidateOptions {
  std::vector<std::string> configs, assignments;
  bool quiet = false;
};

/// Whether a file says that it is a part of the catalog ("gpu", "npu", …), as `orrery calibrate` writes them.
bool is_part(const std::string& file) {
  const sim::Node node = sim::read_config(file);
  const sim::Node* kind = node.is_object() ? node.find("kind") : nullptr;
  if (kind == nullptr || !kind->is_string()) return false;
  const auto& kinds = hw::part_kinds();
  return std::any_of(kinds.begin(), kinds.end(), [&](const hw::PartKind& k) { return k.name == kind->as_string(); });
}

/// A study and every experiment that it makes.
void validate_study(const std::string& file, const std::vector<std::string>& assignments) {
  experiments::claims::check_experiments(experiments::claims::read_study(file, assignments));
}

/// A study and the experiments of its sweep, or of some points of its space where it has none.
void validate_points(const std::string& file, const std::vector<std::string>& assignments) {
  const experiments::study::Study study = experiments::study::read_study(file, assignments);
  const bool swept = !study.sweep.empty();
  (void)experiments::study::check_explorable(study, !swept);
  experiments::study::check_experiments(study, experiments::study::sample_points(study, swept, kMostPoints));
}

/// Reports the faults of all files, not only of the first bad one.
int validate(const ValidateOptions& options) {
  int exit_code = 0;
  for (const std::string& config : options.configs) {
    try {
      if (experiments::claims::is_claim_study(std::filesystem::path(config))) {
        validate_study(config, options.assignments);
      } else if (experiments::study::is_study(config)) {
        validate_points(config, options.assignments);
      } else if (experiments::document_kind(sim::read_json(config)) == "evolve") {
        experiments::evolve::check_experiments(experiments::evolve::read_evolve_study(config, options.assignments));
      } else if (is_part(config)) {
        (void)hw::read_any_part(config);
      } else {
        (void)experiments::read_experiment(config, options.assignments);
      }
      if (!options.quiet) fmt::print("{}: valid\n", config);
    } catch (const sim::ConfigError& error) {
      for (const sim::Fault& fault : error.faults()) fmt::print(stderr, "{}\n", fault.text());
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
  command->add_flag("--quiet", options->quiet, "Say nothing about valid files");
  command->callback([options, &action] { action = [options] { return validate(*options); }; });
}

void add_schema(CLI::App& app, Action& action) {
  CLI::App* command = app.add_subcommand("schema", "Print the JSON Schema (draft-07) of experiment configs");
  command->callback([&action] {
    action = [] {
      fmt::print("{}\n", experiments::config_schema().dump(2));
      return 0;
    };
  });
}

}  // namespace orrery::tools
