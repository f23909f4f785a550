#include "experiments/study/evaluator.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

namespace orrery::experiments::study {

namespace fs = std::filesystem;
using search::Evaluation;
using search::Proposal;

namespace {

double over_seeds(std::vector<double> values, Statistic statistic) {
  if (std::any_of(values.begin(), values.end(), [](double x) { return std::isnan(x); })) return std::nan("");
  if (statistic == Statistic::mean) {
    double sum = 0;
    for (const double value : values) sum += value;
    return sum / static_cast<double>(values.size());
  }
  std::sort(values.begin(), values.end());
  const std::size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

}  // namespace

std::vector<Cell> parameter_cells(const Study& study, const Point& point) {
  std::vector<Cell> cells;
  const std::vector<double> numbers = study.space.numbers(point);
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    const bool derived = i >= point.size();
    const search::Parameter* parameter = derived ? nullptr : &study.space.parameters()[i];
    const bool whole = derived ? study.space.derived()[i - point.size()].integer
                               : parameter->kind == search::ParameterKind::integer ||
                                     (parameter->kind == search::ParameterKind::ordinal &&
                                      numbers[i] == std::round(numbers[i]) && std::abs(numbers[i]) < 0x1p53);
    if (std::isnan(numbers[i]))
      cells.emplace_back();
    else if (!derived && parameter->kind == search::ParameterKind::categorical)
      cells.emplace_back(parameter->choices[static_cast<std::size_t>(numbers[i])].label);
    else if (whole && std::abs(numbers[i]) < 0x1p63)
      cells.emplace_back(static_cast<std::int64_t>(numbers[i]));
    else
      cells.emplace_back(numbers[i]);
  }
  return cells;
}

Evaluator::Evaluator(const Study& study, Store& store, WorkerPool& pool, const ExploreOptions& options)
    : study_(study), store_(store), out_(options.out), runs_(study, store, pool, options) {}

Evaluation evaluation_of(const Study& study, const PointRow& row, const Proposal& proposal, std::int64_t repeat,
                         const fs::path& store) {
  const std::vector<Cell> cells = parameter_cells(study, proposal.point);
  if (row.repeat != repeat || row.fidelity != proposal.fidelity ||
      !std::equal(cells.begin(), cells.end(), row.cells.begin()))
    sim::throw_fault({store.string(), ""},
                     fmt::format("point {} of the store is not the one that this study comes to there", row.id),
                     "give another --out, or --force to begin anew");
  std::vector<double> figures;
  for (std::size_t i = 0; i < study.measures.size(); ++i) figures.push_back(number_of(row.cells[cells.size() + i]));
  if (ended_early(row.reason, figures)) return study.judge_ended(proposal.point, figures, row.reason);
  if (row.status != TrialStatus::ok) return {.status = row.status, .reason = row.reason};
  return study.judge(proposal.point, figures);
}

void judge_row(const Study& study, const Proposal& proposal, std::span<const double> figures, Evaluation& verdict,
               PointRow& row) {
  row.fidelity = proposal.fidelity;
  row.cells = parameter_cells(study, proposal.point);
  const bool ended = ended_early(verdict.reason, figures);
  if (verdict.ok() || ended) {
    for (const double figure : figures) row.cells.push_back(number_cell(figure));
    verdict = ended ? study.judge_ended(proposal.point, figures, std::move(verdict.reason))
                    : study.judge(proposal.point, figures);
  } else {
    row.cells.resize(row.cells.size() + study.measures.size());
  }
  if (verdict.ok()) {
    for (std::size_t i = 0; i < study.objectives.size(); ++i)
      row.cells.emplace_back(study.objectives[i].maximise ? -verdict.objectives[i] : verdict.objectives[i]);
    for (const double margin : verdict.margins) row.cells.emplace_back(std::max(0.0, margin));
    row.violation = verdict.violation();
  } else {
    row.cells.resize(row.cells.size() + study.objectives.size() + study.limits.size());
  }
  row.status = verdict.status;
  row.reason = verdict.reason;
}

std::optional<Evaluation> Evaluator::known(const Proposal& proposal) {
  const auto row = store_.point(next_point_);
  if (!row) return std::nullopt;
  Evaluation verdict = evaluation_of(study_, *row, proposal, repeat_, out_);
  ++next_point_;
  ++known_points_;
  if (on_point) on_point();
  const std::size_t first = study_.space.parameters().size() + study_.space.derived().size();
  std::vector<double> figures;
  for (std::size_t i = 0; i < study_.measures.size(); ++i) figures.push_back(number_of(row->cells[first + i]));
  runs_.seen().note(figures);
  return verdict;
}

void Evaluator::submit(std::span<const Proposal> proposals) {
  for (const Proposal& proposal : proposals)
    if (proposal.fidelity < 1 && !study_.fidelity)
      sim::throw_fault({study_.file.string(), "/fidelity"},
                       fmt::format("expected what makes a run shorter: the driver '{}' asks for {} of one",
                                   study_.search.driver.name, proposal.fidelity));
  const std::vector<OpenRuns::Shared> runs = runs_.begin(proposals);
  if (unchecked_ == 0) unchecked_ = proposals.size();
  auto next = runs.begin();
  for (const Proposal& proposal : proposals) {
    open_.push_back({next_point_++, proposal, {next, next + study_.seeds.count}});
    next += study_.seeds.count;
  }
}

Evaluation Evaluator::take() {
  const auto ready = [](const OpenRuns::Shared& run) { return run->ready(); };
  while (!std::ranges::all_of(open_.front().runs, ready)) runs_.wait();
  const OpenPoint point = std::move(open_.front());
  open_.pop_front();
  Evaluation verdict;
  store_.add_point(row_of(point, verdict));
  store_.commit_if_due();
  runs_.release(point.runs);
  any_ok_ = any_ok_ || verdict.ok();
  if (--unchecked_ == 0) check_figures();
  if (on_point) on_point();
  return verdict;
}

std::vector<double> Evaluator::measured(const OpenPoint& point) const {
  std::vector<double> all;
  for (std::size_t m = 0; m < study_.measures.size(); ++m) {
    std::vector<double> values;
    for (const auto& run : point.runs) values.push_back(run->result->figures[m]);
    all.push_back(over_seeds(std::move(values), study_.seeds.statistic));
  }
  return all;
}

PointRow Evaluator::row_of(const OpenPoint& point, Evaluation& verdict) const {
  PointRow row{.id = point.id, .repeat = repeat_};
  bool refused = false;
  for (std::size_t s = 0; s < point.runs.size(); ++s) {
    const OpenRun& run = *point.runs[s];
    const std::string& key = run.prepared.key;
    if (key.empty()) {
      if (!refused) verdict = {.status = TrialStatus::failed, .reason = run.prepared.faults.front().text()};
      refused = true;
      continue;
    }
    row.runs.push_back(run.id);
    row.key = row.key.empty() ? key : fmt::format("{:016x}", sim::hash_text(row.key + key));
    if (run.result->status <= verdict.status) continue;
    const std::int64_t seed = study_.seeds.first + static_cast<std::int64_t>(s);
    verdict = {
        .status = run.result->status,
        .reason = study_.seeds.count == 1 ? run.result->reason : fmt::format("seed {}: {}", seed, run.result->reason)};
  }
  if (refused) row.key.clear();
  // One that ended early has one seed.
  const bool ended = !refused && ended_early(verdict.reason, point.runs.front()->result->figures);
  judge_row(study_, point.proposal, verdict.ok() || ended ? measured(point) : std::vector<double>{}, verdict, row);
  return row;
}

bool Evaluator::decides(std::size_t measure) const {
  const std::size_t slot = study_.space.names().all().size() + measure;
  const auto reads = [&](const sim::Formula& formula) {
    const auto& used = formula.scalars_used();
    return std::find(used.begin(), used.end(), slot) != used.end();
  };
  return std::any_of(study_.objectives.begin(), study_.objectives.end(), [&](auto& o) { return reads(o.value); }) ||
         std::any_of(study_.limits.begin(), study_.limits.end(), [&](auto& l) { return reads(l.value); });
}

/// A measure that decides and that no run has is a slip of the study: better told after the first batch than after all.
/// Looked at when all have been taken that were out when it was looked at last.
void Evaluator::check_figures() {
  unchecked_ = open_.size();
  if (!runs_.seen().any() || std::exchange(any_ok_, false)) return;
  sim::Faults faults;
  for (std::size_t m = 0; m < study_.measures.size(); ++m)
    if (const std::string missing = runs_.seen().missing(m); !missing.empty() && decides(m))
      faults.add(study_.measures[m].origin, fmt::format("no run has this figure: {}", missing));
  if (faults.empty()) return;
  store_.commit();
  faults.throw_if_any();
}

std::vector<std::string> Evaluator::absent() const {
  std::vector<std::string> all;
  for (std::size_t m = 0; m < study_.measures.size(); ++m)
    if (const std::string missing = runs_.seen().missing(m); !missing.empty())
      all.push_back(fmt::format("measure '{}': no run has this figure: {}", study_.measures[m].name, missing));
  return all;
}

}  // namespace orrery::experiments::study
