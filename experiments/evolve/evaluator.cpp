#include "experiments/evolve/evaluator.hpp"

#include <fmt/format.h>

#include <chrono>
#include <cmath>
#include <exception>
#include <limits>
#include <mutex>
#include <set>

#include "experiments/base/experiment.hpp"
#include "experiments/base/parallel.hpp"
#include "experiments/base/stopped.hpp"
#include "experiments/claims/figure.hpp"

namespace orrery::experiments::evolve {

namespace {

using sim::Node;

struct TookTooLong {};

/// What a run says where something may be wrong with the study.
struct Report {
  RunFigure figure;
  std::vector<sim::Fault> faults;
  std::exception_ptr error;
};

std::string why_not(const Node& summary) {
  const Node* status = summary.find("status");
  const Node* reason = summary.find("reason");
  std::string text = status != nullptr && status->is_string() ? status->as_string() : "not feasible";
  if (reason != nullptr && reason->is_string()) text += ": " + reason->as_string();
  return text;
}

/// The number at a path of a summary; nothing, and why, without one.
std::optional<double> number_at(const Node& summary, const std::string& path, const sim::Origin& where,
                                std::vector<sim::Fault>& faults, std::string& reason) {
  const claims::FigureSearch search = claims::find_figure(summary, path);
  if (search.found == nullptr) {
    faults.push_back({where, fmt::format("the summary has no '{}' at '{}'", search.missing, search.reached),
                      sim::name_hint(search.missing, search.members)});
    reason = "no such figure";
  } else if (search.found->is_null()) {
    reason = "the figure is null";
  } else if (!search.found->is_number()) {
    faults.push_back({where, fmt::format("expected a number there, found {}", search.found->shown()), ""});
    reason = "no number";
  } else {
    return search.found->as_number();
  }
  return std::nullopt;
}

RunFigure figure_of(const EvolveStudy& study, const Outcome& outcome, std::vector<sim::Fault>& faults) {
  RunFigure figure;
  if (!outcome.feasible()) {
    figure.reason = why_not(outcome.summary);
    return figure;
  }
  figure.value = number_at(outcome.summary, study.objective.figure, study.objective_origin, faults, figure.reason);
  for (std::size_t i = 0; i < study.objective.bounds.size() && figure.value; ++i) {
    const auto value =
        number_at(outcome.summary, study.objective.bounds[i].figure, study.bound_origins[i], faults, figure.reason);
    if (value)
      figure.bounded.push_back(*value);
    else
      figure.value.reset();
  }
  if (!figure.value) figure.bounded.clear();
  return figure;
}

/// Runs one config. Progress is where a run that takes too long can be stopped.
Report run_config(const EvolveStudy& study, const Systems& systems, const Node& config,
                  const std::function<bool()>& stop) {
  using Clock = std::chrono::steady_clock;
  Report report;
  try {
    const auto& limit = study.search.evaluation_limit_s;
    const auto end = Clock::now() + std::chrono::duration<double>(limit.value_or(0));
    const RunSink sink{.progress = [&](const Progress&) {
      if ((limit && Clock::now() > end) || (stop && stop())) throw TookTooLong{};
    }};
    report.figure = figure_of(study, read_experiment(systems, config)->run(sink), report.faults);
  } catch (const TookTooLong&) {
    report.figure.reason = "took too long";
  } catch (const sim::ConfigError& error) {
    report.faults = error.faults();
    report.figure.reason = report.faults.front().text();
  } catch (const std::exception& error) {
    report.error = std::current_exception();
    report.figure.reason = error.what();
  }
  return report;
}

Node config_of(const EvolveStudy& study, std::span<const Assignment> subject, const Scenario& scenario) {
  Node config = study.base;
  for (const Assignment& one : subject) sim::assign(config, one.path, one.value);
  for (const Assignment& one : scenario.assignments) sim::assign(config, one.path, one.value);
  return config;
}

/// Throws the faults of all runs, each once, or what else went wrong first.
void throw_if_any(std::span<const Report> reports) {
  std::vector<sim::Fault> faults;
  std::set<std::string> seen;
  for (const Report& report : reports) {
    if (report.error) std::rethrow_exception(report.error);
    for (const sim::Fault& fault : report.faults)
      if (seen.insert(fault.text()).second) faults.push_back(fault);
  }
  if (!faults.empty()) throw sim::ConfigError(std::move(faults));
}

}  // namespace

Evaluator::Evaluator(const EvolveStudy& study, const Systems& systems, std::size_t jobs,
                     std::function<void(std::int64_t)> progress, std::function<bool()> stop)
    : study_(study), systems_(systems), jobs_(jobs), progress_(std::move(progress)), stop_(std::move(stop)) {}

std::vector<Figures> Evaluator::run_all(std::span<const Assignments> subjects, std::span<const Scenario> scenarios,
                                        bool strict) {
  std::vector<Report> reports(subjects.size() * scenarios.size());
  std::mutex mutex;
  parallel_for(reports.size(), jobs_, [&](std::size_t i) {
    if (stop_ && stop_()) return;
    try {
      const Node config = config_of(study_, subjects[i / scenarios.size()], scenarios[i % scenarios.size()]);
      reports[i] = run_config(study_, systems_, config, stop_);
    } catch (const sim::ConfigError& error) {
      reports[i].faults = error.faults();
    }
    const std::lock_guard lock(mutex);
    ++runs_;
    if (progress_) progress_(runs_);
  });
  if (stop_ && stop_()) throw Stopped{};
  if (strict) throw_if_any(reports);
  std::vector<Figures> all;
  for (std::size_t i = 0; i < reports.size(); ++i) {
    if (i % scenarios.size() == 0) all.emplace_back();
    all.back().push_back(std::move(reports[i].figure));
  }
  return all;
}

std::vector<Figures> Evaluator::baselines(std::span<const Scenario> scenarios) {
  std::vector<Assignments> subjects;
  for (const Baseline& one : study_.baselines) subjects.push_back(one.assignments);
  return run_all(subjects, scenarios, true);
}

std::vector<Figures> Evaluator::candidates(std::span<const std::string> texts, std::span<const Scenario> scenarios) {
  std::vector<Assignments> subjects;
  for (const std::string& text : texts) {
    Node value = Node::string(text);
    value.set_origin({study_.file.string(), "/path"});
    subjects.push_back({{study_.path, std::move(value)}});
  }
  return run_all(subjects, scenarios, false);
}

void check_experiments(const Systems& systems, const EvolveStudy& study) {
  std::vector<Report> reports;
  for (const Baseline& baseline : study.baselines) {
    for (const auto* scenarios : {&study.training, &study.held_out}) {
      for (const Scenario& scenario : *scenarios) {
        try {
          (void)read_experiment(systems, config_of(study, baseline.assignments, scenario));
        } catch (const sim::ConfigError& error) {
          reports.emplace_back().faults = error.faults();
        }
      }
    }
  }
  throw_if_any(reports);
}

std::optional<double> fitness_of(const EvolveStudy& study, std::span<const RunFigure> figures) {
  double sum = 0;
  for (const RunFigure& one : figures) {
    if (!one.value || !std::isfinite(*one.value)) return std::nullopt;
    sum += *one.value;
  }
  const double mean = sum / static_cast<double>(figures.size());
  return study.objective.goal == Goal::maximise ? -mean : mean;
}

std::vector<std::optional<double>> bounded_means(const EvolveStudy& study, std::span<const RunFigure> figures) {
  std::vector<std::optional<double>> means(study.objective.bounds.size());
  for (std::size_t i = 0; i < means.size(); ++i) {
    double sum = 0;
    bool all = !figures.empty();
    for (const RunFigure& one : figures) {
      all = all && one.value;
      if (all) sum += one.bounded[i];
    }
    if (all) means[i] = sum / static_cast<double>(figures.size());
  }
  return means;
}

double violation_of(const EvolveStudy& study, std::span<const RunFigure> figures,
                    std::span<const std::span<const RunFigure>> baselines) {
  double all = 0;
  const auto means = bounded_means(study, figures);
  for (std::size_t i = 0; i < means.size(); ++i) {
    const BoundParams& bound = study.objective.bounds[i];
    if (!means[i]) return std::numeric_limits<double>::infinity();
    double scale = 1;  // of a bound that is no ratio; a baseline without the figure was a fault
    for (std::size_t b = 0; b < study.baselines.size(); ++b)
      if (study.baselines[b].name == bound.of) scale = bounded_means(study, baselines[b])[i].value();
    // A bound of 0 is passed by what the figure is.
    const auto beyond = [&](double excess, double limit) {
      if (excess > 0) all += limit != 0 ? excess / std::abs(limit) : excess;
    };
    if (bound.at_most) beyond(*means[i] - *bound.at_most * scale, *bound.at_most * scale);
    if (bound.at_least) beyond(*bound.at_least * scale - *means[i], *bound.at_least * scale);
  }
  return all;
}

}  // namespace orrery::experiments::evolve
