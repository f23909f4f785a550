#include "experiments/study/open_runs.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "experiments/base/stopped.hpp"

namespace orrery::experiments::study {

namespace fs = std::filesystem;
using search::Proposal;

namespace {

/// An input's path as the store has it: the same from whatever folder the command was started in.
std::string relative_path(const std::string& path, const fs::path& study) {
  const fs::path folder = fs::absolute(study).lexically_normal().parent_path();
  return fs::absolute(path).lexically_normal().lexically_relative(folder).generic_string();
}

}  // namespace

void SeenMeasures::note(std::span<const double> figures) {
  for (std::size_t m = 0; m < present_.size(); ++m) present_[m] = present_[m] || !std::isnan(figures[m]);
}

void SeenMeasures::note_made(std::span<const std::string> absent) {
  any_ = true;
  for (std::size_t m = 0; m < absent.size(); ++m) {
    present_[m] = present_[m] || absent[m].empty();
    if (absent_[m].empty()) absent_[m] = absent[m];
  }
}

std::string SeenMeasures::missing(std::size_t measure) const {
  return present_[measure] ? "" : absent_[measure];
}

OpenRuns::OpenRuns(const Study& study, Store& store, WorkerPool& pool, const ExploreOptions& options)
    : study_(study),
      store_(store),
      pool_(pool),
      elsewhere_(options.executor != nullptr),
      ends_(study.ends()),
      stored_inputs_(store.inputs()),
      next_(store.next_run()),
      seen_(study.measures.size()),
      local_(elsewhere_ ? nullptr : std::make_unique<LocalExecutor>(pool, goals_of(study), options.stop)),
      executor_(elsewhere_ ? *options.executor : *local_) {
  const fs::path folder = fs::absolute(study.file).lexically_normal().parent_path();
  for (const auto& [path, digest] : stored_inputs_)
    if (digests_.of((folder / path).lexically_normal()) != digest)
      sim::throw_fault({(folder / path).lexically_normal().string(), ""}, "has changed since the store was begun",
                       "put it back, give another --out, or --force to begin anew");
}

std::vector<OpenRuns::Shared> OpenRuns::begin(std::span<const Proposal> proposals) {
  const std::int64_t first = next_;
  std::vector<Shared> runs;
  for (PreparedRun& prepared : prepare(proposals)) runs.push_back(numbered(std::move(prepared)));
  std::vector<RunOrder> orders;
  for (auto run = out_.lower_bound(first); run != out_.end(); ++run)
    orders.push_back({run->first, &run->second->prepared});
  executor_.start(orders);
  return runs;
}

/// The configs of proposals, their seeds one after the other.
std::vector<PreparedRun> OpenRuns::prepare(std::span<const Proposal> proposals) {
  const auto seeds = static_cast<std::size_t>(study_.seeds.count);
  std::vector<PreparedRun> prepared(proposals.size() * seeds);
  pool_.for_each(prepared.size(), [&](std::size_t i) {
    const Proposal& proposal = proposals[i / seeds];
    const std::int64_t seed = study_.seeds.first + static_cast<std::int64_t>(i % seeds);
    prepared[i] = prepare_run([&] { return study_.read(study_.config(proposal.point, proposal.fidelity, seed)); },
                              digests_, ends_);
    if (elsewhere_) become_text(prepared[i]);
  });
  return prepared;
}

void OpenRuns::check_inputs(const PreparedRun& run) {
  for (const auto& [file, digest] : run.inputs) {
    const std::string path = relative_path(file, study_.file);
    if (stored_inputs_.emplace(path, digest).second) store_.add_input(path, digest);
  }
}

/// The run of a config. Numbers go to distinct configs in the order of submission; those that the store has keep
/// theirs.
OpenRuns::Shared OpenRuns::numbered(PreparedRun prepared) {
  if (prepared.key.empty()) return std::make_shared<OpenRun>(OpenRun{.prepared = std::move(prepared)});  // refused
  check_inputs(prepared);
  Shared& run = of_key_[prepared.key];
  if (run) return run;
  run = std::make_shared<OpenRun>(OpenRun{.prepared = std::move(prepared)});
  if (auto stored = store_.find_run(run->prepared.key)) {
    run->id = stored->first;
    run->result = std::move(stored->second);
    run->prepared.experiment.reset();
    if (run->id >= next_) ++next_;  // done before an interruption, for this very point
    return run;
  }
  run->id = next_++;
  if (earlier_ != nullptr) take_earlier(*run);
  if (!run->result) out_.emplace(run->id, run);
  return run;
}

/// A run that another store has is this one's too.
void OpenRuns::take_earlier(OpenRun& run) {
  const auto found = earlier_->find(run.prepared.key);
  if (found == earlier_->end()) return;
  run.result = found->second;
  run.prepared.experiment.reset();
  store_.add_run(run.id, run.prepared.key, *run.result);
  seen_.note(run.result->figures);
}

void OpenRuns::wait() {
  std::vector<RunDone> done = executor_.wait();
  if (done.empty()) {
    store_.commit();
    throw Stopped{};
  }
  for (auto& [id, outcome] : done) {
    const auto found = out_.find(id);
    OpenRun& run = *found->second;
    store_.add_run(id, run.prepared.key, outcome.result);
    store_.commit_if_due();
    if (outcome.result.status == TrialStatus::ok) run.absent = std::move(outcome.absent);
    run.result = std::move(outcome.result);
    run.prepared.experiment.reset();
    run.prepared.text.clear();
    ++made_;
    out_.erase(found);
  }
}

void OpenRuns::release(std::span<const Shared> runs) {
  for (const Shared& run : runs) {
    if (const auto absent = std::exchange(run->absent, std::nullopt)) seen_.note_made(*absent);
    if (run->result && run->result->status == TrialStatus::ok) seen_.note(run->result->figures);
    const auto found = of_key_.find(run->prepared.key);
    const auto own = std::ranges::count(runs, run);
    if (found != of_key_.end() && run.use_count() == own + 1) of_key_.erase(found);  // no other point has it
  }
}

}  // namespace orrery::experiments::study
