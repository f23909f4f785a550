#include "experiments/study/evaluator.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "experiments/base/stopped.hpp"

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

/// An input's path as the store has it: the same from whatever folder the command was started in.
std::string relative_path(const std::string& path, const fs::path& study) {
  const fs::path folder = fs::absolute(study).lexically_normal().parent_path();
  return fs::absolute(path).lexically_normal().lexically_relative(folder).generic_string();
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
    : study_(study),
      store_(store),
      pool_(pool),
      out_(options.out),
      elsewhere_(options.execute != nullptr),
      execute_(options.execute ? options.execute : local_runs(pool, study.measures, options.stop)),
      stored_inputs_(store.inputs()),
      absent_(study.measures.size()),
      present_(study.measures.size()),
      next_run_(store.next_run()) {
  const fs::path folder = fs::absolute(study.file).lexically_normal().parent_path();
  for (const auto& [path, digest] : stored_inputs_)
    if (digests_.of((folder / path).lexically_normal()) != digest)
      sim::throw_fault({(folder / path).lexically_normal().string(), ""}, "has changed since the store was begun",
                       "put it back, give another --out, or --force to begin anew");
}

Evaluation evaluation_of(const Study& study, const PointRow& row, const Proposal& proposal, std::int64_t repeat,
                         const fs::path& store) {
  const std::vector<Cell> cells = parameter_cells(study, proposal.point);
  if (row.repeat != repeat || row.fidelity != proposal.fidelity ||
      !std::equal(cells.begin(), cells.end(), row.cells.begin()))
    sim::throw_fault({store.string(), ""},
                     fmt::format("point {} of the store is not the one that this study comes to there", row.id),
                     "give another --out, or --force to begin anew");
  if (row.status != TrialStatus::ok) return {.status = row.status, .reason = row.reason};
  std::vector<double> figures;
  for (std::size_t i = 0; i < study.measures.size(); ++i) figures.push_back(number_of(row.cells[cells.size() + i]));
  return study.judge(proposal.point, figures);
}

void judge_row(const Study& study, const Proposal& proposal, std::span<const double> figures, Evaluation& verdict,
               PointRow& row) {
  row.fidelity = proposal.fidelity;
  row.cells = parameter_cells(study, proposal.point);
  if (verdict.ok()) {
    for (const double figure : figures) row.cells.push_back(number_cell(figure));
    verdict = study.judge(proposal.point, figures);
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
  for (std::size_t i = 0; i < study_.measures.size(); ++i)
    present_[i] = present_[i] || !std::isnan(number_of(row->cells[first + i]));
  return verdict;
}

std::vector<Evaluation> Evaluator::evaluate(std::span<const Proposal> batch) {
  for (const Proposal& proposal : batch)
    if (proposal.fidelity < 1 && !study_.fidelity)
      sim::throw_fault({study_.file.string(), "/fidelity"},
                       fmt::format("expected what makes a run shorter: the driver '{}' asks for {} of one",
                                   study_.search.driver.name, proposal.fidelity));
  prepare(batch);
  number_runs();
  execute();
  std::vector<Evaluation> results;
  const auto seeds = static_cast<std::size_t>(study_.seeds.count);
  for (std::size_t i = 0; i < batch.size(); ++i) {
    Evaluation verdict;
    store_.add_point(row_of(batch[i], i * seeds, verdict));
    results.push_back(std::move(verdict));
    ++next_point_;
    if (on_point) on_point();
  }
  if (std::ssize(batch) > 0) store_.commit_if_due();
  check_figures(results);
  return results;
}

void Evaluator::prepare(std::span<const Proposal> batch) {
  const auto seeds = static_cast<std::size_t>(study_.seeds.count);
  batch_.clear();
  batch_.resize(batch.size() * seeds);
  pool_.for_each(batch_.size(), [&](std::size_t i) {
    const Proposal& proposal = batch[i / seeds];
    const std::int64_t seed = study_.seeds.first + static_cast<std::int64_t>(i % seeds);
    batch_[i].prepared =
        prepare_run([&] { return study_.read(study_.config(proposal.point, proposal.fidelity, seed)); }, digests_);
    if (elsewhere_) become_text(batch_[i].prepared);
  });
}

void Evaluator::check_inputs(const PreparedRun& run) {
  for (const auto& [file, digest] : run.inputs) {
    const std::string path = relative_path(file, study_.file);
    if (stored_inputs_.emplace(path, digest).second) store_.add_input(path, digest);
  }
}

/// Numbers go to distinct configs in the order of submission; those that the store has keep theirs.
void Evaluator::number_runs() {
  first_of_.clear();
  const std::int64_t first = next_run_;
  for (std::size_t i = 0; i < batch_.size(); ++i) {
    Run& run = batch_[i];
    if (run.prepared.key.empty()) continue;
    check_inputs(run.prepared);
    if (!first_of_.emplace(run.prepared.key, i).second) continue;
    if (auto stored = store_.find_run(run.prepared.key)) {
      run.id = stored->first;
      run.result = std::move(stored->second);
      run.prepared.experiment.reset();
      if (run.id >= first) ++next_run_;  // done before an interruption, in this very batch
    } else {
      run.id = next_run_++;
      if (earlier_ != nullptr) take_earlier(run);
    }
  }
}

/// A run that another store has is this one's too.
void Evaluator::take_earlier(Run& run) {
  const auto found = earlier_->find(run.prepared.key);
  if (found == earlier_->end()) return;
  run.result = found->second;
  run.prepared.experiment.reset();
  store_.add_run(run.id, run.prepared.key, *run.result);
  for (std::size_t m = 0; m < present_.size(); ++m) present_[m] = present_[m] || !std::isnan(run.result->figures[m]);
}

void Evaluator::execute() {
  std::vector<const PreparedRun*> runs;
  std::vector<std::size_t> places;
  for (const auto& [key, place] : first_of_)
    if (!batch_[place].result) places.push_back(place);
  std::sort(places.begin(), places.end());
  for (const std::size_t place : places) runs.push_back(&batch_[place].prepared);
  execute_(runs, [&](std::size_t i, RunOutcome outcome) {
    Run& run = batch_[places[i]];
    store_.add_run(run.id, run.prepared.key, outcome.result);
    store_.commit_if_due();
    if (outcome.result.status == TrialStatus::ok) {
      any_result_ = true;
      for (std::size_t m = 0; m < outcome.absent.size(); ++m) {
        present_[m] = present_[m] || outcome.absent[m].empty();
        if (absent_[m].empty()) absent_[m] = outcome.absent[m];
      }
    }
    run.result = std::move(outcome.result);
    run.prepared.experiment.reset();
    ++runs_;
  });
  const bool all =
      std::all_of(places.begin(), places.end(), [&](std::size_t p) { return batch_[p].result.has_value(); });
  if (all) return;
  store_.commit();
  throw Stopped{};
}

std::vector<double> Evaluator::measured(std::size_t first) const {
  std::vector<double> all;
  for (std::size_t m = 0; m < study_.measures.size(); ++m) {
    std::vector<double> values;
    for (std::size_t s = 0; s < static_cast<std::size_t>(study_.seeds.count); ++s)
      values.push_back(batch_[first_of_.at(batch_[first + s].prepared.key)].result->figures[m]);
    all.push_back(over_seeds(std::move(values), study_.seeds.statistic));
  }
  return all;
}

PointRow Evaluator::row_of(const Proposal& proposal, std::size_t first, Evaluation& verdict) {
  PointRow row{.id = next_point_, .repeat = repeat_};
  bool refused = false;
  for (std::size_t s = 0; s < static_cast<std::size_t>(study_.seeds.count); ++s) {
    const PreparedRun& prepared = batch_[first + s].prepared;
    if (prepared.key.empty()) {
      if (!refused) verdict = {.status = TrialStatus::failed, .reason = prepared.faults.front().text()};
      refused = true;
      continue;
    }
    const Run& run = batch_[first_of_.at(prepared.key)];
    row.runs.push_back(run.id);
    row.key = row.key.empty() ? prepared.key : fmt::format("{:016x}", sim::hash_text(row.key + prepared.key));
    if (run.result->status <= verdict.status) continue;
    const std::int64_t seed = study_.seeds.first + static_cast<std::int64_t>(s);
    verdict = {
        .status = run.result->status,
        .reason = study_.seeds.count == 1 ? run.result->reason : fmt::format("seed {}: {}", seed, run.result->reason)};
  }
  if (refused) row.key.clear();
  judge_row(study_, proposal, verdict.ok() ? measured(first) : std::vector<double>{}, verdict, row);
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
void Evaluator::check_figures(std::span<const Evaluation> results) const {
  if (!any_result_ || std::any_of(results.begin(), results.end(), [](auto& r) { return r.ok(); })) return;
  sim::Faults faults;
  for (std::size_t m = 0; m < present_.size(); ++m)
    if (!present_[m] && !absent_[m].empty() && decides(m))
      faults.add(study_.measures[m].origin, fmt::format("no run has this figure: {}", absent_[m]));
  if (faults.empty()) return;
  store_.commit();
  faults.throw_if_any();
}

std::vector<std::string> Evaluator::absent() const {
  std::vector<std::string> all;
  for (std::size_t m = 0; m < present_.size(); ++m)
    if (any_result_ && !present_[m] && !absent_[m].empty())
      all.push_back(fmt::format("measure '{}': no run has this figure: {}", study_.measures[m].name, absent_[m]));
  return all;
}

}  // namespace orrery::experiments::study
