#include "experiments/systems/serving/replica/stage_pipe.hpp"

#include <algorithm>

namespace orrery::experiments {

StagePipe::StagePipe(IterationModel& model, std::vector<StageLayers> stages,
                     std::function<std::int64_t(std::int64_t)> send_ps, std::int64_t ps_per_tick)
    : model_(model),
      stages_(std::move(stages)),
      send_ps_(std::move(send_ps)),
      ps_per_tick_(ps_per_tick),
      free_(stages_.size()),
      last_times_(stages_.size()),
      times_(stages_.size()),
      sends_(stages_.size()) {}

namespace {

/// Whole nanoseconds, for timelines.
std::int64_t nanoseconds(const ExactTime& time, std::int64_t ps_per_tick) {
  return static_cast<std::int64_t>((static_cast<__int128>(time.ticks) * ps_per_tick + time.ps) / 1000);
}

}  // namespace

/// Time of each stage, and of the send after it.
void StagePipe::price_stages(const BatchShape& shape) {
  const bool whole = shape.segments.size() == 1 && shape.segments.front().first == 0 &&
                     shape.segments.front().last == stages_.back().last;
  for (std::size_t s = 0; s < stages_.size(); ++s) {
    const StageLayers& stage = stages_[s];
    if (whole && stage.as_before) {
      times_[s] = times_[s - 1];  // the same layers over the same tokens
      sends_[s] = sends_[s - 1];
      continue;
    }
    part_.clear();
    part_.mode = shape.mode;
    part_.sequences = shape.sequences;
    part_.logit_rows = s + 1 == stages_.size() ? shape.logit_rows : 0;
    std::int64_t sent = 0;
    for (const Segment& segment : shape.segments) {
      Segment part = segment;
      part.first = std::max(segment.first, stage.first);
      part.last = std::min(segment.last, stage.last);
      if (part.first >= part.last) continue;
      part_.segments.push_back(part);
      if (part.last == stage.last) sent += part.tokens;
    }
    cost_ = {};
    if (!part_.segments.empty() || part_.logit_rows > 0) model_.cost(part_, cost_);
    times_[s] = cost_.time_ps;
    sends_[s] = s + 1 < stages_.size() && sent > 0 ? send_ps_(sent) : 0;
  }
}

ExactTime StagePipe::pass(ExactTime ready, const BatchShape& shape) {
  price_stages(shape);
  const ExactTime entered = ready;
  last_work_ps_ = 0;
  for (std::size_t s = 0; s < stages_.size(); ++s) {
    const ExactTime begin = std::max(ready, free_[s]);
    free_[s] = begin.plus(times_[s], ps_per_tick_);
    last_times_[s] = {nanoseconds(begin, ps_per_tick_), nanoseconds(free_[s], ps_per_tick_)};
    ready = free_[s].plus(sends_[s], ps_per_tick_);
    last_work_ps_ += times_[s];
  }
  const ExactTime left = free_.back();
  const ExactTime from = std::max(entered, empty_from_);
  if (left > from) occupied_ps_ += left.minus(from, ps_per_tick_);
  empty_from_ = std::max(empty_from_, left);
  work_ps_ += last_work_ps_;
  return left;
}

void StagePipe::clear(ExactTime now) {
  for (ExactTime& free : free_) free = std::min(free, now);
  if (empty_from_ > now) occupied_ps_ -= empty_from_.minus(now, ps_per_tick_);
  empty_from_ = std::min(empty_from_, now);
}

}  // namespace orrery::experiments
