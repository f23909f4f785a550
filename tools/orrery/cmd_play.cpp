// `orrery play`: a policy of `orrery train` beside rules on the same runs.
#include <fmt/format.h>

#include <thread>

#include "experiments/base/study_file.hpp"
#include "experiments/rl/play.hpp"
#include "tools/orrery/commands.hpp"
#include "tools/orrery/progress.hpp"

namespace orrery::tools {
namespace {

namespace rl = experiments::rl;

struct PlayCommand {
  rl::PlayOptions play{.jobs = std::max(1U, std::thread::hardware_concurrency())};
  std::string policy, config;
  bool json = false, quiet = false;
};

int run_play(const Systems& systems, const PlayCommand& options) {
  rl::PlayOptions how = options.play;
  how.policy = options.policy;
  if (!options.config.empty()) how.config = experiments::named_document(options.config);
  sim::Node played;
  {
    ProgressBar bar(options.quiet);
    how.progress = [&](const experiments::Progress& now) { bar.update(now); };
    played = rl::play(systems, how);
  }
  fmt::print("{}", options.json ? played.dump(2) + "\n" : rl::play_text(played));
  return 0;
}

}  // namespace

void add_play(CLI::App& app, Action& action) {
  auto options = std::make_shared<PlayCommand>();
  CLI::App* command = app.add_subcommand("play", "Compare a policy of `orrery train` with rules on the same runs");
  command->add_option("POLICY", options->policy, "Policy file written by `orrery train`: seed-N.policy")->required();
  command->add_option("CONFIG", options->config,
                      "Config of a serving run (default: the one that the policy was trained on)");
  command->add_option("--set", options->play.assignments, "Change a value of the config: a.b=value")
      ->allow_extra_args(false);
  command
      ->add_option("--against", options->play.against,
                   "Rules to compare with, for the same decision: NAME, NAME:parameter=value, or all (default: the "
                   "config's own)")
      ->delimiter(',');
  command
      ->add_option("--log", options->play.logs, "Report what the policy looks at, over steps logged by a training run")
      ->delimiter(',');
  command->add_option("--seed", options->play.seed, "First seed of the runs (1001)")->check(CLI::NonNegativeNumber);
  command->add_option("--seeds", options->play.seeds, "Number of runs of each policy (5)")
      ->check(CLI::Range(1, 10'000));
  command->add_option("--episodes", options->play.episodes, "Episodes, if the environment is not a serving run (20)")
      ->check(CLI::Range(1, 1'000'000));
  command->add_option("--jobs", options->play.jobs, "Number of threads")->check(CLI::Range(1, 1024));
  command->add_flag("--json", options->json, "Print JSON");
  command->add_flag("--quiet", options->quiet, "Show no progress");
  command->callback(
      [options, &action] { action = [options](const Systems& systems) { return run_play(systems, *options); }; });
}

}  // namespace orrery::tools
