#include "experiments/study/runs.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <exception>
#include <utility>

#include "experiments/base/figures.hpp"
#include "experiments/base/run_folder.hpp"
#include "experiments/base/stopped.hpp"
#include "experiments/claims/figure.hpp"

namespace orrery::experiments::study {
namespace {

/// What a look-up missed, with the nearest name.
std::string absence(const claims::FigureSearch& search) {
  const std::string where =
      search.reached.empty() ? "summary.json" : fmt::format("'{}' of summary.json", search.reached);
  return fmt::format("{} has no '{}' ({})", where, search.missing, sim::name_hint(search.missing, search.members));
}

/// The same with members in the order of their names: in which order a config states them decides nothing.
sim::Node sorted(const sim::Node& node) {
  sim::Node out = node;
  for (sim::Node& item : out.items()) item = sorted(item);
  if (!node.is_object()) return out;
  std::map<std::string, sim::Node> members;
  for (const auto& [key, value] : node.members()) members.emplace(key, sorted(value));
  out = sim::Node::object();
  for (auto& [key, value] : members) out.set(key, std::move(value));
  return out;
}

}  // namespace

std::string InputDigests::of(const std::filesystem::path& file) {
  const std::lock_guard lock(mutex_);
  const auto known = known_.find(file.string());
  if (known != known_.end()) return known->second;
  return known_.emplace(file.string(), content_digest(file)).first->second;
}

PreparedRun prepare_run(const std::function<std::unique_ptr<Experiment>()>& make, InputDigests& digests,
                        std::span<const RunEnd> ends) {
  PreparedRun run;
  try {
    run.experiment = make();
    std::uint64_t hash = sim::hash_text(sorted(run.experiment->identity()).dump());
    for (const auto& file : run.experiment->inputs()) {
      run.inputs.emplace_back(file.string(), digests.of(file));
      hash = sim::hash_text(run.inputs.back().second, hash);
    }
    for (const RunEnd& end : ends)
      hash = sim::hash_text(fmt::format("{} {} {}", end.path, end.below ? "<" : ">", end.bound), hash);
    run.key = fmt::format("{:016x}", hash);
  } catch (const sim::ConfigError& error) {
    run = {.faults = error.faults()};
  } catch (const std::exception& error) {
    run = {.faults = {{{}, error.what(), {}}}};
  }
  return run;
}

void become_text(PreparedRun& run) {
  if (run.experiment == nullptr) return;
  run.text = run.experiment->resolved().dump();
  run.experiment.reset();
}

RunGoals goals_of(const Study& study) {
  return {study.measures, study.ends()};
}

bool ended_early(std::string_view reason, std::span<const double> figures) {
  return reason.starts_with("ended: ") && std::ranges::any_of(figures, [](double one) { return !std::isnan(one); });
}

std::optional<RunOutcome> run_experiment(const Experiment& experiment, const RunGoals& goals,
                                         const std::function<bool()>& stop) {
  const std::vector<Measure>& measures = goals.measures;
  RunOutcome outcome;
  outcome.result.figures.assign(measures.size(), std::nan(""));
  outcome.absent.resize(measures.size());
  const auto failed = [&](std::string reason) {
    outcome.result.status = TrialStatus::failed;
    outcome.result.reason = std::move(reason);
    return outcome;
  };
  try {
    const auto look = [&](const Progress&) {
      if (stop && stop()) throw Stopped{};
    };
    const Outcome ran = experiment.run({.progress = look, .ends = goals.ends});
    outcome.result.reason = reason_of(ran.summary);
    if (!outcome.result.reason.empty()) outcome.result.status = TrialStatus::infeasible;
    for (std::size_t i = 0; i < measures.size(); ++i) {
      const claims::FigureSearch search = claims::find_figure(ran.summary, measures[i].path);
      if (search.found == nullptr)
        outcome.absent[i] = absence(search);
      else if (search.found->is_number())
        outcome.result.figures[i] = search.found->as_number();
      else if (search.found->kind() == sim::Node::Kind::boolean)
        outcome.result.figures[i] = search.found->as_boolean() ? 1 : 0;
    }
    return outcome;
  } catch (const Stopped&) {
    return std::nullopt;
  } catch (const sim::ConfigError& error) {
    return failed(error.faults().front().text());
  } catch (const std::exception& error) {
    return failed(error.what());
  }
}

LocalExecutor::LocalExecutor(WorkerPool& pool, RunGoals goals, std::function<bool()> stop)
    : pool_(pool),
      goals_(std::move(goals)),
      stop_([this, stop = std::move(stop)] { return dropped_ || (stop && stop()); }) {}

LocalExecutor::~LocalExecutor() {
  dropped_ = true;
  pool_.wait_until([&] {
    const std::lock_guard lock(mutex_);
    return out_ == 0;
  });
}

void LocalExecutor::start(std::span<const RunOrder> orders) {
  std::vector<std::function<void()>> pieces;
  for (const RunOrder& order : orders) pieces.emplace_back([this, order] { run(order); });
  {
    const std::lock_guard lock(mutex_);
    out_ += orders.size();
  }
  pool_.submit(std::move(pieces));
}

void LocalExecutor::run(const RunOrder& order) {
  std::optional<RunOutcome> outcome;
  if (!stop_()) outcome = run_experiment(*order.run->experiment, goals_, stop_);
  const std::lock_guard lock(mutex_);
  if (outcome) done_.push_back({order.id, *std::move(outcome)});
  --out_;
}

std::vector<RunDone> LocalExecutor::wait() {
  pool_.wait_until([&] {
    const std::lock_guard lock(mutex_);
    return !done_.empty() || out_ == 0;
  });
  const std::lock_guard lock(mutex_);
  return std::exchange(done_, {});
}

}  // namespace orrery::experiments::study
