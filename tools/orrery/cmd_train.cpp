// `orrery train CONFIG`: a run of system rl; seeds on threads, state kept on the way.
#include <fmt/format.h>

#include <memory>

#include "tools/orrery/commands.hpp"
#include "tools/orrery/run_command.hpp"

namespace orrery::tools {
namespace {

struct TrainOptions {
  RunOptions run;
  std::string steps, seeds, jobs, state;
};

int train(const TrainOptions& options) {
  RunOptions run = options.run;
  const auto set = [&](const char* path, const std::string& value) {
    if (!value.empty()) run.before.push_back(fmt::format("{}={}", path, value));
  };
  set("system", "rl");
  set("train.steps", options.steps);
  set("run.seeds", options.seeds);
  set("run.jobs", options.jobs);
  set("run.state", options.state);
  return run_config(run);
}

}  // namespace

void add_train(CLI::App& app, Action& action) {
  auto options = std::make_shared<TrainOptions>();
  CLI::App* command = app.add_subcommand("train", "Train a learner in an environment");
  add_run_options(*command, options->run);
  command->add_option("--steps", options->steps, "Environment steps of a training (train.steps)");
  command->add_option("--seeds", options->seeds, "Trainings, from seed on (run.seeds)");
  command->add_option("--jobs", options->jobs, "Threads; the results are the same for any number (run.jobs)");
  command->add_option("--state", options->state,
                      "Folder in which trainings keep their state, to go on from when started again (run.state)");
  command->callback([options, &action] { action = [options] { return train(*options); }; });
}

}  // namespace orrery::tools
