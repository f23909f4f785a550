// `orrery calibrate DEVICE --data DIR`: fits the constants of a part to measured tables and writes a catalog entry.
#include <fmt/format.h>

#include <memory>

#include "experiments/answers/calibrating.hpp"
#include "tools/orrery/commands.hpp"

namespace orrery::tools {
namespace {

struct CalibrateOptions {
  experiments::CalibrateParams params;
  bool json = false;
};

int calibrate(const CalibrateOptions& options, const Systems& systems) {
  const experiments::Calibrated made = experiments::calibrate_to_file(options.params, systems);
  if (options.json) {
    fmt::print("{}\n", experiments::calibrated_json(made).dump(2));
  } else {
    fmt::print("{}", experiments::calibrated_text(made));
  }
  fmt::print(stderr, "wrote {}\n", made.file);
  return 0;
}

}  // namespace

void add_calibrate(CLI::App& app, Action& action) {
  auto options = std::make_shared<CalibrateOptions>();
  CLI::App* command =
      app.add_subcommand("calibrate", "Fit the constants of a part to measured tables, or an engine's to a log");
  command->add_option("DEVICE", options->params.device, "A part of the catalog; with --from-log the config of the run")
      ->required();
  command->add_option("--data", options->params.data, "Folder of measured tables");
  command->add_option("--from-log", options->params.from_log,
                      "Log of requests of a running engine (JSON of vllm bench serve or sglang.bench_serving, CSV)");
  command->add_option("--constant", options->params.constants,
                      "With --from-log: a number of the config that is fitted, PATH or PATH=MIN:MAX; three at most");
  command->add_option(
      "--holdout", options->params.holdout,
      "shapes (two fifths, by hash), device=NAME (constants from its family), COLUMN=VALUE,... (rows), or none");
  command->add_option(
      "--block", options->params.blocks,
      "Only these blocks of constants (gemm, attention …), or constants with --training (kernel, overlapped, host)");
  command->add_option("--rows", options->params.rows, "Most rows of a table that are fitted")
      ->check(CLI::Range(1, 1'000'000'000));
  command->add_option("--out", options->params.out,
                      "What to write (DEVICE-calibrated.json, -training.json, -residual.json, CONFIG-fitted.json)");
  command->add_flag("--training", options->params.training,
                    "Fit what a training run takes beside its kernels to tables of measured plans "
                    "(training/*.steps.csv), and write section `machine` of a config");
  command->add_flag("--residual", options->params.residual,
                    "Fit trees to what is left of the model's errors, and write a residual of cost model `learned`");
  command->add_flag("--json", options->json, "As JSON; errors are fractions");
  command->add_flag("--force", options->params.force, "Replace the file that --out names");
  command->callback(
      [options, &action] { action = [options](const Systems& systems) { return calibrate(*options, systems); }; });
}

}  // namespace orrery::tools
