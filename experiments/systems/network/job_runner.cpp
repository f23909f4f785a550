#include "experiments/systems/network/job_runner.hpp"

#include <utility>

namespace orrery::experiments::network {

JobRunner::JobRunner(const Job& job, std::size_t index, LiveRun& run)
    : job_(job),
      index_(index),
      run_(run),
      lateness_(run.engine().stream("stragglers/" + job.params.name)),
      spread_(run.engine().scale().duration(job.params.stragglers.spread_s)),
      gap_(run.engine().scale().duration(job.params.gap_s)) {}

void JobRunner::start() {
  run_.add_work(1);
  run_.engine().schedule_at(run_.at(job_.params.start_s), *this, kBegin);
}

void JobRunner::on_event(std::uint64_t payload) {
  if (payload == kBegin) {
    begin();
  } else {
    all_done();
  }
}

void JobRunner::begin() {
  sim::Engine& engine = run_.engine();
  started_ = engine.now();
  under_way_ = true;
  run_.started(started_);
  if (job_.closed_s) {
    engine.schedule_in(engine.scale().duration(*job_.closed_s), *this, kClosedEnd);
    return;
  }
  hw::CollectiveListener& listener = *this;
  const hw::CollectiveRunOptions options{job_.params.window, job_.label};
  collective_ = std::make_unique<hw::CollectiveRun>(engine, run_, job_.algorithm.make(job_.spec), job_.ranks(),
                                                    job_.nodes, options, &listener);
  entered_.assign(static_cast<std::size_t>(job_.ranks()), started_);
  if (spread_.ticks == 0) {
    collective_->enter_all();
    return;
  }
  for (hw::Member rank = 0; rank < entered_.size(); ++rank) {
    const auto late = lateness_.below(static_cast<std::uint64_t>(spread_.ticks) + 1);
    entered_[rank] = started_ + sim::Duration{static_cast<std::int64_t>(late)};
    collective_->enter_at(rank, entered_[rank]);
  }
}

void JobRunner::all_done() {
  const sim::Time now = run_.engine().now();
  run_.loads_change();
  run_.ended(now);
  run_.result().jobs[index_].time.add((now - started_).ticks);
  run_.result().job_times.add((now - started_).ticks);
  record(now);
  under_way_ = false;
  if (++repetition_ < job_.params.repeat) {
    run_.engine().schedule_in(gap_, *this, kBegin);
  } else {
    run_.work_done();
  }
}

void JobRunner::record(std::optional<sim::Time> finished) {
  if (collective_) run_.result().jobs[index_].messages += collective_->messages();
  if (run_.observer() == nullptr) return;
  ended_.clear();
  if (collective_)
    for (hw::Member rank = 0; rank < entered_.size(); ++rank) ended_.push_back(collective_->done_at(rank));
  run_.observer()->repetition_ended({index_, repetition_, started_, finished, entered_, ended_});
}

void JobRunner::flush() {
  run_.result().jobs[index_].unfinished = job_.params.repeat - repetition_;
  if (under_way_) record(std::nullopt);
}

}  // namespace orrery::experiments::network
