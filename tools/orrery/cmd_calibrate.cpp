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
      app.add_subcommand("calibrate", "Fit the constants of a part to measured tables, or those of an engine to a log");
  command->add_option("DEVICE", options->params.device, "Part from the catalog; with --from-log, the config of the run")
      ->required();
  command->add_option("--data", options->params.data, "Folder of measured tables");
  command->add_option("--from-log", options->params.from_log,
                      "Request log of a running engine (JSON of vllm bench serve or sglang.bench_serving, or CSV)");
  command->add_option("--constant", options->params.constants,
                      "With --from-log: a number of the config to fit, PATH or PATH=MIN:MAX (three at most)");
  command->add_option("--holdout", options->params.holdout,
                      "Rows held out from the fit: shapes (two fifths, by hash), device=NAME (constants from its "
                      "family), COLUMN=VALUE,... or none");
  command->add_option("--block", options->params.blocks,
                      "Fit only these blocks of constants (gemm, attention …); with --training, these constants "
                      "(kernel, overlapped, host)");
  command->add_option("--rows", options->params.rows, "Most rows per table used in the fit")
      ->check(CLI::Range(1, 1'000'000'000));
  command->add_option("--out", options->params.out,
                      "File to write (DEVICE-calibrated.json, -training.json, -residual.json, CONFIG-fitted.json)");
  command->add_flag("--training", options->params.training,
                    "Fit the time of a training run outside its kernels to tables of measured plans "
                    "(training/*.steps.csv), and write section `machine` of a config");
  command->add_flag(
      "--residual", options->params.residual,
      "Fit trees to the remaining errors of the cost model, and write a residual for cost model `learned`");
  command->add_flag("--json", options->json, "Print JSON; errors are fractions");
  command->add_flag("--force", options->params.force, "Replace the file that --out names");
  command->callback(
      [options, &action] { action = [options](const Systems& systems) { return calibrate(*options, systems); }; });
}

}  // namespace orrery::tools
