#include "experiments/systems/serving/replica/stage_pipe.hpp"

#include <algorithm>

namespace orrery::experiments {

StagePipe::StagePipe(IterationModel& model, std::vector<std::vector<StageLayers>> modes, SendTime send_ps,
                     std::int64_t ps_per_tick)
    : model_(model), modes_(std::move(modes)), send_ps_(std::move(send_ps)), ps_per_tick_(ps_per_tick) {
  std::size_t most = 0;
  for (const std::vector<StageLayers>& stages : modes_) most = std::max(most, stages.size());
  free_.resize(most);
  hosts_.resize(most);
}

namespace {

/// Whole nanoseconds, for timelines.
std::int64_t nanoseconds(const ExactTime& time, std::int64_t ps_per_tick) {
  return static_cast<std::int64_t>((static_cast<__int128>(time.ticks) * ps_per_tick + time.ps) / 1000);
}

}  // namespace

/// Time of the stage priced last (part_, cost_) where it launches for itself; and what it consists of.
std::int64_t StagePipe::launched(const HostTime& host, HostShare& share) const {
  HostWork work = host.work(part_, {.launches = cost_.launches});
  work.exposed_ps = work.hidden_ps = 0;  // the scheduler's
  IterationPrice price{.time_ps = cost_.time_ps};
  lengthen(work, price);
  share = price.host;
  return price.time_ps;
}

void StagePipe::wire(std::vector<std::vector<StageWires>> modes, std::int64_t token_bytes) {
  WiredStages::Books& books = *this;
  wired_ = std::make_unique<WiredStages>(std::move(modes), books, ps_per_tick_);
  token_bytes_ = token_bytes;
}

/// Time of each stage, and of the send after it.
void StagePipe::price_stages(const BatchShape& shape, const std::vector<StageLayers>& stages, const HostTime* host) {
  const bool whole = shape.segments.size() == 1 && shape.segments.front().first == 0 &&
                     shape.segments.front().last == stages.back().last;
  work_.resize(stages.size());
  for (std::size_t s = 0; s < stages.size(); ++s) {
    const StageLayers& stage = stages[s];
    if (whole && stage.as_before) {
      work_[s] = work_[s - 1];  // the same layers over the same tokens
      hosts_[s] = hosts_[s - 1];
      continue;
    }
    part_.clear();
    part_.mode = shape.mode;
    part_.sequences = shape.sequences;
    part_.logit_rows = s + 1 == stages.size() ? shape.logit_rows : 0;
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
    hosts_[s] = {};
    const bool sends = s + 1 < stages.size() && sent > 0;
    work_[s] = {.time_ps = host != nullptr && cost_.launches > 0 ? launched(*host, hosts_[s]) : cost_.time_ps,
                .sent = {cost_.wire_bytes, cost_.exchange_bytes},
                .send_ps = sends ? send_ps_(sent, shape.mode) : 0,
                .send_bytes = sends ? sent * token_bytes_ : 0};
  }
}

ExactTime StagePipe::pass(ExactTime ready, const BatchShape& shape, const HostTime* host) {
  const std::vector<StageLayers>& stages = modes_[static_cast<std::size_t>(shape.mode)];
  price_stages(shape, stages, host);
  const ExactTime entered = ready;
  last_ready_ = ready;
  last_mode_ = shape.mode;
  last_work_ps_ = 0;
  last_host_ = {};
  last_times_.resize(stages.size());
  ExactTime left;
  for (std::size_t s = 0; s < stages.size(); ++s) {
    const ExactTime begin = wired_ != nullptr ? ready : std::max(ready, free_[s]);
    left = begin.plus(work_[s].time_ps, ps_per_tick_);
    if (wired_ == nullptr) free_[s] = left;
    last_times_[s] = {nanoseconds(begin, ps_per_tick_), nanoseconds(left, ps_per_tick_)};
    ready = left.plus(work_[s].send_ps, ps_per_tick_);
    last_work_ps_ += work_[s].time_ps;
    last_host_.calls += hosts_[s].calls;
    last_host_.beside_ps += hosts_[s].beside_ps;
    last_host_.device_ps += hosts_[s].device_ps;
    last_host_.queued2_ps += hosts_[s].queued2_ps;
  }
  if (wired_ == nullptr) book(entered, left);
  return left;
}

/// The last iteration was in it from then to then.
void StagePipe::book(const ExactTime& entered, const ExactTime& left) {
  const ExactTime from = std::max(entered, empty_from_);
  if (left > from) occupied_ps_ += left.minus(from, ps_per_tick_);
  empty_from_ = std::max(empty_from_, left);
  work_ps_ += static_cast<__int128>(last_work_ps_) * most_stages() / std::ssize(last_times_);
}

void StagePipe::left(const Passage& passage) {
  last_times_.resize(passage.end.size());
  last_work_ps_ = 0;
  for (std::size_t s = 0; s < last_times_.size(); ++s) {
    last_times_[s] = {nanoseconds(passage.begin[s], ps_per_tick_), nanoseconds(passage.end[s], ps_per_tick_)};
    last_work_ps_ += passage.end[s].minus(passage.begin[s], ps_per_tick_);
  }
  last_waited_ps_ = passage.waited_ps;
  book(passage.entered, passage.end.back());
}

void StagePipe::clear(ExactTime now) {
  if (wired_ != nullptr) {
    const ExactTime from = std::max(wired_->clear(now), empty_from_);
    if (now > from) occupied_ps_ += now.minus(from, ps_per_tick_);
    empty_from_ = now;
    return;
  }
  for (ExactTime& free : free_) free = std::min(free, now);
  if (empty_from_ > now) occupied_ps_ -= empty_from_.minus(now, ps_per_tick_);
  empty_from_ = std::min(empty_from_, now);
}

}  // namespace orrery::experiments
