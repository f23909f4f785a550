#include "experiments/systems/serving/replica/wired_stages.hpp"

#include <algorithm>
#include <utility>

namespace orrery::experiments {

WiredStages::WiredStages(std::vector<std::vector<StageWires>> modes, Books& books, std::int64_t ps_per_tick)
    : modes_(std::move(modes)), books_(books), ps_per_tick_(ps_per_tick) {
  std::size_t most = 0;
  for (const std::vector<StageWires>& stages : modes_) most = std::max(most, stages.size());
  lines_ = std::vector<Line>(most);
  ways_ = std::vector<Line>(most);
  for (std::size_t s = 0; s < most; ++s) {
    lines_[s].stages = ways_[s].stages = this;
    lines_[s].stage = ways_[s].stage = s;
    ways_[s].next = true;
  }
}

Wire& WiredStages::wire(const Line& line) const {
  const StageWires& wires = modes_[line.under->mode][line.stage];
  return line.next ? *wires.next : *wires.own;
}

void WiredStages::enter(ExactTime ready, std::int32_t mode, const std::vector<StageWork>& work,
                        Wire::Listener& listener) {
  auto under = std::make_unique<Under>();
  under->work = work;
  under->mode = static_cast<std::size_t>(mode);
  under->ready = under->passage.entered = ready;
  under->listener = &listener;
  take(lines_.front(), std::move(under));
}

void WiredStages::take(Line& line, std::unique_ptr<Under> under) {
  line.queue.push_back(std::move(under));
  if (line.under == nullptr) begin(line);
}

/// The first in the queue begins: what it takes beside its transfer comes first.
void WiredStages::begin(Line& line) {
  line.under = std::move(line.queue.front());
  line.queue.pop_front();
  Under& under = *line.under;
  const StageWork& work = under.work[line.stage];
  const ExactTime from = std::max(under.ready, line.free);
  const SentBytes bytes = line.next ? SentBytes{.ring = work.send_bytes} : work.sent;
  const std::int64_t alone = wire(line).alone_ps(bytes), whole = line.next ? work.send_ps : work.time_ps;
  if (!line.next) under.passage.begin.push_back(from);
  // What it takes longer than that is what others sent meanwhile.
  under.ready = from.plus(std::max(whole, alone), ps_per_tick_);
  wire(line).send(from.plus(std::max<std::int64_t>(0, whole - alone), ps_per_tick_), bytes, line);
}

void WiredStages::done(Line& line, ExactTime end) {
  std::unique_ptr<Under> under = std::move(line.under);
  line.free = end;
  if (end > under->ready) under->passage.waited_ps += end.minus(under->ready, ps_per_tick_);
  under->ready = end;
  if (!line.queue.empty()) begin(line);
  if (line.next) return take(lines_[line.stage + 1], std::move(under));
  under->passage.end.push_back(end);
  if (line.stage + 1 == under->work.size()) {
    books_.left(under->passage);
    return under->listener->sent(end);
  }
  if (under->work[line.stage].send_bytes > 0) return take(ways_[line.stage], std::move(under));
  take(lines_[line.stage + 1], std::move(under));
}

ExactTime WiredStages::clear(ExactTime now) {
  ExactTime first = now;
  for (std::vector<Line>* lines : {&lines_, &ways_}) {
    for (Line& line : *lines) {
      if (line.under != nullptr) {
        first = std::min(first, line.under->passage.entered);
        wire(line).forget();
      }
      for (const std::unique_ptr<Under>& waits : line.queue) first = std::min(first, waits->passage.entered);
      line.under = nullptr;
      line.queue.clear();
      line.free = std::min(line.free, now);
    }
  }
  return first;
}

}  // namespace orrery::experiments
