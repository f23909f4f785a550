#include "experiments/progress/system.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>

#include "experiments/base/config_experiment.hpp"
#include "experiments/base/text_file.hpp"
#include "experiments/job/outcome.hpp"
#include "experiments/progress/config.hpp"
#include "experiments/progress/quadratic.hpp"
#include "policies/placement/expert_parallel.hpp"

namespace orrery::experiments {
namespace progress {
namespace {

using sim::Node;

constexpr std::int64_t kMostSteps = 10'000'000;
constexpr double kMostWork = 5e10;  // modes times steps times peaks

/// A training, and what its steps take.
struct Progress {
  const ProgressSections& params;
  std::int64_t steps = 0;
  BestPeak best;
  double first_loss = 0;
  std::int64_t peaks = 1;
  double parameters = 0;  ///< of the model, for a law
  std::optional<LawLoss> law;
  /// Of a job; step_s 0: not known.
  double step_s = 0, ettr = 1, devices = 0, tokens = 0;
  double time_s() const { return static_cast<double>(steps) * step_s / ettr; }
  double cost() const { return time_s() / 3600 * devices * params.workload.price_per_hour; }
};

template <class Of>
FigureValue of_law(const Progress& progress, Of of) {
  if (!progress.law) return std::nullopt;
  return of(*progress.law);
}

const FigureTable<Progress>& progress_table() {
  using P = Progress;
  static const FigureTable<P> table{
      {"status", "", "`ok` or `infeasible`.", [](const P&) { return std::string("ok"); }},
      {"loss.first", "", "Loss before the first step; absent with a law.",
       [](const P& p) -> FigureValue {
         if (p.law) return std::nullopt;
         return p.first_loss;
       }},
      {"loss.final", "", "Loss after the last step.", [](const P& p) { return p.law ? p.law->loss : p.best.loss; }},
      {"loss.{floor,size,data,batch}", "",
       "With a law, parts of the final loss: what no model gets below; from few parameters; from few tokens; from "
       "batches that are not small.",
       [](const P& p) { return of_law(p, [&](const LawLoss&) { return p.params.progress.law->floor; }); },
       [](const P& p) { return of_law(p, [](const LawLoss& l) { return l.of_size; }); },
       [](const P& p) { return of_law(p, [](const LawLoss& l) { return l.of_data; }); },
       [](const P& p) { return of_law(p, [](const LawLoss& l) { return l.of_batch; }); }},
      {"law.parameters", "count", "With a law: parameters of the model.",
       [](const P& p) { return of_law(p, [&](const LawLoss&) { return p.parameters; }); }},
      {"law.{counted,critical_batch}_tokens", "tokens",
       "With a law: tokens that small batches would have needed for the same loss; the batch size that needs twice as "
       "many.",
       [](const P& p) { return of_law(p, [](const LawLoss& l) { return l.counted_tokens; }); },
       [](const P& p) { return of_law(p, [](const LawLoss& l) { return l.critical_batch; }); }},
      {"peak_rate", "", "Peak learning rate, stated or the best one tried; absent with a law.",
       [](const P& p) -> FigureValue {
         if (p.law) return std::nullopt;
         return p.best.peak;
       }},
      {"budget.steps", "count", "Steps that the budget allows.", [](const P& p) { return p.steps; }},
      {"budget.time_s", "s", "Time of these steps, failures included; absent if the time of a step is not known.",
       [](const P& p) -> FigureValue {
         if (p.step_s <= 0) return std::nullopt;
         return p.time_s();
       }},
      {"budget.cost", "", "Cost of these steps at workload.price.",
       [](const P& p) -> FigureValue {
         if (p.step_s <= 0 || p.params.workload.price_per_hour <= 0) return std::nullopt;
         return p.cost();
       }},
      {"budget.tokens", "tokens", "Tokens trained on; absent for a job without a model.",
       [](const P& p) -> FigureValue {
         if (p.tokens <= 0) return std::nullopt;
         return p.tokens * static_cast<double>(p.steps);
       }},
      {"step_s", "s", "Time of a step with every node at work.",
       [](const P& p) -> FigureValue {
         if (p.step_s <= 0) return std::nullopt;
         return p.step_s;
       }},
      {"ettr", "ratio", "Effective training time ratio (ETTR) of the job.", [](const P& p) -> FigureValue {
         if (p.step_s <= 0) return std::nullopt;
         return p.ettr;
       }}};
  return table;
}

class ProgressExperiment final : public ConfigExperiment {
 public:
  explicit ProgressExperiment(ProgressConfig config) : config_(std::move(config)) {
    resolved_ = config_.resolved;
    if (config_.job) inputs_ = config_.job->inputs;
    seed_ = config_.params.run.seed;
  }

  std::vector<std::pair<std::string, std::string>> restated() const override {
    const ProgressParams& p = config_.params.progress;
    if (p.law)
      return {
          {"problem", fmt::format("law of parameters and tokens, {:g} + {:g} / N^{:g} + {:g} / D^{:g}", p.law->floor,
                                  p.law->size, p.law->size_exponent, p.law->data, p.law->data_exponent)},
          {"batch", fmt::format("{} sequences of {} tokens", config_.params.workload.global_batch,
                                config_.params.workload.sequence)}};
    return {{"problem", fmt::format("noisy quadratic, {} modes, condition {:g}, noise {:g} over batch {}", p.modes,
                                    p.condition, p.noise, config_.params.workload.global_batch)},
            {"schedule", config_.params.policies.rate.name}};
  }

  Outcome run(const RunSink& sink) const override {
    Progress progress{.params = config_.params, .steps = config_.params.progress.steps};
    if (config_.job) {
      const job::JobShape shape = job::job_shape(*config_.job);
      if (!shape.obstacle.empty()) return Outcome::infeasible(shape.obstacle);
      const job::JobOutcome outcome = job::play_all(*config_.job, shape, {});
      progress.step_s = shape.step_s;
      progress.ettr = outcome.mean_ettr();
      progress.devices = static_cast<double>(shape.ranks + config_.params.job.spares * shape.node_devices);
      progress.tokens = shape.tokens;
      if (progress.steps == 0) progress.steps = affordable(progress);
      if (progress.steps < 1)
        return Outcome::infeasible(fmt::format("the budget does not pay for a step, which takes {}",
                                               sim::humanise(progress.step_s / progress.ettr, sim::Unit::seconds)));
    }
    if (config_.params.progress.law) {
      if (const std::string why = follow_law(progress, sink); !why.empty()) return Outcome::infeasible(why);
    } else {
      if (const std::string why = too_much(progress); !why.empty()) return Outcome::infeasible(why);
      train(progress, sink);
    }
    return {.summary = progress_table().written(progress),
            .events = static_cast<std::uint64_t>(progress.steps),
            .notes = config_.job ? config_.job->notes : std::vector<std::string>{}};
  }

 private:
  std::int64_t affordable(const Progress& progress) const {
    const ProgressParams& p = config_.params.progress;
    const double whole = progress.step_s / progress.ettr;
    const double seconds =
        p.time_s > 0 ? p.time_s : p.cost * 3600 / (progress.devices * config_.params.workload.price_per_hour);
    return static_cast<std::int64_t>(std::min(seconds / whole, 1e15));
  }

  std::string too_much(const Progress& progress) const {
    const ProgressParams& p = config_.params.progress;
    if (progress.steps > kMostSteps)
      return fmt::format("{} steps are more than the {} that are looked at", progress.steps, kMostSteps);
    const double work =
        static_cast<double>(progress.steps) * static_cast<double>(p.modes) * static_cast<double>(p.peak ? 1 : p.peaks);
    if (work > kMostWork)
      return fmt::format("{:.3g} updates of modes are more than {:.0e}: fewer steps, modes or peaks make fewer", work,
                         kMostWork);
    return {};
  }

  /// The loss by the law; why there is none where there is none.
  std::string follow_law(Progress& progress, const RunSink& sink) const {
    const LossLaw& law = *config_.params.progress.law;
    progress.parameters = law.parameters.value_or(0);
    if (!law.parameters) {
      const models::OpGraph& model = config_.job->training->model.forward;
      for (const models::TensorId id : model.with_role(models::TensorRole::parameter))
        progress.parameters += static_cast<double>(model.tensor(id).elements().eval(models::Bindings{}));
      for (const models::OpId id : model.ops())
        if (policies::multiplies_experts(model, model.op(id)))
          return "the law is of dense models, this one has experts: law.parameters says how many it counts as";
    }
    const auto& work = config_.params.workload;
    if (progress.tokens <= 0)
      progress.tokens = static_cast<double>(work.global_batch) * static_cast<double>(work.sequence);
    const auto after = [&](std::int64_t steps) {
      return law_loss(law, progress.parameters, static_cast<double>(steps) * progress.tokens, progress.tokens);
    };
    progress.law = after(progress.steps);
    if (!std::isfinite(progress.law->loss))
      return fmt::format(
          "by the law {} steps are too few for batches of {:.3g} tokens: no loss has so large a critical batch",
          progress.steps, progress.tokens);
    if (sink.folder)
      write_curve(*sink.folder / "curve.csv", progress, [&](const auto& row) {
        const std::int64_t every = spacing(progress.steps);
        for (std::int64_t step = every; step < progress.steps; step += every)
          if (const double loss = after(step).loss; std::isfinite(loss)) row(step, std::nullopt, loss);
        row(progress.steps, std::nullopt, progress.law->loss);
      });
    return {};
  }

  /// The schedule's rates; what they are refined from is the linear schedule at its best peak.
  std::vector<double> rates(const NoisyQuadratic& problem, std::int64_t steps) const {
    const auto schedule = config_.params.policies.rate.make();
    if (!schedule->wants_norms()) return schedule->rates({.steps = steps});
    const std::vector<double> linear = policies::rates_of(steps, [](double z) { return 1 - z; });
    std::vector<double> norms;
    (void)train_quadratic(problem, linear, peak_of(problem, linear).peak,
                          [&](const QuadraticStep& step) { norms.push_back(step.norm); });
    return schedule->rates({.steps = steps, .norms = norms});
  }

  BestPeak peak_of(const NoisyQuadratic& problem, const std::vector<double>& rates) const {
    const ProgressParams& p = config_.params.progress;
    if (p.peak) return {*p.peak, train_quadratic(problem, rates, *p.peak)};
    return best_peak(problem, rates, p.peaks, p.lowest);
  }

  void train(Progress& progress, const RunSink& sink) const {
    const ProgressParams& p = config_.params.progress;
    NoisyQuadratic problem =
        spaced_quadratic(p.modes, p.condition, p.noise / static_cast<double>(config_.params.workload.global_batch));
    problem.start = p.start;
    const std::vector<double> all = rates(problem, progress.steps);
    progress.best = peak_of(problem, all);
    for (const double h : problem.curvature) progress.first_loss += h * p.start / 2;
    if (sink.folder)
      write_curve(*sink.folder / "curve.csv", progress, [&](const auto& row) {
        std::int64_t step = 0;
        const std::int64_t every = spacing(progress.steps);
        (void)train_quadratic(problem, all, progress.best.peak, [&](const QuadraticStep& at) {
          const double rate = progress.best.peak * all[static_cast<std::size_t>(step)];
          if (++step % every == 0 || step == progress.steps) row(step, rate, at.loss);
        });
      });
  }

  /// Steps from one row of the curve to the next.
  static std::int64_t spacing(std::int64_t steps) {
    constexpr std::int64_t kRows = 2000;
    return std::max<std::int64_t>(1, steps / kRows);
  }

  /// A row each step, or as often as some thousand rows allow; a law has no rates.
  template <class Rows>
  static void write_curve(const std::filesystem::path& path, const Progress& progress, Rows rows) {
    BufferedFile file(path);
    file.buffer() += "step,rate,loss,time_s,cost\n";
    rows([&](std::int64_t step, std::optional<double> rate, double loss) {
      const double time_s = static_cast<double>(step) * progress.step_s / progress.ettr;
      append(file.buffer(), "{},{},{:.9g},{:.9g},{:.9g}\n", step, rate ? fmt::format("{:.9g}", *rate) : "", loss,
             time_s, time_s / 3600 * progress.devices * progress.params.workload.price_per_hour);
      file.line_done();
    });
    file.close();
  }

  ProgressConfig config_;
};

}  // namespace
}  // namespace progress

System progress_system() {
  std::vector<FigureInfo> figures = progress::progress_table().infos();
  figures.push_back({"reason", "", "Why it is infeasible."});
  return {
      .name = "progress",
      .doc =
          "Loss reached with a budget of steps, time or money: a noisy quadratic under a learning-rate schedule, "
          "combined with a training job.",
      .fields = describe_sections<progress::ProgressSections>,
      .figures = std::move(figures),
      .read = [](const sim::Node& root, const Systems& systems, sim::Faults& faults) -> std::unique_ptr<Experiment> {
        progress::ProgressConfig config = progress::read_progress_config(root, *systems.registries(), faults);
        faults.throw_if_any();
        return std::make_unique<progress::ProgressExperiment>(std::move(config));
      }};
}

}  // namespace orrery::experiments
