// `orrery progress score|fit`: scores of training algorithms, curves of reward over compute (docs/explain/progress.md).
#include <fmt/format.h>

#include <memory>

#include "experiments/answers/progress_questions.hpp"
#include "tools/orrery/commands.hpp"

namespace orrery::tools {

void add_progress(CLI::App& app, Action& action) {
  CLI::App* progress = app.add_subcommand("progress", "Score training progress, and fit reward over compute");
  progress->require_subcommand(1);

  struct ScoreOptions {
    experiments::ScoreParams params;
    bool json = false;
  };
  auto scored = std::make_shared<ScoreOptions>();
  CLI::App* score = progress->add_subcommand("score", "Compute AlgoPerf's score from times to targets");
  score->add_option("TABLE", scored->params.table, "CSV file: submission, workload, median_time_to_target_s")
      ->required();
  score->add_option("--most", scored->params.most, "Ratio to the fastest time at and beyond which the score is 0 (4)")
      ->check(CLI::Range(1.0001, 1e6));
  score->add_flag("--json", scored->json, "Print JSON");
  score->callback([scored, &action] {
    action = [scored](const Systems&) {
      fmt::print("{}", scored->json ? experiments::score_node(scored->params).dump(2) + "\n"
                                    : experiments::score_text(scored->params));
      return 0;
    };
  });

  struct CurveOptions {
    experiments::CurveParams params;
    bool json = false;
  };
  auto fitted = std::make_shared<CurveOptions>();
  CLI::App* fit = progress->add_subcommand("fit", "Fit reward over compute, with a confidence interval of its ceiling");
  fit->add_option("TABLE", fitted->params.table, "CSV file: compute, reward")->required();
  fit->add_option("--start", fitted->params.start, "Reward before the first step (0)");
  fit->add_option("--from", fitted->params.from, "Least compute of the points that are fitted")
      ->check(CLI::NonNegativeNumber);
  fit->add_option("--until", fitted->params.until,
                  "Most compute of the points that are fitted; the later ones judge the fit")
      ->check(CLI::NonNegativeNumber);
  fit->add_option("--at", fitted->params.at, "Compute at which to predict the reward")->check(CLI::NonNegativeNumber);
  fit->add_option("--draws", fitted->params.draws, "Number of fits to resampled residuals (200)")
      ->check(CLI::Range(0, 10'000));
  fit->add_option("--seed", fitted->params.seed, "Seed of the resampling (1)")->check(CLI::NonNegativeNumber);
  fit->add_flag("--json", fitted->json, "Print JSON");
  fit->callback([fitted, &action] {
    action = [fitted](const Systems&) {
      const auto answer = experiments::fit_reward_curve(fitted->params);
      fmt::print("{}", fitted->json ? experiments::curve_node(answer).dump(2) + "\n" : experiments::curve_text(answer));
      return 0;
    };
  });
}

}  // namespace orrery::tools
