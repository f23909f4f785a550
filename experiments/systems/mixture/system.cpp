#include "experiments/systems/mixture/system.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>

#include "experiments/base/config_experiment.hpp"
#include "experiments/base/config_parts.hpp"
#include "experiments/base/figure_table.hpp"
#include "experiments/base/text_file.hpp"
#include "experiments/systems/mixture/domains.hpp"
#include "policies/mixture/mixture.hpp"

namespace orrery::experiments {
namespace mixture {
namespace {

using sim::Node;

constexpr double kMostWork = 2e10;

struct ProblemParams {
  std::int64_t parameters = 20, domains = 8, tasks = 3, relevant = 2;
  double condition = 20, noise = 1;
  static constexpr auto fields() {
    using sim::Unit;
    using P = ProblemParams;
    return sim::FieldTable{
        sim::field("parameters", &P::parameters, Unit::count, sim::between(1, 1 << 20),
                   "Number of parameters of the model."),
        sim::field("domains", &P::domains, Unit::count, sim::between(1, 10'000), "Number of domains of the data."),
        sim::field("tasks", &P::tasks, Unit::count, sim::between(1, 1000), "Number of tasks whose loss counts."),
        sim::field("relevant", &P::relevant, Unit::count, sim::between(1, 10'000),
                   "Number of domains that a task consists of."),
        sim::field("condition", &P::condition, Unit::none, sim::between(1, 1e9),
                   "Condition number of a domain: its largest over its smallest curvature."),
        sim::field("noise", &P::noise, Unit::none, sim::between(0, 1e6),
                   "Standard deviation of a sample's gradient, per parameter.")};
  }
};

struct RoundsParams {
  std::int64_t rounds = 25, samples = 4000, batch = 16, probe = 100;
  double rate = 0.1;
  static constexpr auto fields() {
    using sim::Unit;
    using R = RoundsParams;
    return sim::FieldTable{
        sim::field("rounds", &R::rounds, Unit::count, sim::between(1, 100'000), "Number of training rounds."),
        sim::field("samples", &R::samples, Unit::count, sim::between(1, 1 << 30), "Samples that a round trains on."),
        sim::field("batch", &R::batch, Unit::count, sim::between(1, 1 << 24), "Samples in a step."),
        sim::field("probe", &R::probe, Unit::count, sim::between(1, 1 << 24),
                   "Samples of each domain and task whose gradients a policy sees before a round."),
        sim::field("rate", &R::rate, Unit::none, sim::positive(),
                   "Initial learning rate; it falls linearly to zero over all steps.")};
  }
};

struct PoliciesParams {
  policies::MixtureRegistry::Choice mixture;
  static constexpr auto fields() {
    return sim::FieldTable{sim::choice("mixture", &PoliciesParams::mixture, "dids",
                                       "Policy that chooses the shares of the domains before each round.")};
  }
};

struct Sections {
  ProblemParams problem;
  RoundsParams training;
  PoliciesParams policies;
  PlainRunParams run;
  static constexpr auto fields() {
    using S = Sections;
    return sim::FieldTable{sim::section("problem", &S::problem, "The domains and the tasks."),
                           sim::section("training", &S::training, "Rounds, samples and learning rate."),
                           sim::section("policies", &S::policies, "Policy that chooses the shares of the domains."),
                           sim::section("run", &S::run, "Seed of the run.")};
  }
};

struct Result {
  double first = 0, last = 0, best = 0, probed = 0, trained = 0;
  std::vector<double> shares;
  double used() const {
    double squares = 0;
    for (const double share : shares) squares += share * share;
    return 1 / squares;
  }
};

const FigureTable<Result>& result_table() {
  using R = Result;
  static const FigureTable<R> table{
      {"status", "", "`ok`.", [](const R&) { return std::string("ok"); }},
      {"loss.{first,final,best}", "",
       "Mean loss of the tasks: before the first step, after the last, and the lowest possible.",
       [](const R& r) { return r.first; }, [](const R& r) { return r.last; }, [](const R& r) { return r.best; }},
      {"gap", "ratio", "Share of the possible gain in loss that is left at the end.",
       [](const R& r) { return (r.last - r.best) / (r.first - r.best); }},
      {"overhead", "ratio", "Samples whose gradients were computed for the policy, over those trained on.",
       [](const R& r) { return r.probed / r.trained; }},
      {"largest_share", "ratio", "Largest share of a domain in the last round.",
       [](const R& r) { return *std::ranges::max_element(r.shares); }},
      {"domains_used", "", "Effective number of domains in the last round: one over the sum of squared shares.",
       [](const R& r) { return r.used(); }}};
  return table;
}

class MixtureExperiment final : public ConfigExperiment {
 public:
  MixtureExperiment(const Node& root, const sim::RegistrySet& registries, sim::Faults& faults)
      : params_(read_sections<Sections>(root, registries, faults)) {
    if (!faults.empty()) return;
    const ProblemParams& p = params_.problem;
    const RoundsParams& t = params_.training;
    if (p.relevant > p.domains)
      faults.add(place_of(section(root, "problem"), "relevant"),
                 fmt::format("expected at most {} domains, got {}", p.domains, p.relevant));
    const double each = static_cast<double>(p.domains + p.tasks * p.relevant) * static_cast<double>(p.parameters);
    const double steps = std::ceil(static_cast<double>(t.samples) / static_cast<double>(t.batch));
    const double work = static_cast<double>(t.rounds) * each * (2 * steps + 4);
    if (work > kMostWork)
      faults.add(
          place_of(section(root, "training"), "rounds"),
          fmt::format("expected at most {:.3g} operations, these sizes and rounds give {:.3g}", kMostWork, work));
    seed_ = params_.run.seed;
    resolved_ = resolved_config("mixture", params_);
  }

  std::vector<std::pair<std::string, std::string>> restated() const override {
    const ProblemParams& p = params_.problem;
    return {{"problem", fmt::format("{} domains, {} tasks of {} domains, {} parameters", p.domains, p.tasks, p.relevant,
                                    p.parameters)},
            {"mixture", params_.policies.mixture.name}};
  }

  Outcome run(const RunSink& sink) const override {
    const ProblemParams& p = params_.problem;
    const sim::RandomStream random(static_cast<std::uint64_t>(seed_), "mixture");
    const DomainProblem problem =
        draw_domains(p.parameters, p.domains, p.tasks, p.relevant, p.condition, p.noise, random.child("domains"));
    std::unique_ptr<BufferedFile> file;
    if (sink.folder) {
      file = std::make_unique<BufferedFile>(*sink.folder / "rounds.csv");
      file->buffer() += "round,task_loss";
      for (std::size_t d = 0; d < problem.domains(); ++d) append(file->buffer(), ",share_{}", d);
      file->buffer() += "\n";
    }
    // The reference of DoReMi is a training on even shares.
    Training even(problem, params_.training, random.child("even"));
    const auto shares_even = std::vector<double>(problem.domains(), 1 / static_cast<double>(problem.domains()));
    for (std::int64_t round = 0; round < params_.training.rounds; ++round) even.round(shares_even, round);
    Training training(problem, params_.training, random.child("training"));
    const auto policy = params_.policies.mixture.make();
    Result result{.best = problem.best_task_loss(), .shares = shares_even};
    std::vector<std::vector<double>> task_losses(problem.weights.size());
    std::vector<double> reference;
    for (std::size_t d = 0; d < problem.domains(); ++d) reference.push_back(problem.domain_loss(d, even.place()));
    for (std::int64_t round = 0; round < params_.training.rounds; ++round) {
      for (std::size_t j = 0; j < task_losses.size(); ++j)
        task_losses[j].push_back(problem.task_loss(j, training.place()));
      if (round == 0) result.first = mean_last(task_losses);
      const Probe probe = policy->wants_gradients() ? training.probe() : Probe{};
      if (policy->wants_gradients())
        result.probed += 2 * static_cast<double>((p.domains + p.tasks) * params_.training.probe);
      std::vector<double> losses;
      for (std::size_t d = 0; d < problem.domains(); ++d) losses.push_back(problem.domain_loss(d, training.place()));
      result.shares = policy->shares({.round = round,
                                      .shares = result.shares,
                                      .domains = probe.domains,
                                      .tasks = probe.tasks,
                                      .fisher = probe.fisher,
                                      .domain_losses = losses,
                                      .reference_losses = reference,
                                      .task_losses = task_losses});
      check(result.shares, problem.domains());
      if (file) {
        append(file->buffer(), "{},{:.9g}", round, mean_last(task_losses));
        for (const double share : result.shares) append(file->buffer(), ",{:.6g}", share);
        file->buffer() += "\n";
        file->line_done();
      }
      training.round(result.shares, round);
      result.trained += static_cast<double>(params_.training.samples);
    }
    for (std::size_t j = 0; j < task_losses.size(); ++j)
      task_losses[j].push_back(problem.task_loss(j, training.place()));
    result.last = mean_last(task_losses);
    if (file) file->close();
    return {.summary = result_table().written(result), .events = static_cast<std::uint64_t>(params_.training.rounds)};
  }

 private:
  struct Probe {
    std::vector<std::vector<double>> domains, tasks;
    std::vector<double> fisher;
  };

  static double mean_last(const std::vector<std::vector<double>>& losses) {
    double sum = 0;
    for (const std::vector<double>& one : losses) sum += one.back();
    return sum / static_cast<double>(losses.size());
  }

  void check(const std::vector<double>& shares, std::size_t domains) const {
    double sum = 0;
    bool sound = shares.size() == domains;
    for (const double share : shares) sum += share, sound = sound && share >= 0;
    if (!sound || std::abs(sum - 1) > 1e-9)
      throw std::logic_error(params_.policies.mixture.name + ": shares of domains do not add up to 1");
  }

  /// A model in training.
  class Training {
   public:
    Training(const DomainProblem& problem, const RoundsParams& params, sim::RandomStream random)
        : problem_(problem),
          params_(params),
          random_(random.child("steps")),
          probing_(random.child("probe")),
          x_(problem.parameters(), 0) {}
    const std::vector<double>& place() const { return x_; }

    void round(const std::vector<double>& shares, std::int64_t round) {
      const std::int64_t steps = (params_.samples + params_.batch - 1) / params_.batch;
      const double noise = problem_.noise / std::sqrt(static_cast<double>(params_.batch));
      for (std::int64_t s = 0; s < steps; ++s) {
        const double done = static_cast<double>(round * steps + s) / static_cast<double>(params_.rounds * steps);
        std::vector<double> gradient(x_.size(), 0);
        for (std::size_t d = 0; d < shares.size(); ++d)
          for (std::size_t i = 0; i < x_.size(); ++i)
            gradient[i] += shares[d] * problem_.curvature[d][i] * (x_[i] - problem_.centre[d][i]);
        for (std::size_t i = 0; i < x_.size(); ++i)
          x_[i] -= params_.rate * (1 - done) * (gradient[i] + noise * random_.normal());
      }
    }

    /// Gradients as means over samples, and the samples' mean squares.
    Probe probe() {
      Probe all;
      all.fisher.assign(x_.size(), 0);
      const double noise = problem_.noise / std::sqrt(static_cast<double>(params_.probe));
      const auto take = [&](std::vector<double> gradient) {
        for (std::size_t i = 0; i < gradient.size(); ++i) {
          all.fisher[i] += gradient[i] * gradient[i] + problem_.noise * problem_.noise;
          gradient[i] += noise * probing_.normal();
        }
        return gradient;
      };
      for (std::size_t d = 0; d < problem_.domains(); ++d) all.domains.push_back(take(problem_.domain_gradient(d, x_)));
      for (std::size_t j = 0; j < problem_.weights.size(); ++j)
        all.tasks.push_back(take(problem_.task_gradient(j, x_)));
      const auto count = static_cast<double>(all.domains.size() + all.tasks.size());
      for (double& square : all.fisher) square = square / count + 1e-10;
      return all;
    }

   private:
    const DomainProblem& problem_;
    const RoundsParams& params_;
    sim::RandomStream random_, probing_;  ///< a policy that looks changes nothing of the steps' noise
    std::vector<double> x_;
  };

  Sections params_;
};

}  // namespace
}  // namespace mixture

System mixture_system() {
  return {
      .name = "mixture",
      .doc = "Training on several domains, whose shares a policy chooses round by round.",
      .fields = describe_sections<mixture::Sections>,
      .figures = mixture::result_table().infos(),
      .read = [](const sim::Node& root, const Systems& systems, sim::Faults& faults) -> std::unique_ptr<Experiment> {
        auto experiment = std::make_unique<mixture::MixtureExperiment>(root, *systems.registries(), faults);
        faults.throw_if_any();
        return experiment;
      }};
}

}  // namespace orrery::experiments
