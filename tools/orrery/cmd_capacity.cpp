// `orrery capacity CONFIG`: the highest rate of requests that meets targets (docs/questions.md).
#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "sim/base/fault.hpp"
#include "tools/orrery/commands.hpp"
#include "tools/orrery/run_command.hpp"

namespace orrery::tools {
namespace {

struct CapacityOptions {
  RunOptions run;
  std::string ttft, tbt, min_rate, max_rate, start_rate;
  std::string attainment, tolerance, requests, replications;
  std::vector<std::string> limits;
};

/// "50" is fifty a second.
std::string rate(const std::string& text) {
  if (text.empty()) return text;
  return text.find_first_not_of("0123456789.eE+-") == std::string::npos ? text + " 1/s" : text;
}

/// "tbt.p99=100ms" as an element of capacity.limits.
std::string limit(const std::string& text) {
  const std::size_t equals = text.find('=');
  const std::size_t dot = text.find('.');
  if (equals == std::string::npos)
    sim::throw_fault({"--limit", ""}, fmt::format("expected METRIC.STATISTIC=TIME, got '{}'", text), "tbt.p99=100ms");
  const bool has_statistic = dot < equals;
  return fmt::format(R"({{"metric": "{}", "at": "{}", "most": "{}"}})", text.substr(0, std::min(dot, equals)),
                     has_statistic ? text.substr(dot + 1, equals - dot - 1) : "p99", text.substr(equals + 1));
}

int capacity(const CapacityOptions& options) {
  RunOptions run = options.run;
  const auto set = [&](const char* path, const std::string& value) {
    if (!value.empty()) run.before.push_back(fmt::format("{}={}", path, value));
  };
  set("system", "capacity");
  set("slo.ttft", options.ttft);
  set("slo.tbt", options.tbt);
  set("capacity.attainment", options.attainment);
  set("capacity.tolerance", options.tolerance);
  set("capacity.requests", options.requests);
  set("capacity.replications", options.replications);
  set("capacity.start_rate", rate(options.start_rate));
  set("capacity.min_rate", rate(options.min_rate));
  set("capacity.max_rate", rate(options.max_rate));
  std::string limits;
  for (const std::string& text : options.limits) limits += (limits.empty() ? "" : ", ") + limit(text);
  if (!limits.empty()) set("capacity.limits", "[" + limits + "]");
  return run_config(run);
}

}  // namespace

void add_capacity(CLI::App& app, Action& action) {
  auto options = std::make_shared<CapacityOptions>();
  CLI::App* command = app.add_subcommand("capacity", "Search the highest request rate that meets targets");
  add_run_options(*command, options->run);
  command->add_option("--slo-ttft", options->ttft, "Target for the time to first token of a request (slo.ttft)");
  command->add_option("--slo-tbt", options->tbt, "Target for the P99 of its times between tokens (slo.tbt)");
  command->add_option("--attainment", options->attainment,
                      "Least share of requests that attain them (default 0.99, if there is no limit)");
  command->add_option("--limit", options->limits, "Bound on a latency of all requests: tbt.p99=100ms, queueing.p50=2s")
      ->allow_extra_args(false);
  command->add_option("--requests", options->requests, "Requests of a run (default: all of the workload)");
  command->add_option("--replications", options->replications, "Most runs of a rate (default 5)");
  command->add_option("--tolerance", options->tolerance, "Width of the answer as a share (default 0.02)");
  command->add_option("--start-rate", options->start_rate, "First rate tried, requests/s (default: the workload's)");
  command->add_option("--min-rate", options->min_rate, "Least rate tried");
  command->add_option("--max-rate", options->max_rate, "Greatest rate tried");
  command->callback([options, &action] { action = [options] { return capacity(*options); }; });
}

}  // namespace orrery::tools
