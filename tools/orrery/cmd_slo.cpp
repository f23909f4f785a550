// `orrery slo CONFIG`: attainment against rate and scale of the targets (docs/questions.md).
#include <fmt/format.h>

#include <memory>

#include "tools/orrery/commands.hpp"
#include "tools/orrery/run_command.hpp"

namespace orrery::tools {
namespace {

struct SloOptions {
  RunOptions run;
  std::string ttft, tbt, target, requests, replications;
  std::vector<std::string> rates, scales;
};

/// "[…]" of list elements with what each needs around it.
std::string list(const std::vector<std::string>& items, const char* before, const char* after) {
  std::string text;
  for (const std::string& item : items) text += (text.empty() ? "" : ", ") + (before + item) + after;
  return "[" + text + "]";
}

int slo(const SloOptions& options) {
  RunOptions run = options.run;
  const auto set = [&](const char* path, const std::string& value) {
    if (!value.empty()) run.before.push_back(fmt::format("{}={}", path, value));
  };
  set("system", "slo_sweep");
  set("slo.ttft", options.ttft);
  set("slo.tbt", options.tbt);
  set("slo_sweep.target", options.target);
  set("slo_sweep.requests", options.requests);
  set("slo_sweep.replications", options.replications);
  if (!options.rates.empty()) set("slo_sweep.rates", list(options.rates, "\"", " 1/s\""));
  if (!options.scales.empty()) set("slo_sweep.scales", list(options.scales, "", ""));
  return run_config(run);
}

}  // namespace

void add_slo(CLI::App& app, Action& action) {
  auto options = std::make_shared<SloOptions>();
  CLI::App* command = app.add_subcommand("slo", "Attainment of an SLO against rate and against its scale");
  add_run_options(*command, options->run);
  command->add_option("--slo-ttft", options->ttft, "Target for the time to first token of a request (slo.ttft)");
  command->add_option("--slo-tbt", options->tbt, "Target for the P99 of its times between tokens (slo.tbt)");
  command->add_option("--rates", options->rates, "Requests/s, with commas (default: around the workload's own)")
      ->delimiter(',');
  command->add_option("--scales", options->scales, "Multiples of the targets, with commas")->delimiter(',');
  command->add_option("--target", options->target, "Share of requests that should attain them (default 0.95)");
  command->add_option("--requests", options->requests, "Requests of a run (default: all of the workload)");
  command->add_option("--replications", options->replications, "Runs of a point (default 3)");
  command->callback([options, &action] { action = [options] { return slo(*options); }; });
}

}  // namespace orrery::tools
